//! Compiles kinds in two passes: first the RDNs with the values that they use, checked to be unique; then everything
//! else, which may refer to the DNs of any kind.

use std::collections::{HashMap, HashSet};

use super::items::{self, Place};
use super::{Context, ENTRY};
use crate::body::{Body, Presence, SlotValue};
use crate::model::{Attribute, Condition, Count, Item, Kind, Named, Parent, Pick, Piece, Tag};
use crate::problem::{Problem, suggestion};
use crate::tags::{self, KindFacts, SlotFacts, Slots};
use crate::tree::{self, Branch, Levels, ParentChooser, ParentRule};

/// Maximum number of levels of a kind that is its own parent; a greater depth is an error.
const LEVELS: u32 = 250;

/// Returns each kind with the size of its largest entry in bytes.
pub fn compile(context: &Context<'_>, counts: &[u64], branches: &[Branch]) -> Result<Vec<(tree::Kind, u64)>, Problem> {
    let facts = facts(context, counts, branches)?;
    distinct(context)?;
    let mut start = branches.len() as u64;
    let mut found = Vec::new();
    for place in 0..counts.len() {
        let compiling = KindCompiler { context, facts: &facts, place, branches };
        let (mut kind, most) = compiling.kind()?;
        kind.start = start;
        start += kind.count;
        found.push((kind, most));
    }
    Ok(found)
}

/// Collects the name, the number of entries and the maximum DN length of each kind.
fn facts(context: &Context<'_>, counts: &[u64], branches: &[Branch]) -> Result<Vec<KindFacts>, Problem> {
    let mut names: HashSet<&str> = HashSet::new();
    for kind in &context.template.kinds {
        if !names.insert(&kind.name) {
            return Err(context.wrong(kind.spot, format!("there are two kinds {:?}", kind.name)));
        }
    }
    let kinds = context.template.kinds.iter().zip(counts);
    let mut facts: Vec<KindFacts> =
        kinds.map(|(kind, &count)| KindFacts { name: kind.name.clone(), count, dn: 0 }).collect();
    for place in 0..facts.len() {
        let compiling = KindCompiler { context, facts: &facts, place, branches };
        let dn = compiling.longest_dn()?;
        facts[place].dn = dn;
    }
    Ok(facts)
}

/// State of compiling one kind.
#[derive(Clone, Copy)]
struct KindCompiler<'a> {
    context: &'a Context<'a>,
    facts: &'a [KindFacts],
    place: usize,
    branches: &'a [Branch],
}

/// The slots of a kind that have been compiled so far.
#[derive(Default)]
struct KindSlots {
    slots: Vec<SlotValue>,
    known: Slots,
}

impl<'a> KindCompiler<'a> {
    fn declared(&self) -> &'a Kind {
        &self.context.template.kinds[self.place]
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Problem {
        let kind = self.declared();
        self.context.wrong(kind.spot, format!("kind {:?}: {message}", kind.name))
    }

    fn kind(&self) -> Result<(tree::Kind, u64), Problem> {
        let declared = self.declared();
        let mut drawn = KindSlots::default();
        for value in &declared.values {
            self.draw(&mut drawn, value)?;
        }
        let (rdn, naming) = self.rdn(&mut drawn)?;
        let mut attributes = self.place(&drawn.known).attributes(&declared.attributes)?;
        let mut most = self.facts[self.place].dn.saturating_mul(2);
        for (declared, compiled) in declared.attributes.iter().zip(&attributes) {
            most = most.saturating_add(items::most(declared, compiled));
        }
        if most > ENTRY {
            return Err(self.wrong(format!("an entry could have {most} bytes; the most is {ENTRY}")));
        }
        for (description, slot) in &rdn {
            let mut all = attributes.iter_mut();
            if let Some(found) = all.find(|one| one.description.as_bytes() == description) {
                found.name_by(*slot);
            }
        }
        let kind = tree::Kind {
            name: declared.name.clone(),
            start: 0,
            count: self.facts[self.place].count,
            structural: declared.structural.clone(),
            rdn,
            naming,
            above: self.above()?,
            body: Body { slots: drawn.slots, attributes },
        };
        Ok((kind, most))
    }

