//! What names the entries of a kind: which values it takes, and whether two entries could get the same name.

use std::collections::HashMap;

use super::Context;
use crate::model::{self, Attribute, Condition, Count, Item, Kind, Parent, Pick, Piece, Tag};
use crate::problem::{Location, Problem, suggestion};
use crate::tags;

/// Attributes of a name, at most.
const PARTS: usize = 8;

/// The attributes of the RDN, in its order.
pub fn attributes<'a>(
    context: &Context<'_>,
    kind: &'a Kind,
) -> Result<Vec<&'a Attribute>, Problem> {
    if kind.rdn.is_empty() {
        return Err(context.wrong(kind.spot, format!("kind {:?}: rdn is missing", kind.name)));
    }
    if kind.rdn.len() > PARTS {
        let reason = format!("kind {:?}: more than {PARTS} attributes in a name", kind.name);
        return Err(context.wrong(kind.spot, reason));
    }
    let stands_before = |place: &usize| {
        kind.rdn[..*place].iter().any(|one| one.eq_ignore_ascii_case(&kind.rdn[*place]))
    };
    if let Some(place) = (0..kind.rdn.len()).find(stands_before) {
        let name = &kind.rdn[place];
        let reason = format!("kind {:?}: {name} stands twice in rdn", kind.name);
        return Err(context.wrong(kind.spot, reason));
    }
    let found: Vec<&Attribute> =
        kind.rdn.iter().map(|name| attribute(context, kind, name)).collect::<Result<_, _>>()?;
    let is_unique = found.iter().any(|one| is_unique(kind, &one.items[0].text));
    if !is_unique && !is_only(kind) {
        let reason = "names the entries: without {number} or {unique:...} two could have one name";
        let names = kind.rdn.join(" and ");
        return Err(context.wrong(found[0].items[0].spot, format!("{names} {reason}")));
    }
    Ok(found)
}

/// Whether its entries, with one name for all, have a parent each.
const fn is_only(kind: &Kind) -> bool {
    match (&kind.count, &kind.parent) {
        (Count::Fixed(1), _) => true,
        (Count::Each(1), Parent::Kind { pick, .. }) => matches!(pick, Pick::Each),
        _ => false,
    }
}

fn attribute<'a>(
    context: &Context<'_>,
    kind: &'a Kind,
    name: &str,
) -> Result<&'a Attribute, Problem> {
    let same = |one: &&Attribute| one.description.eq_ignore_ascii_case(name);
    let Some(found) = kind.attributes.iter().find(same) else {
        let known = kind.attributes.iter().map(|one| one.description.as_str());
        let hint = suggestion(name, known);
        let reason =
            format!("kind {:?}: {name} must be an attribute of the entry{hint}", kind.name);
        return Err(context.wrong(kind.spot, reason));
    };
    let Some(first) = found.items.first() else {
        return Err(context.wrong(found.spot, format!("{name} names the entries and has no value")));
    };
    check(context, name, first, first.spot)?;
    Ok(found)
}

/// A text that names must be there in every entry, and so must the values in it.
fn check(context: &Context<'_>, name: &str, item: &Item, spot: Location) -> Result<(), Problem> {
    let is_always = item.chance >= 1.0 && item.conditions.is_empty();
    if !is_always || item.count.is_some() {
        let reason = format!("{name} names the entries: it must always be there, once");
        return Err(context.wrong(spot, reason));
    }
    if item.text.windows(2).any(run_together) {
        let reason = "a number beside {number}: without a width, two entries could have one name";
        return Err(context.wrong(spot, format!("{name}: {reason}")));
    }
    for piece in &item.text {
        let Piece::Tag(tag) = piece else { continue };
        if !tags::may_name(tag) {
            let reason = format!("{name} names the entries: it cannot hold other names, or bytes");
            return Err(context.wrong(spot, reason));
        }
    }
    Ok(())
}

/// 1 and 12 look like 11 and 2.
fn run_together(pair: &[Piece]) -> bool {
    let is_count = |piece: &Piece| matches!(piece, Piece::Tag(Tag::Number { width: 0..=1, .. }));
    let is_open = |piece: &Piece| {
        is_count(piece) || matches!(piece, Piece::Tag(Tag::Drawn { width: 0..=1, .. }))
    };
    pair.iter().any(is_count) && pair.iter().all(is_open)
}

/// Checks a value that is part of a name, in the same way.
pub fn check_value(context: &Context<'_>, value: &model::Named) -> Result<(), Problem> {
    check(context, &value.name, &value.item, value.item.spot)
}

/// Two kinds whose entries have the same names in the same place.
pub fn distinct(context: &Context<'_>) -> Result<(), Problem> {
    let mut known: HashMap<String, &str> = HashMap::new();
    for kind in &context.template.kinds {
        let texts = attributes(context, kind)?.into_iter().map(|one| {
            let values = needed(kind, &one.items[0].text).into_iter();
            let values: Vec<_> = values.map(|place| &kind.values[place]).collect();
            (one.description.to_lowercase(), &one.items[0].text, values)
        });
        let said = format!("{:?} {:?}", kind.parent, texts.collect::<Vec<_>>());
        if let Some(other) = known.insert(said, &kind.name) {
            let reason = format!("kind {:?}: its entries have the names of {other:?}", kind.name);
            return Err(context.wrong(kind.spot, reason));
        }
    }
    Ok(())
}

/// The values of the entry that a text needs, in their order.
pub fn needed(kind: &Kind, text: &[Piece]) -> Vec<usize> {
    reached(kind, text, |_| true)
}

/// The values of the entry that a text names by tags of that sort, and so on.
fn reached(kind: &Kind, text: &[Piece], follows: fn(&Tag) -> bool) -> Vec<usize> {
    let names = kind.values.iter().enumerate().map(|(place, value)| (value.name.as_str(), place));
    let places: HashMap<&str, usize> = names.collect();
    let mut wanted = vec![false; kind.values.len()];
    let mark = |text: &[Piece], conditions: &[Condition], wanted: &mut [bool]| {
        let tags = text.iter().filter_map(|piece| match piece {
            Piece::Tag(tag) if follows(tag) => Some(tag),
            _ => None,
        });
        let conditions = conditions.iter().map(|condition| &condition.name);
        for name in tags.flat_map(tags::named).chain(conditions) {
            let place = places.get(name.as_str());
            if let Some(found) = place.and_then(|&place| wanted.get_mut(place)) {
                *found = true;
            }
        }
    };
    mark(text, &[], &mut wanted);
    // A value names only those before it, so one way back finds all.
    for place in (0..kind.values.len()).rev() {
        if wanted[place] {
            let item = &kind.values[place].item;
            mark(&item.text, &item.conditions, &mut wanted[..place]);
        }
    }
    (0..wanted.len()).filter(|&place| wanted[place]).collect()
}

fn is_unique(kind: &Kind, text: &[Piece]) -> bool {
    let own = |text: &[Piece]| {
        text.iter().any(|piece| matches!(piece, Piece::Tag(tag) if tags::is_unique(tag)))
    };
    // The first characters of two different values can be the same.
    let values = reached(kind, text, |tag| !matches!(tag, Tag::Start { .. }));
    own(text) || values.iter().any(|&place| own(&kind.values[place].item.text))
}
