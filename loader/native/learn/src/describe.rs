//! Describes a kind of entries as a table of the template: its attributes with texts, frequencies and counts.

use common::Result;

use crate::schemes::{is_certificate, is_made_by_servers, is_signed, structural};
use crate::shapes::{LEAST_SEEN, SampledEntries, shapes};
use crate::statistics::{Attribute, Kind};
use crate::template::{Choice, Registry, decimal};
use crate::text::{Subject, text, unique};
use crate::token;
use crate::tree_shape::PlacedKind;
use crate::value::{ValueKind, hash_lengths, sort};

/// State that the descriptions of all kinds share.
pub struct DescribeContext<'a> {
    /// The RDN types of the suffix.
    pub root: String,
    /// The name of the kind at each path.
    pub kinds: &'a [(String, String)],
    pub registry: &'a mut Registry,
}

/// A kind as described in the template, except for its parent.
#[derive(Default)]
pub struct Described {
    pub rdn: Vec<String>,
    pub structural: Option<String>,
    /// When the entries were created.
    pub created: Option<Created>,
    /// Values that several attributes contain.
    pub values: Vec<(String, String)>,
    pub attributes: Vec<Line>,
}

/// The years in which entries were created, and whether one load created all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub first: u32,
    pub last: u32,
    pub at_once: bool,
}

pub struct Line {
    pub name: String,
    /// The texts; if there are two, the first one is for the naming value.
    pub texts: Vec<Item>,
    pub note: String,
}

#[derive(Debug, Clone)]
pub struct Item {
    pub text: String,
    pub chance: f64,
    /// A histogram of the number of values; empty if every entry has one.
    pub count: String,
}

impl Item {
    fn once(text: String, chance: f64) -> Self {
        Self { text, chance, count: String::new() }
    }
}

struct Describing<'a, 'm> {
    kind: &'a Kind,
    name: &'a str,
    columns: SampledEntries,
    /// Attribute names by number, as spelled in the source.
    names: &'a [String],
    /// Earlier attributes whose values later attributes may repeat.
    earlier: Vec<usize>,
    context: &'a mut DescribeContext<'m>,
}

pub fn describe(grown: &PlacedKind<'_>, name: &str, context: &mut DescribeContext<'_>) -> Result<Described> {
    let kind = grown.kind;
    let columns = SampledEntries::of(kind)?;
    let spelled = |lower: &String| kind.attributes[lower.as_str()].spelling.to_string();
    let names: Vec<String> = columns.names.iter().map(spelled).collect();
    let mut work = Describing { kind, name, columns, names: &names, earlier: Vec::new(), context };
    Ok(work.all(grown.key.path.split(',').next().unwrap_or_default()))
}

