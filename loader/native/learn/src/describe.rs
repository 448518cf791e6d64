//! Describes one kind of entry for the template: each attribute with its texts, its frequency and its number of values.

use common::Result;

use crate::LEAST_SEEN;
use crate::schemes::{is_certificate, is_made_by_servers, is_signed, structural};
use crate::shapes::{SampledEntries, shapes};
use crate::statistics::{Attribute, Kind};
use crate::template::{Choice, Registry, decimal};
use crate::text::{Subject, text, unique};
use crate::token;
use crate::tree_shape::PlacedKind;
use crate::value::{ValueKind, hash_lengths, sort};

/// Context shared by the descriptions of all kinds.
pub struct DescribeContext<'a> {
    /// The path of the suffix: the types of its RDNs, as in `dc,dc`.
    pub root: String,
    /// The path and the name of each kind, by descending number of entries.
    pub kinds: &'a [(String, String)],
    pub registry: &'a mut Registry,
}

/// The description of a kind in the template, without the number of entries and the parent.
#[derive(Default)]
pub struct Described {
    pub rdn: Vec<String>,
    pub structural: Option<String>,
    pub created: Option<Created>,
    /// Name and text of each value that several attributes contain.
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
    /// The texts of the values. The first text of a naming attribute is for the value in the RDN.
    pub texts: Vec<Item>,
    /// A comment for the reader of the template; may be empty.
    pub note: String,
}

#[derive(Debug, Clone)]
pub struct Item {
    pub text: String,
    pub chance: f64,
    /// A histogram of the number of values; empty if every entry with the attribute has one value.
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
    sample: SampledEntries,
    /// The name of each attribute of the sample, as spelled in the source.
    names: &'a [String],
    /// Indexes in `names` of the attributes whose values later attributes may repeat.
    earlier: Vec<usize>,
    context: &'a mut DescribeContext<'m>,
}

pub fn describe(placed: &PlacedKind<'_>, name: &str, context: &mut DescribeContext<'_>) -> Result<Described> {
    let kind = placed.kind;
    let sample = SampledEntries::of(kind)?;
    let spelled = |lower: &String| kind.attributes[lower.as_str()].spelling.to_string();
    let names: Vec<String> = sample.names.iter().map(spelled).collect();
    let mut describing = Describing { kind, name, sample, names: &names, earlier: Vec::new(), context };
    Ok(describing.all(placed.key.path.split(',').next().unwrap_or_default()))
}