    fn place<'s>(&'s self, slots: &'s Slots) -> Place<'s> {
        let (context, kinds) = (self.context, self.facts);
        let head = ["kind", self.declared().name.as_str()];
        Place { context, head, slots, kinds, kind: Some(self.place) }
    }

    /// Adds a slot for a named value of the entry.
    fn draw(&self, drawn: &mut KindSlots, value: &Named) -> Result<(), Problem> {
        let (name, item) = (value.name.as_str(), &value.item);
        let problem = |reason| self.context.wrong(item.spot, format!("{name}: {reason}"));
        if item.count.is_some() {
            return Err(problem("a value that is drawn once has no count".to_owned()));
        }
        if drawn.known.contains_key(name) {
            return Err(problem("occurs twice".to_owned()));
        }
        let (names, place) = (["value", name], self.place(&drawn.known));
        let text = place.text(&item.text, &names).map_err(problem)?;
        let gate = place.gate(item, &names, &[]).map_err(problem)?;
        if text.most > ENTRY {
            return Err(problem(format!("it could have {} bytes; the most is {ENTRY}", text.most)));
        }
        let facts = SlotFacts { at: drawn.slots.len(), most: text.most, printable: text.printable };
        drawn.known.insert(name.to_owned(), facts);
        drawn.slots.push(SlotValue { gate, text });
        Ok(())
    }

