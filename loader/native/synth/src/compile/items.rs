//! Texts, conditions and attributes: names become places.

use std::collections::HashSet;

use super::Context;
use crate::body::{Attribute, Count, Item, Presence, PresenceCondition, Text};
use crate::branch::is_description;
use crate::distribution::Distribution;
use crate::draw::Stream;
use crate::model::{self, Condition, Piece, Tag};
use crate::permute::Permutation;
use crate::problem::{Problem, suggestion};
use crate::tags::{self, Part, Scope, Slots};

/// Values of one item, at most.
const VALUES: u64 = 10_000_000;

pub fn constant(value: &[u8]) -> Item {
    let Part { step, most, printable } = Part::literal(value);
    let text = Text { steps: vec![step], most, printable };
    Item { gate: Presence::default(), lead: Vec::new(), text, count: None }
}

/// A text whose tags stand at places that `scope` describes by their numbers.
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

/// When something is there. `attributes`: descriptions of those before it.
pub fn gate(
    item: &model::Item,
    stream: Stream,
    slots: &Slots,
    attributes: &[Attribute],
) -> Result<Presence, String> {
    if !(0.0..=1.0).contains(&item.chance) {
        return Err(format!("a chance is a number from 0 to 1, not {}", item.chance));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^64")]
    let limit = (item.chance * 2_f64.powi(64)) as u64;
    let chance = (item.chance < 1.0).then_some((stream, limit));
    let checks = item.conditions.iter().map(|condition| check(condition, slots, attributes));
    Ok(Presence { chance, checks: checks.collect::<Result<_, _>>()? })
}

fn check(
    condition: &Condition,
    slots: &Slots,
    attributes: &[Attribute],
) -> Result<PresenceCondition, String> {
    let Condition { name, equals, unless } = condition;
    if let Some(slot) = slots.get(name) {
        return Ok(PresenceCondition::Slot {
            slot: slot.at,
            equals: equals.clone(),
            unless: *unless,
        });
    }
    let same = |one: &Attribute| one.description.eq_ignore_ascii_case(name);
    match attributes.iter().position(same) {
        Some(attribute) if equals.is_none() => {
            Ok(PresenceCondition::Attribute { attribute, unless: *unless })
        }
        Some(_) => Err(format!("{name} is an attribute: only values can be compared")),
        None => {
            let known = slots.keys().map(String::as_str);
            let known = known.chain(attributes.iter().map(|one| one.description.as_str()));
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            Err(format!(
                "there is no value or attribute {name:?} before it{}",
                suggestion(name, known)
            ))
        }
    }
}

/// All attributes of an entry. `scope` makes the scope of a place by its names.
pub fn attributes<'a>(
    context: &Context<'_>,
    said: &[model::Attribute],
    slots: &Slots,
    scope: impl Fn(&[&str]) -> Scope<'a>,
) -> Result<Vec<Attribute>, Problem> {
    let mut found: Vec<Attribute> = Vec::new();
    for attribute in said {
        let description = &attribute.description;
        if !is_description(description) {
            let reason = format!("{description:?} is not an attribute name");
            return Err(context.wrong(attribute.spot, reason));
        }
        if found.iter().any(|one| one.description.eq_ignore_ascii_case(description)) {
            let reason = format!("{description} stands twice (names differ in case only)");
            return Err(context.wrong(attribute.spot, reason));
        }
        let mut items = Vec::new();
        for (place, said) in attribute.items.iter().enumerate() {
            let place = place.to_string();
            let names = ["attribute", description.as_str(), place.as_str()];
            let made = item(said, &names, slots, &found, &scope);
            let told = |reason| context.wrong(said.spot, format!("{description}: {reason}"));
            items.push(made.map_err(told)?);
        }
        let may_repeat = may_repeat(&items);
        found.push(Attribute::new(description, items, may_repeat));
    }
    if !found.iter().any(|one| one.description.eq_ignore_ascii_case("objectClass")) {
        let spot = said.first().map(|attribute| attribute.spot).unwrap_or_default();
        return Err(context.wrong(spot, "objectClass is missing"));
    }
    Ok(found)
}

fn may_repeat(items: &[Item]) -> bool {
    let varied = items.iter().any(|item| item.count.is_some());
    let texts: Option<Vec<Vec<u8>>> = items.iter().map(|item| item.text.constant()).collect();
    let mut known = HashSet::new();
    let all_differ = texts
        .is_some_and(|texts| texts.into_iter().all(|text| known.insert(text.to_ascii_lowercase())));
    varied || (items.len() > 1 && !all_differ)
}

fn item<'a>(
    said: &model::Item,
    names: &[&str],
    slots: &Slots,
    before: &[Attribute],
    scope: &impl Fn(&[&str]) -> Scope<'a>,
) -> Result<Item, String> {
    let within = |part: &str| scope(&[names, &[part]].concat());
    let count = match &said.count {
        None => None,
        Some(count) if count.most() > VALUES => {
            return Err(format!("more than {VALUES} values"));
        }
        Some(_) if said.text.iter().any(is_slow) => {
            return Err("passwords that are made slowly on purpose have no count".to_owned());
        }
        Some(count) => {
            let is_histogram = matches!(count, Distribution::Histogram(_));
            let entries = scope(names).count();
            let spread = (is_histogram && entries > 1).then(|| Permutation::new(entries));
            Some(Count { stream: within("count").stream, drawer: count.drawer()?, spread })
        }
    };
    let gate = gate(said, within("chance").stream, slots, before)?;
    Ok(Item {
        gate,
        lead: Vec::new(),
        text: text(&said.text, |place| within(&place.to_string()))?,
        count,
    })
}

const fn is_slow(piece: &Piece) -> bool {
    matches!(piece, Piece::Tag(Tag::Argon2 { .. }))
}

/// Bytes of all values of an attribute, at most.
pub fn most(said: &model::Attribute, made: &Attribute) -> u64 {
    said.items.iter().zip(&made.items).fold(0, |sum, (said, item)| {
        let values = said.count.as_ref().map_or(1, crate::distribution::Distribution::most);
        // What is not printable becomes base64.
        let line =
            (item.text.most.saturating_mul(4) / 3).saturating_add(made.head.len() as u64 + 5);
        sum.saturating_add(values.saturating_mul(line))
    })
}
