//! Compiles texts, conditions and attributes, and replaces names by indexes.

use std::collections::HashSet;

use super::Context;
use super::branches::is_description;
use crate::body::{Attribute, Count, Item, Presence, PresenceCondition, Text};
use crate::distribution::Distribution;
use crate::model::{self, Condition, Piece, Tag};
use crate::permute::Permutation;
use crate::problem::{Problem, suggestion};
use crate::tags::{self, KindFacts, Part, Scope, Slots};

/// Maximum number of values of one item; more are an error.
const VALUES: u64 = 10_000_000;

pub fn constant(value: &[u8]) -> Item {
    let Part { step, most, printable } = Part::literal(value);
    let text = Text { steps: vec![step], most, printable };
    Item { gate: Presence::default(), lead: Vec::new(), text, count: None }
}

/// Compiles a text; `scope` returns the scope of the piece with a given index.
pub fn text<'a>(pieces: &[Piece], scope: impl Fn(usize) -> Scope<'a>) -> Result<Text, String> {
    let mut text = Text { printable: true, ..Text::default() };
    for (place, piece) in pieces.iter().enumerate() {
        let Part { step, most, printable } = match piece {
            Piece::Literal(bytes) => Part::literal(bytes),
            Piece::Tag(tag) => tags::compile(tag, &scope(place))?,
        };
        text.most = text.most.saturating_add(most);
        text.printable &= printable;
        text.steps.push(step);
    }
    Ok(text)
}

fn check(condition: &Condition, slots: &Slots, attributes: &[Attribute]) -> Result<PresenceCondition, String> {
    let Condition { name, equals, unless } = condition;
    if let Some(slot) = slots.get(name) {
        let (slot, equals, unless) = (slot.at, equals.clone(), *unless);
        return Ok(PresenceCondition::Slot { slot, equals, unless });
    }
    let same = |one: &Attribute| one.description.eq_ignore_ascii_case(name);
    match attributes.iter().position(same) {
        Some(attribute) if equals.is_none() => Ok(PresenceCondition::Attribute { attribute, unless: *unless }),
        Some(_) => Err(format!("{name} is an attribute: only values can be compared")),
        None => {
            let known = slots.keys().map(String::as_str);
            let known = known.chain(attributes.iter().map(|one| one.description.as_str()));
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            let hint = suggestion(name, known);
            Err(format!("there is no value or attribute {name:?} before it{hint}"))
        }
    }
}

/// The branch or kind that contains a text. In a kind, the text may refer to earlier values.
pub struct Place<'a> {
    pub context: &'a Context<'a>,
    /// The names that seed the random stream.
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
        text(pieces, |place| self.scope(&[names, &[place.to_string().as_str()]].concat()))
    }

    /// Compiles the condition for an item's presence. `before` are the attributes that precede it.
    pub fn gate(&self, item: &model::Item, names: &[&str], before: &[Attribute]) -> Result<Presence, String> {
        if !(0.0..=1.0).contains(&item.chance) {
            return Err(format!("a chance is a number from 0 to 1, not {}", item.chance));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "to 2^64")]
        let limit = (item.chance * 2_f64.powi(64)) as u64;
        let stream = self.scope(&[names, &["chance"]].concat()).stream;
        let chance = (item.chance < 1.0).then_some((stream, limit));
        let checks = item.conditions.iter().map(|condition| check(condition, self.slots, before));
        Ok(Presence { chance, checks: checks.collect::<Result<_, _>>()? })
    }

    /// Compiles all attributes of an entry.
    pub fn attributes(&self, declared: &[model::Attribute]) -> Result<Vec<Attribute>, Problem> {
        let mut found: Vec<Attribute> = Vec::new();
        for attribute in declared {
            let description = &attribute.description;
            let wrong = |reason: String| self.context.wrong(attribute.spot, reason);
            if !is_description(description) {
                return Err(wrong(format!("{description:?} is not an attribute name")));
            }
            if found.iter().any(|one| one.description.eq_ignore_ascii_case(description)) {
                let reason = format!("{description} occurs twice (names differ in case only)");
                return Err(wrong(reason));
            }
            let mut items = Vec::new();
            for (number, declared) in attribute.items.iter().enumerate() {
                let number = number.to_string();
                let item = self.item(declared, &["attribute", description, &number], &found);
                let problem = |reason| self.context.wrong(declared.spot, format!("{description}: {reason}"));
                items.push(item.map_err(problem)?);
            }
            let may_repeat = may_repeat(&items);
            found.push(Attribute::new(description, items, may_repeat));
        }
        if !found.iter().any(|one| one.description.eq_ignore_ascii_case("objectClass")) {
            let spot = declared.first().map(|attribute| attribute.spot).unwrap_or_default();
            return Err(self.context.wrong(spot, "objectClass is missing"));
        }
        Ok(found)
    }

    fn item(&self, declared: &model::Item, names: &[&str], before: &[Attribute]) -> Result<Item, String> {
        let count = match &declared.count {
            None => None,
            Some(count) if count.most() > VALUES => {
                return Err(format!("more than {VALUES} values"));
            }
            Some(_) if declared.text.iter().any(|piece| matches!(piece, Piece::Tag(Tag::Argon2 { .. }))) => {
                return Err("an Argon2 password must be a single value, without a count".to_owned());
            }
            Some(count) => {
                let is_histogram = matches!(count, Distribution::Histogram(_));
                let scope = self.scope(&[names, &["count"]].concat());
                let entries = scope.count();
                let spread = (is_histogram && entries > 1).then(|| Permutation::new(entries));
                Some(Count { stream: scope.stream, drawer: count.drawer()?, spread })
            }
        };
        let gate = self.gate(declared, names, before)?;
        Ok(Item { gate, lead: Vec::new(), text: self.text(&declared.text, names)?, count })
    }
}

fn may_repeat(items: &[Item]) -> bool {
    let varied = items.iter().any(|item| item.count.is_some());
    let mut known = HashSet::new();
    let mut is_new = |text: Vec<u8>| known.insert(text.to_ascii_lowercase());
    let all_differ = items.iter().all(|item| item.text.constant().is_some_and(&mut is_new));
    varied || (items.len() > 1 && !all_differ)
}

/// Returns the maximum number of bytes that all values of an attribute can have together.
pub fn most(declared: &model::Attribute, compiled: &Attribute) -> u64 {
    declared.items.iter().zip(&compiled.items).fold(0, |sum, (declared, item)| {
        let values = declared.count.as_ref().map_or(1, Distribution::most);
        // A value that is not printable is written in base64.
        let line = (item.text.most.saturating_mul(4) / 3).saturating_add(compiled.head.len() as u64 + 5);
        sum.saturating_add(values.saturating_mul(line))
    })
}
