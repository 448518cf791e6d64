//! One kind of entries as a table of the template: every attribute with its text, how often, how many values.

mod described;
mod origin;
mod shared;
mod values;

use common::Result;

use crate::columns::SampledEntries;
use crate::kind::{Attribute, Kind};
use crate::registry::Registry;
use crate::schemes::{is_made_by_servers, is_signed};
use crate::shapes::{LEAST_SEEN, shapes};
use crate::text::{Subject, text, unique};
use crate::token;
use crate::toml::{decimal, histogram};
use crate::tree_shape::PlacedKind;
pub use described::{Created, Described, Item, Line};

/// What is the same for all kinds.
#[derive(Debug)]
pub struct Means<'a> {
    /// The path of the suffix.
    pub root: String,
    /// Names of kinds by the path where their entries stand.
    pub kinds: &'a [(String, String)],
    pub registry: &'a mut Registry,
}

struct Describing<'a, 'm> {
    kind: &'a Kind,
    name: &'a str,
    columns: SampledEntries,
    /// As they are spelled, by their number.
    names: &'a [String],
    /// Attributes that others may repeat, in their order.
    earlier: Vec<usize>,
    means: &'a mut Means<'m>,
}

pub fn describe(grown: &PlacedKind<'_>, name: &str, means: &mut Means<'_>) -> Result<Described> {
    let columns = SampledEntries::of(grown.kind)?;
    let spelled = |lower: &String| grown.kind.attributes[lower.as_str()].spelling.to_string();
    let names: Vec<String> = columns.names.iter().map(spelled).collect();
    let kind = grown.kind;
    let mut work = Describing { kind, name, columns, names: &names, earlier: Vec::new(), means };
    let rdn: Vec<String> = grown
        .key
        .path
        .split(',')
        .next()
        .unwrap_or_default()
        .split('+')
        .map(str::to_owned)
        .collect();
    Ok(work.all(&rdn))
}

impl<'a> Describing<'a, '_> {
    fn all(&mut self, rdn: &[String]) -> Described {
        let mut lines: Vec<(usize, Line)> = Vec::new();
        let mut found = Described {
            structural: self.structural(),
            created: self.created(),
            ..Described::default()
        };
        for name in rdn {
            let number = self.columns.names.iter().position(|known| known == name);
            let spelled = number.map_or(name.clone(), |number| self.names[number].clone());
            found.rdn.push(spelled.clone());
            lines.push((number.unwrap_or(usize::MAX), self.naming(number, spelled)));
        }
        for number in self.order() {
            if lines.iter().all(|(done, _)| *done != number) {
                if let Some(line) = self.line(number) {
                    lines.push((number, line));
                }
            }
        }
        self.share(&mut lines, &mut found);
        found.attributes = lines.into_iter().map(|(_, line)| line).collect();
        found.attributes.sort_by_key(|line| line.name.to_ascii_lowercase());
        found
    }

    fn attribute(&self, number: usize) -> &'a Attribute {
        &self.kind.attributes[self.columns.names[number].as_str()]
    }

    /// Simple ones before those that may be made of them.
    fn order(&self) -> Vec<usize> {
        const LOOKED_AT: usize = 100;
        let mut tokens = Vec::new();
        let mut size = |number: usize| {
            let all: usize = self
                .columns
                .values(number)
                .take(LOOKED_AT)
                .map(|value| {
                    token::shape(value, &mut tokens).map_or(token::MOST_TOKENS, |_| tokens.len())
                })
                .sum();
            all * 10 / self.columns.values(number).take(LOOKED_AT).count().max(1)
        };
        let mut order: Vec<_> =
            (0..self.columns.names.len()).map(|number| (size(number), number)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// An attribute that names an entry: no two have the same.
    fn naming(&mut self, number: Option<usize>, name: String) -> Line {
        let Some(number) = number else {
            let text = "{number}".to_owned();
            return Line {
                name,
                texts: vec![Item { text, chance: 1.0, count: String::new() }],
                note: String::new(),
            };
        };
        let found = shapes(&self.columns, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let made = unique(&found, &subject, self.means.registry);
        self.offer(number);
        let mut texts = vec![Item { text: made, chance: 1.0, count: String::new() }];
        let attribute = self.attribute(number);
        let more = attribute.values.saturating_sub(self.kind.entries);
        if more >= LEAST_SEEN {
            let subject = self.subject(number, &stem);
            let text = text(&found, &Subject { single: false, ..subject }, self.means.registry);
            texts.push(Item {
                text,
                chance: share(more, self.kind.entries).min(1.0),
                count: String::new(),
            });
        }
        Line { name, texts, note: self.note(number) }
    }

    fn line(&mut self, number: usize) -> Option<Line> {
        let name = self.columns.names[number].clone();
        let (entries, values, binary) = {
            let attribute = self.attribute(number);
            (attribute.entries, attribute.values, attribute.binary)
        };
        if entries < LEAST_SEEN || is_made_by_servers(&name) || is_signed(&name) {
            return None;
        }
        let chance = share(entries, self.kind.entries);
        if name == "objectclass" {
            return Some(self.classes());
        }
        let text = if binary * 2 > values { self.binary(number) } else { self.text(number) };
        let counts = &self.attribute(number).counts;
        let count = if counts.only() == Some(1) { String::new() } else { histogram(counts) };
        let texts = vec![Item { text, chance, count }];
        Some(Line { name: self.names[number].clone(), texts, note: self.note(number) })
    }

    fn stem(&self, number: usize) -> String {
        format!("{}-{}", self.name, self.columns.names[number].replace([';', '.'], "-"))
    }

    fn subject<'s>(&self, number: usize, stem: &'s str) -> Subject<'s>
    where
        'a: 's,
    {
        let attribute = self.attribute(number);
        Subject {
            stem,
            names: self.names,
            single: attribute.counts.only() == Some(1),
            distinct: attribute.distinct.estimate(),
            entries: self.kind.entries,
        }
    }

    fn note(&self, number: usize) -> String {
        let attribute = self.attribute(number);
        let share = share(attribute.entries, self.kind.entries) * 100.0;
        let distinct = attribute.distinct.estimate() * 100 / attribute.values.max(1);
        let distinct = if distinct >= 99 {
            "all distinct".to_owned()
        } else {
            format!("{distinct} % distinct")
        };
        format!("in {} % of entries, {distinct}", decimal(share, 1))
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