impl<'a> Describing<'a, '_> {
    /// Describes the kind. `rdn` has the naming attribute types, joined by `+`.
    fn all(&mut self, rdn: &str) -> Described {
        let mut lines: Vec<(usize, Line)> = Vec::new();
        let mut found = Described { structural: self.structural(), created: self.created(), ..Described::default() };
        for name in rdn.split('+') {
            let number = self.number(name);
            let spelled = number.map_or(name, |number| &self.names[number]).to_owned();
            found.rdn.push(spelled.clone());
            lines.push((number.unwrap_or(usize::MAX), self.naming(number, spelled)));
        }
        for number in self.order() {
            if lines.iter().all(|(done, _)| *done != number) {
                lines.extend(self.line(number).map(|line| (number, line)));
            }
        }
        self.share(&mut lines, &mut found);
        found.attributes = lines.into_iter().map(|(_, line)| line).collect();
        found.attributes.sort_by_key(|line| line.name.to_ascii_lowercase());
        found
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.columns.names.iter().position(|known| known == name)
    }

    fn attribute(&self, number: usize) -> &'a Attribute {
        &self.kind.attributes[self.columns.names[number].as_str()]
    }

    /// Orders the attributes so that simple ones come before those that may repeat them.
    fn order(&self) -> Vec<usize> {
        const LOOKED_AT: usize = 100;
        let mut tokens = Vec::new();
        let mut size = |number: usize| {
            let tokens = self
                .columns
                .values(number)
                .take(LOOKED_AT)
                .map(|value| token::shape(value, &mut tokens).map_or(token::MOST_TOKENS, |_| tokens.len()));
            tokens.sum::<usize>() * 10 / self.columns.values(number).take(LOOKED_AT).count().max(1)
        };
        let mut order: Vec<_> = (0..self.columns.names.len()).map(|number| (size(number), number)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, number)| number).collect()
    }

    fn classes(&self) -> Line {
        let number = self.number("objectclass");
        let row = number.and_then(|number| self.columns.rows.first().map(|row| &row[number]));
        let fits =
            |text: &&String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        let texts = row.into_iter().flatten().filter(fits);
        let texts = texts.map(|text| Item::once(text.clone(), 1.0)).collect();
        Line { name: "objectClass".to_owned(), texts, note: String::new() }
    }

    /// Returns the structuralObjectClass of the entries, or else the structural class known from their object classes.
    fn structural(&self) -> Option<String> {
        let classes = self.classes();
        let classes: Vec<&str> = classes.texts.iter().map(|item| item.text.as_str()).collect();
        let stated = self.number("structuralobjectclass");
        let stated = stated.and_then(|number| self.columns.values(number).next());
        let stated = stated.filter(|stated| classes.iter().any(|class| class.eq_ignore_ascii_case(stated)));
        stated.or_else(|| structural(&classes)).map(str::to_owned)
    }

    /// Derives the period of creation from createTimestamp; if hundreds of entries share a time, a load created them.
    fn created(&self) -> Option<Created> {
        const OF_ONE_LOAD: u64 = 10;
        let number = self.number("createtimestamp")?;
        let values: Vec<&str> = self.columns.values(number).collect();
        let ValueKind::Time { first, last } = sort(&values, &self.context.root) else {
            return None;
        };
        let times = &self.attribute(number).distinct;
        let at_once = times.estimate() * OF_ONE_LOAD < self.kind.entries;
        Some(Created { first, last, at_once })
    }

    /// Describes a naming attribute, whose values must be unique.
    fn naming(&mut self, number: Option<usize>, name: String) -> Line {
        let Some(number) = number else {
            let texts = vec![Item::once("{number}".to_owned(), 1.0)];
            return Line { name, texts, note: String::new() };
        };
        let found = shapes(&self.columns, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let generated = unique(&found, &subject, self.context.registry);
        self.offer(number);
        let mut texts = vec![Item::once(generated, 1.0)];
        let more = self.attribute(number).values.saturating_sub(self.kind.entries);
        if more >= LEAST_SEEN {
            let text = text(&found, &Subject { single: false, ..subject }, self.context.registry);
            texts.push(Item::once(text, share(more, self.kind.entries).min(1.0)));
        }
        Line { name, texts, note: self.frequency(number) }
    }

    fn line(&mut self, number: usize) -> Option<Line> {
        let name = self.columns.names[number].as_str();
        let Attribute { entries, values, binary, counts, .. } = self.attribute(number);
        if *entries < LEAST_SEEN || is_made_by_servers(name) || is_signed(name) {
            return None;
        }
        if name == "objectclass" {
            return Some(self.classes());
        }
        let text = if binary * 2 > *values { self.binary(number) } else { self.text(number) };
        let count = if counts.only() == Some(1) { String::new() } else { counts.to_text() };
        let texts = vec![Item { text, chance: share(*entries, self.kind.entries), count }];
        Some(Line { name: self.names[number].clone(), texts, note: self.frequency(number) })
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

    fn frequency(&self, number: usize) -> String {
        let attribute = self.attribute(number);
        let share = decimal(share(attribute.entries, self.kind.entries) * 100.0, 1);
        match attribute.distinct.estimate() * 100 / attribute.values.max(1) {
            99.. => format!("in {share} % of entries, all distinct"),
            distinct => format!("in {share} % of entries, {distinct} % distinct"),
        }
    }

    /// Returns the template text for the values of attribute `number`; their kind decides on the tag.
    fn text(&mut self, number: usize) -> String {
        let values: Vec<&str> = self.columns.values(number).collect();
        if values.is_empty() {
            // All values were too long to be kept.
            let lengths = &self.attribute(number).lengths;
            return format!("{{chars:base64:histogram:{}}}", lengths.to_text());
        }
        match sort(&values, &self.context.root) {
            ValueKind::Boolean { yes } => {
                let text = |text: &str, weight: usize| (text.to_owned(), weight.max(1) as u64);
                let texts = vec![text("TRUE", yes), text("FALSE", 1000 - yes)];
                let (stem, choice) = (self.stem(number), Choice { texts, phrases: None });
                format!("{{shape:{}}}", self.context.registry.add_shapes(&stem, choice))
            }
            ValueKind::Time { first, last } => format!("{{time:{first}0101:{}0101}}", last + 1),
            ValueKind::Password { scheme } => self.password(scheme, &values),
            ValueKind::Dn(paths) => self.dn(&paths),
            ValueKind::Text => self.shaped(number),
        }
    }

    fn shaped(&mut self, number: usize) -> String {
        let found = shapes(&self.columns, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let generated = text(&found, &subject, self.context.registry);
        if subject.single && self.attribute(number).entries * 1000 >= self.kind.entries * 999 {
            self.offer(number);
        }
        generated
    }

    /// Returns a text for a hash of the scheme's length. If the scheme can be generated, the entry's name is hashed.
    fn password(&self, scheme: &'static str, values: &[&str]) -> String {
        let lengths = hash_lengths(values);
        match self.earlier.first() {
            Some(&number) if scheme == "SSHA" && lengths.only().is_some() => {
                format!("{{ssha:{}}}", self.names[number])
            }
            _ => format!("{{{{{scheme}}}}}{{chars:base64:histogram:{}}}", lengths.to_text()),
        }
    }

    /// Returns a text for the DN of an entry of the kind to which most values refer.
    fn dn(&self, paths: &[(String, usize)]) -> String {
        let kinds = self.context.kinds;
        let found = paths.iter().find_map(|(path, _)| kinds.iter().find(|(known, _)| known == path));
        match found.or(kinds.first()) {
            Some((_, kind)) => format!("{{dn:{kind}}}"),
            None => "{suffix}".to_owned(),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths")]
    fn binary(&self, number: usize) -> String {
        let lengths = &self.attribute(number).lengths;
        let (least, mean) = (lengths.least().max(1), lengths.mean().round() as u64);
        let is_certificate = is_certificate(&self.columns.names[number]);
        let tag = if is_certificate { "certificate" } else { "bytes" };
        format!("{{{tag}:{least}:{}}}", (2 * mean).saturating_sub(least).max(least))
    }

    /// Offers this attribute to later ones that may repeat it, unless its name cannot be in a text.
    fn offer(&mut self, number: usize) {
        let name = &self.names[number];
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.bytes().all(fits) && !synth::toml::is_tag(name) {
            self.earlier.push(number);
        }
    }

    /// Turns attributes that others repeat into named values of the entry.
    fn share(&self, lines: &mut [(usize, Line)], found: &mut Described) {
        for &number in &self.earlier {
            let name = &self.names[number];
            let tags = [format!("{{{name}}}"), format!("{{ascii:{name}}}"), format!("{{ssha:{name}}}")];
            let named = |text: &String| tags.iter().any(|tag| text.contains(tag.as_str()));
            let mut shaped = self.context.registry.shapes.iter().flat_map(|(_, choice)| &choice.texts);
            let mut items = lines.iter().flat_map(|(_, line)| &line.texts);
            if !shaped.any(|(text, _)| named(text)) && !items.any(|item| named(&item.text)) {
                continue;
            }
            if let Some((_, line)) = lines.iter_mut().find(|(one, _)| *one == number) {
                let text = std::mem::replace(&mut line.texts[0].text, format!("{{{name}}}"));
                found.values.push((name.clone(), text));
            }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
