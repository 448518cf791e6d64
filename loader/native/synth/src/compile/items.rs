//! Compiles texts, conditions and attributes, and replaces names by indexes.

use super::Context;
use super::branches::is_description;
use crate::body::{Attribute, Count, Item, Presence, PresenceCondition, Text};
use crate::distribution::Distribution;
use crate::model::{self, Condition, Piece, Tag};
use crate::permute::Permutation;
use crate::problem::{Problem, suggestion};
use crate::tags::{self, KindFacts, Part, Scope, Slots};

/// An item that could have more values than this is refused.
const MOST_VALUES: u64 = 10_000_000;

/// Compiles a text. `scope` returns the scope of the piece with a given index.
pub fn text<'a>(pieces: &[Piece], scope: impl Fn(usize) -> Scope<'a>) -> Result<Text, String> {
    let mut text = Text { printable: true, ..Text::default() };
    for (index, piece) in pieces.iter().enumerate() {
        let Part { step, most, printable } = match piece {
            Piece::Literal(bytes) => Part::literal(bytes),
            Piece::Tag(tag) => tags::compile(tag, &scope(index))?,
        };
        text.most = text.most.saturating_add(most);
        text.printable &= printable;
        text.steps.push(step);
    }
    Ok(text)
}

fn is_named(description: &str) -> impl Fn(&Attribute) -> bool {
    move |attribute| attribute.description.eq_ignore_ascii_case(description)
}

/// Compiles a condition. `attributes` are the attributes before it.
fn condition(condition: &Condition, slots: &Slots, attributes: &[Attribute]) -> Result<PresenceCondition, String> {
    let Condition { name, equals, unless } = condition;
    if let Some(facts) = slots.get(name) {
        return Ok(PresenceCondition::Slot { slot: facts.slot, equals: equals.clone(), unless: *unless });
    }
    match attributes.iter().position(is_named(name)) {
        Some(attribute) if equals.is_none() => Ok(PresenceCondition::Attribute { attribute, unless: *unless }),
        Some(_) => Err(format!("{name} is an attribute: only values can be compared")),
        None => {
            let attributes = attributes.iter().map(|attribute| attribute.description.as_str());
            let mut known: Vec<&str> = slots.keys().map(String::as_str).chain(attributes).collect();
            known.sort_unstable();
            Err(format!("there is no value or attribute {name:?} before it{}", suggestion(name, known)))
        }
    }
}

/// The branch or kind that contains a text, and the data to which the text may refer.
pub struct Place<'a> {
    pub context: &'a Context<'a>,
    /// The first two names of every random stream of this branch or kind.
    pub head: [&'a str; 2],
    pub slots: &'a Slots,
    pub kinds: &'a [KindFacts],
    pub kind: Option<usize>,
}

impl Place<'_> {
    fn scope(&self, names: &[&str]) -> Scope<'_> {
        let Context { template, suffix, .. } = self.context;
        Scope {
            stream: self.context.stream(&[&self.head, names].concat()),
            suffix,
            lists: &template.lists,
            learned: &template.learned,
            slots: self.slots,
            kinds: self.kinds,
            kind: self.kind,
            in_shape: false,
        }
    }

    pub fn text(&self, pieces: &[Piece], names: &[&str]) -> Result<Text, String> {
        text(pieces, |index| self.scope(&[names, &[index.to_string().as_str()]].concat()))
    }

    /// Compiles the chance and the conditions of an item. `before` are the attributes before it.
    pub fn gate(&self, item: &model::Item, names: &[&str], before: &[Attribute]) -> Result<Presence, String> {
        if !(0.0..=1.0).contains(&item.chance) {
            return Err(format!("a chance is a number from 0 to 1, not {}", item.chance));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "to 2^64")]
        let limit = (item.chance * 2_f64.powi(64)) as u64;
        let stream = self.scope(&[names, &["chance"]].concat()).stream;
        let chance = (item.chance < 1.0).then_some((stream, limit));
        let conditions = item.conditions.iter().map(|declared| condition(declared, self.slots, before));
        Ok(Presence { chance, conditions: conditions.collect::<Result<_, _>>()? })
    }

    /// Compiles all attributes of an entry.
    pub fn attributes(&self, declared: &[model::Attribute]) -> Result<Vec<Attribute>, Problem> {
        let mut attributes: Vec<Attribute> = Vec::new();
        for attribute in declared {
            let description = &attribute.description;
            let wrong = |reason: String| self.context.wrong(attribute.spot, reason);
            if !is_description(description) {
                return Err(wrong(format!("{description:?} is not an attribute name")));
            }
            if attributes.iter().any(is_named(description)) {
                let reason = format!("{description} occurs twice (names differ in case only)");
                return Err(wrong(reason));
            }
            let mut items = Vec::new();
            for (number, declared) in attribute.items.iter().enumerate() {
                let number = number.to_string();
                let item = self.item(declared, &["attribute", description, &number], &attributes);
                let problem = |reason| self.context.wrong(declared.spot, format!("{description}: {reason}"));
                items.push(item.map_err(problem)?);
            }
            attributes.push(Attribute::new(description, items));
        }
        if !attributes.iter().any(is_named("objectClass")) {
            let spot = declared.first().map(|attribute| attribute.spot).unwrap_or_default();
            return Err(self.context.wrong(spot, "objectClass is missing"));
        }
        Ok(attributes)
    }

    fn item(&self, declared: &model::Item, names: &[&str], before: &[Attribute]) -> Result<Item, String> {
        let count = match &declared.count {
            None => None,
            Some(count) if count.most() > MOST_VALUES => return Err(format!("more than {MOST_VALUES} values")),
            Some(_) if declared.text.iter().any(|piece| matches!(piece, Piece::Tag(Tag::Argon2 { .. }))) => {
                return Err("an Argon2 password must be a single value, without a count".to_owned());
            }
            Some(count) => {
                let scope = self.scope(&[names, &["count"]].concat());
                let is_spread = matches!(count, Distribution::Histogram(_)) && scope.count() > 1;
                let spread = is_spread.then(|| Permutation::new(scope.count()));
                Some(Count { stream: scope.stream, drawer: count.drawer()?, spread })
            }
        };
        let gate = self.gate(declared, names, before)?;
        Ok(Item { gate, lead: Vec::new(), text: self.text(&declared.text, names)?, count })
    }
}

/// Returns the maximum size of all lines of an attribute, in bytes.
pub fn most(declared: &model::Attribute, compiled: &Attribute) -> u64 {
    declared.items.iter().zip(&compiled.items).fold(0, |sum, (declared, item)| {
        let values = declared.count.as_ref().map_or(1, Distribution::most);
        // A value that is not printable is written in base64.
        let line = (item.text.most.saturating_mul(4) / 3).saturating_add(compiled.head.len() as u64 + 5);
        sum.saturating_add(values.saturating_mul(line))
    })
}