impl<'a> Describing<'a, '_> {
    /// Describes the kind. `rdn` lists the naming attribute types, separated by `+`.
    fn all(&mut self, rdn: &str) -> Described {
        let mut lines: Vec<(usize, Line)> = Vec::new();
        let mut described =
            Described { structural: self.structural(), created: self.created(), ..Described::default() };
        for name in rdn.split('+') {
            let number = self.number(name);
            let spelled = number.map_or(name, |number| &self.names[number]).to_owned();
            described.rdn.push(spelled.clone());
            lines.push((number.unwrap_or(usize::MAX), self.naming(number, spelled)));
        }
        for number in self.order() {
            if lines.iter().all(|(described, _)| *described != number) {
                lines.extend(self.line(number).map(|line| (number, line)));
            }
        }
        described.values = self.name_repeated_values(&mut lines);
        described.attributes = lines.into_iter().map(|(_, line)| line).collect();
        described.attributes.sort_by_key(|line| line.name.to_ascii_lowercase());
        described
    }

    /// Returns the index of an attribute in the sample.
    fn number(&self, name: &str) -> Option<usize> {
        self.sample.names.iter().position(|known| known == name)
    }

    fn attribute(&self, number: usize) -> &'a Attribute {
        &self.kind.attributes[self.sample.names[number].as_str()]
    }

    /// Returns the indexes of the attributes in ascending order of the mean number of tokens per value, because values
    /// with many tokens may repeat values with few tokens.
    fn order(&self) -> Vec<usize> {
        const MOST_EXAMINED: usize = 100;
        let mut tokens = Vec::new();
        let mut size = |number: usize| {
            let tokens = self
                .sample
                .values(number)
                .take(MOST_EXAMINED)
                .map(|value| token::shape(value, &mut tokens).map_or(token::MOST_TOKENS, |_| tokens.len()));
            tokens.sum::<usize>() * 10 / self.sample.values(number).take(MOST_EXAMINED).count().max(1)
        };
        let mut order: Vec<_> = (0..self.sample.names.len()).map(|number| (size(number), number)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// Describes objectClass, from the first entry of the sample: all entries of a kind have the same classes.
    fn classes(&self) -> Line {
        let number = self.number("objectclass");
        let row = number.and_then(|number| self.sample.rows.first().map(|row| &row[number]));
        let fits =
            |text: &&String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        let texts = row.into_iter().flatten().filter(fits);
        let texts = texts.map(|text| Item::once(text.clone(), 1.0)).collect();
        Line { name: "objectClass".to_owned(), texts, note: String::new() }
    }

    /// Returns the value of structuralObjectClass if there is one, otherwise a well-known structural class.
    fn structural(&self) -> Option<String> {
        let classes = self.classes();
        let classes: Vec<&str> = classes.texts.iter().map(|item| item.text.as_str()).collect();
        let stated = self.number("structuralobjectclass");
        let stated = stated.and_then(|number| self.sample.values(number).next());
        let stated = stated.filter(|stated| classes.iter().any(|class| class.eq_ignore_ascii_case(stated)));
        stated.or_else(|| Some(structural(&classes)?.1)).map(str::to_owned)
    }

    /// Derives the period of creation from createTimestamp. One load created all entries if they have less than one
    /// distinct time per ten entries.
    fn created(&self) -> Option<Created> {
        const ENTRIES_PER_TIME: u64 = 10;
        let number = self.number("createtimestamp")?;
        let values: Vec<&str> = self.sample.values(number).collect();
        let ValueKind::Time { first, last } = sort(&values, &self.context.root) else {
            return None;
        };
        let at_once = self.attribute(number).distinct.estimate() * ENTRIES_PER_TIME < self.kind.entries;
        Some(Created { first, last, at_once })
    }

    /// Describes a naming attribute, whose values must be unique.
    fn naming(&mut self, number: Option<usize>, name: String) -> Line {
        let Some(number) = number else {
            let texts = vec![Item::once("{number}".to_owned(), 1.0)];
            return Line { name, texts, note: String::new() };
        };
        let shapes = shapes(&self.sample, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let mut texts = vec![Item::once(unique(&shapes, &subject, self.context.registry), 1.0)];
        self.offer(number);
        let others = self.attribute(number).values.saturating_sub(self.kind.entries);
        if others >= LEAST_SEEN {
            let text = text(&shapes, &Subject { single: false, ..subject }, self.context.registry);
            texts.push(Item::once(text, share(others, self.kind.entries).min(1.0)));
        }
        Line { name, texts, note: self.frequency(number) }
    }

    /// Describes an attribute. Returns None if the template must not contain it.
    fn line(&mut self, number: usize) -> Option<Line> {
        let name = self.sample.names[number].as_str();
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

    /// Returns the name of the attribute's shape, which is also the prefix of its vocabularies.
    fn stem(&self, number: usize) -> String {
        format!("{}-{}", self.name, self.sample.names[number].replace([';', '.'], "-"))
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

    /// Returns a note with the share of entries that have the attribute, and the share of distinct values.
    fn frequency(&self, number: usize) -> String {
        let attribute = self.attribute(number);
        let share = decimal(share(attribute.entries, self.kind.entries) * 100.0, 1);
        match attribute.distinct.estimate() * 100 / attribute.values.max(1) {
            99.. => format!("in {share} % of entries, all distinct"),
            distinct => format!("in {share} % of entries, {distinct} % distinct"),
        }
    }

    /// Returns the template text for the values of attribute `number`.
    fn text(&mut self, number: usize) -> String {
        let values: Vec<&str> = self.sample.values(number).collect();
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
        let shapes = shapes(&self.sample, number, &self.earlier);
        let stem = self.stem(number);
        let subject = self.subject(number, &stem);
        let text = text(&shapes, &subject, self.context.registry);
        if subject.single && self.attribute(number).entries * 1000 >= self.kind.entries * 999 {
            self.offer(number);
        }
        text
    }

    /// Returns a tag `ssha` for SSHA hashes of one length if an earlier attribute exists, otherwise a tag `chars`.
    fn password(&self, scheme: &'static str, values: &[&str]) -> String {
        let lengths = hash_lengths(values);
        match self.earlier.first() {
            Some(&number) if scheme == "SSHA" && lengths.only().is_some() => {
                format!("{{ssha:{}}}", self.names[number])
            }
            _ => format!("{{{{{scheme}}}}}{{chars:base64:histogram:{}}}", lengths.to_text()),
        }
    }

    /// Returns a tag for a DN. The DN belongs to an entry of the kind to which most values refer.
    fn dn(&self, paths: &[(String, usize)]) -> String {
        let kinds = self.context.kinds;
        let kind = paths.iter().find_map(|(path, _)| kinds.iter().find(|(known, _)| known == path));
        match kind.or(kinds.first()) {
            Some((_, kind)) => format!("{{dn:{kind}}}"),
            None => "{suffix}".to_owned(),
        }
    }

    /// Returns a tag for binary values. Their lengths are uniformly distributed; the minimum and the mean are those of
    /// the source.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths")]
    fn binary(&self, number: usize) -> String {
        let lengths = &self.attribute(number).lengths;
        let (least, mean) = (lengths.least().max(1), lengths.mean().round() as u64);
        let tag = if is_certificate(&self.sample.names[number]) { "certificate" } else { "bytes" };
        format!("{{{tag}:{least}:{}}}", (2 * mean).saturating_sub(least).max(least))
    }

    /// Lets later attributes repeat this attribute, unless a tag cannot have its name.
    fn offer(&mut self, number: usize) {
        let name = &self.names[number];
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.bytes().all(fits) && !synth::toml::is_tag(name) {
            self.earlier.push(number);
        }
    }

    /// Turns each text that other texts repeat into a named value. Returns the names and texts of these values.
    fn name_repeated_values(&self, lines: &mut [(usize, Line)]) -> Vec<(String, String)> {
        let mut values = Vec::new();
        for &number in &self.earlier {
            let name = &self.names[number];
            let tags = [format!("{{{name}}}"), format!("{{ascii:{name}}}"), format!("{{ssha:{name}}}")];
            let named = |text: &String| tags.iter().any(|tag| text.contains(tag.as_str()));
            let mut shaped = self.context.registry.shapes.iter().flat_map(|(_, choice)| &choice.texts);
            let mut items = lines.iter().flat_map(|(_, line)| &line.texts);
            if !shaped.any(|(text, _)| named(text)) && !items.any(|item| named(&item.text)) {
                continue;
            }
            if let Some((_, line)) = lines.iter_mut().find(|(other, _)| *other == number) {
                let text = std::mem::replace(&mut line.texts[0].text, format!("{{{name}}}"));
                values.push((name.clone(), text));
            }
        }
        values
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