    /// Returns the attributes of the RDN with their slots, and all slots needed to write the RDN.
    #[allow(clippy::type_complexity, reason = "two lists")]
    fn rdn(&self, drawn: &mut KindSlots) -> Result<(Vec<(Vec<u8>, usize)>, Vec<usize>), Problem> {
        let declared = self.declared();
        let (mut rdn, mut naming): (Vec<(Vec<u8>, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
        for attribute in named_by(self.context, declared)? {
            let item = &attribute.items[0];
            for place in needed(declared, &item.text) {
                let Named { name, item } = &declared.values[place];
                check(self.context, name, item)?;
                naming.push(place);
            }
            let slot = match item.text[..] {
                [Piece::Tag(Tag::Value { ref name })] if drawn.known.contains_key(name) => drawn.known[name].at,
                _ => self.naming_slot(drawn, attribute)?,
            };
            naming.push(slot);
            rdn.push((attribute.description.clone().into_bytes(), slot));
        }
        naming.sort_unstable();
        naming.dedup();
        Ok((rdn, naming))
    }

    /// Adds a slot for a naming attribute, so that the RDN and the attribute get the same value.
    fn naming_slot(&self, drawn: &mut KindSlots, attribute: &Attribute) -> Result<usize, Problem> {
        let (description, item) = (attribute.description.as_str(), &attribute.items[0]);
        let names = ["attribute", description, "0"];
        let text = self.place(&drawn.known).text(&item.text, &names);
        let problem = |reason| self.context.wrong(item.spot, format!("{description}: {reason}"));
        drawn.slots.push(SlotValue { gate: Presence::default(), text: text.map_err(problem)? });
        Ok(drawn.slots.len() - 1)
    }

    fn longest_dn(&self) -> Result<u64, Problem> {
        let mut drawn = KindSlots::default();
        let declared = self.declared();
        let mut wanted: HashSet<usize> = HashSet::new();
        for attribute in named_by(self.context, declared)? {
            wanted.extend(needed(declared, &attribute.items[0].text));
        }
        for (place, value) in declared.values.iter().enumerate() {
            if wanted.contains(&place) {
                self.draw(&mut drawn, value)?;
            }
        }
        let mut rdn = 0_u64;
        for attribute in named_by(self.context, declared)? {
            let slot = self.naming_slot(&mut drawn, attribute)?;
            // In the worst case every character is escaped; the attribute name, `=` and a comma are added.
            let value = drawn.slots[slot].text.most.saturating_mul(3);
            rdn = rdn.saturating_add(value).saturating_add(attribute.description.len() as u64 + 2);
        }
        let branch = |place: usize| self.branches.get(place).map_or(0, |one| one.dn.len() as u64);
        let above = match &declared.parent {
            Parent::Branch(place) => branch(*place),
            Parent::Kind { name, .. } => self.facts[self.above_kind(name)?].dn,
            Parent::Itself { branch: place, levels, .. } => {
                branch(*place).saturating_add(rdn.saturating_mul(u64::from(*levels)))
            }
        };
        Ok(rdn.saturating_add(above))
    }

    fn above_kind(&self, name: &str) -> Result<usize, Problem> {
        let before = &self.facts[..self.place];
        before.iter().position(|kind| kind.name == name).ok_or_else(|| {
            let known = before.iter().map(|kind| kind.name.as_str());
            let hint = suggestion(name, known);
            self.wrong(format!("there is no kind {name:?} before it{hint}"))
        })
    }

    fn above(&self) -> Result<ParentRule, Problem> {
        let own = self.facts[self.place].count;
        let stream = self.context.stream(&["kind", &self.declared().name, "parent"]);
        match &self.declared().parent {
            Parent::Branch(branch) => Ok(ParentRule::Branch(*branch)),
            Parent::Kind { name, pick } => {
                let kind = self.above_kind(name)?;
                let of = self.facts[kind].count;
                if of == 0 && own > 0 {
                    return Err(self.wrong(format!("there are no entries of kind {name:?}")));
                }
                let chooser = ParentChooser::new(*pick, stream, own, of.max(1));
                Ok(ParentRule::Kind { kind, chooser: chooser.map_err(|reason| self.wrong(reason))? })
            }
            Parent::Itself { branch, levels, pick } => {
                if !(1..=LEVELS).contains(levels) {
                    return Err(self.wrong(format!("write 1 to {LEVELS} levels")));
                }
                let levels = Levels::new(own, *levels, *pick, stream);
                let levels = levels.map_err(|reason| self.wrong(reason))?;
                Ok(ParentRule::Itself { branch: *branch, levels })
            }
        }
    }
}

/// Maximum number of attributes in an RDN; more are an error.
const PARTS: usize = 8;

/// Returns the attributes of the RDN, in the order of the template.
fn named_by<'a>(context: &Context<'_>, kind: &'a Kind) -> Result<Vec<&'a Attribute>, Problem> {
    let wrong = |reason: String| context.wrong(kind.spot, format!("kind {:?}: {reason}", kind.name));
    if kind.rdn.is_empty() {
        return Err(wrong("rdn is missing".to_owned()));
    }
    if kind.rdn.len() > PARTS {
        return Err(wrong(format!("more than {PARTS} attributes in a name")));
    }
    let stands_before =
        |place: &usize| kind.rdn[..*place].iter().any(|one| one.eq_ignore_ascii_case(&kind.rdn[*place]));
    if let Some(place) = (0..kind.rdn.len()).find(stands_before) {
        return Err(wrong(format!("{} occurs twice in rdn", kind.rdn[place])));
    }
    let found: Vec<&Attribute> =
        kind.rdn.iter().map(|name| attribute(context, kind, name)).collect::<Result<_, _>>()?;
    let is_unique = found.iter().any(|one| is_unique(kind, &one.items[0].text));
    if !is_unique && !is_only(kind) {
        let reason = "names the entries: without {number} or {unique:...} two could be equal";
        let names = kind.rdn.join(" and ");
        return Err(context.wrong(found[0].items[0].spot, format!("{names} {reason}")));
    }
    Ok(found)
}

/// Whether every parent has just one entry of this kind, so that all of them may have the same RDN.
const fn is_only(kind: &Kind) -> bool {
    match (&kind.count, &kind.parent) {
        (Count::Fixed(1), _) => true,
        (Count::Each(1), Parent::Kind { pick, .. }) => matches!(pick, Pick::Each),
        _ => false,
    }
}

fn attribute<'a>(context: &Context<'_>, kind: &'a Kind, name: &str) -> Result<&'a Attribute, Problem> {
    let same = |one: &&Attribute| one.description.eq_ignore_ascii_case(name);
    let Some(found) = kind.attributes.iter().find(same) else {
        let known = kind.attributes.iter().map(|one| one.description.as_str());
        let hint = suggestion(name, known);
        let reason = format!("kind {:?}: {name} must be an attribute of the entry{hint}", kind.name);
        return Err(context.wrong(kind.spot, reason));
    };
    let Some(first) = found.items.first() else {
        return Err(context.wrong(found.spot, format!("{name} names the entries and has no value")));
    };
    check(context, name, first)?;
    Ok(found)
}

/// Checks that a naming text, and all values in it, are present in every entry.
fn check(context: &Context<'_>, name: &str, item: &Item) -> Result<(), Problem> {
    let is_always = item.chance >= 1.0 && item.conditions.is_empty();
    if !is_always || item.count.is_some() {
        let reason = format!("{name} names the entries: it must always be present, once");
        return Err(context.wrong(item.spot, reason));
    }
    if item.text.windows(2).any(run_together) {
        let reason = "a number next to {number} needs a width: two entries could have one name";
        return Err(context.wrong(item.spot, format!("{name}: {reason}")));
    }
    for piece in &item.text {
        let Piece::Tag(tag) = piece else { continue };
        if !tags::may_name(tag) {
            let reason = format!("{name} names the entries: it cannot contain a DN or bytes");
            return Err(context.wrong(item.spot, reason));
        }
    }
    Ok(())
}

/// Whether a pair of adjacent tags writes ambiguous text: numbers 1 and 12 look like 11 and 2.
fn run_together(pair: &[Piece]) -> bool {
    let is_count = |piece: &Piece| matches!(piece, Piece::Tag(Tag::Number { width: 0..=1, .. }));
    let is_open = |piece: &Piece| is_count(piece) || matches!(piece, Piece::Tag(Tag::Drawn { width: 0..=1, .. }));
    pair.iter().any(is_count) && pair.iter().all(is_open)
}

/// Returns an error if entries of two kinds could have the same RDN below the same parent.
fn distinct(context: &Context<'_>) -> Result<(), Problem> {
    let mut known: HashMap<String, &str> = HashMap::new();
    for kind in &context.template.kinds {
        let texts = named_by(context, kind)?.into_iter().map(|one| {
            let values = needed(kind, &one.items[0].text).into_iter();
            let values: Vec<_> = values.map(|place| &kind.values[place]).collect();
            (one.description.to_lowercase(), &one.items[0].text, values)
        });
        let pattern = format!("{:?} {:?}", kind.parent, texts.collect::<Vec<_>>());
        if let Some(other) = known.insert(pattern, &kind.name) {
            let reason = format!("kind {:?}: its entries have the names of {other:?}", kind.name);
            return Err(context.wrong(kind.spot, reason));
        }
    }
    Ok(())
}

/// Returns the indexes of the entry's values that a text needs, in ascending order.
fn needed(kind: &Kind, text: &[Piece]) -> Vec<usize> {
    reached(kind, text, |_| true)
}

/// Returns the values that a text refers to by tags that `follows` accepts, directly or through other values.
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
    // A value refers only to values before it, so one backward pass finds all.
    for place in (0..kind.values.len()).rev() {
        if wanted[place] {
            let item = &kind.values[place].item;
            mark(&item.text, &item.conditions, &mut wanted[..place]);
        }
    }
    (0..wanted.len()).filter(|&place| wanted[place]).collect()
}

fn is_unique(kind: &Kind, text: &[Piece]) -> bool {
    let own = |text: &[Piece]| text.iter().any(|piece| matches!(piece, Piece::Tag(tag) if tags::is_unique(tag)));
    // Two different values may begin with the same characters.
    let values = reached(kind, text, |tag| !matches!(tag, Tag::Start { .. }));
    own(text) || values.iter().any(|&place| own(&kind.values[place].item.text))
}
