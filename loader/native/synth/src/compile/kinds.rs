//! Compiles the kinds in two passes. The first pass compiles the RDNs and their values, to check them and to get the
//! lengths of the DNs. The second pass compiles the entries, which may refer to the DNs of any kind.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::items::{self, Place};
use super::{Context, ENTRY};
use crate::body::{Body, Presence, SlotValue};
use crate::model::{Attribute, Condition, Count, Item, Kind, Named, Parent, Pick, Piece, Tag};
use crate::problem::{Problem, suggestion};
use crate::tags::{self, KindFacts, SlotFacts, Slots};
use crate::tree::{self, Branch, Levels, ParentChooser, ParentRule};

/// A kind that is its own parent has at most this many levels.
const MOST_LEVELS: u32 = 250;

/// Returns each kind with the size of its largest entry in bytes.
pub fn compile(context: &Context<'_>, counts: &[u64], branches: &[Branch]) -> Result<Vec<(tree::Kind, u64)>, Problem> {
    let facts = facts(context, counts, branches)?;
    check_names_of_kinds(context)?;
    let mut start = branches.len() as u64;
    let mut kinds = Vec::new();
    for (index, count) in counts.iter().enumerate() {
        kinds.push(KindCompiler { context, facts: &facts, index, branches }.kind(start)?);
        start += count;
    }
    Ok(kinds)
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
    for index in 0..facts.len() {
        facts[index].dn = KindCompiler { context, facts: &facts, index, branches }.longest_dn()?;
    }
    Ok(facts)
}

/// Compiles the kind with this index.
#[derive(Clone, Copy)]
struct KindCompiler<'a> {
    context: &'a Context<'a>,
    facts: &'a [KindFacts],
    index: usize,
    branches: &'a [Branch],
}

/// The slots of a kind that have been compiled so far.
#[derive(Default)]
struct KindSlots {
    slots: Vec<SlotValue>,
    /// The slots of named values.
    named: Slots,
}

impl<'a> KindCompiler<'a> {
    fn declared(&self) -> &'a Kind {
        &self.context.template.kinds[self.index]
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Problem {
        let kind = self.declared();
        self.context.wrong(kind.spot, format!("kind {:?}: {message}", kind.name))
    }

    /// Returns the kind, whose first entry has the number `start`, and the size of its largest entry in bytes.
    fn kind(&self, start: u64) -> Result<(tree::Kind, u64), Problem> {
        let declared = self.declared();
        let mut drawn = KindSlots::default();
        for value in &declared.values {
            self.draw(&mut drawn, value)?;
        }
        let (rdn, naming) = self.rdn(&mut drawn)?;
        let mut attributes = self.place(&drawn.named).attributes(&declared.attributes)?;
        let mut most = self.facts[self.index].dn.saturating_mul(2);
        for (declared, compiled) in declared.attributes.iter().zip(&attributes) {
            most = most.saturating_add(items::most(declared, compiled));
        }
        if most > ENTRY {
            return Err(self.wrong(format!("an entry could have {most} bytes; the most is {ENTRY}")));
        }
        for (description, slot) in &rdn {
            let mut attributes = attributes.iter_mut();
            if let Some(naming) = attributes.find(|attribute| attribute.description.as_bytes() == description) {
                naming.name_by(*slot);
            }
        }
        let kind = tree::Kind {
            name: declared.name.clone(),
            start,
            count: self.facts[self.index].count,
            structural: declared.structural.clone(),
            rdn,
            naming,
            parent: self.parent_rule()?,
            body: Body { slots: drawn.slots, attributes },
        };
        Ok((kind, most))
    }

    fn place<'s>(&'s self, slots: &'s Slots) -> Place<'s> {
        let head = ["kind", self.declared().name.as_str()];
        Place { context: self.context, head, slots, kinds: self.facts, kind: Some(self.index) }
    }

    /// Adds a slot for a named value of the entry.
    fn draw(&self, drawn: &mut KindSlots, value: &Named) -> Result<(), Problem> {
        let (name, item) = (value.name.as_str(), &value.item);
        let problem = |reason| self.context.wrong(item.spot, format!("{name}: {reason}"));
        if item.count.is_some() {
            return Err(problem("a value that is drawn once has no count".to_owned()));
        }
        if drawn.named.contains_key(name) {
            return Err(problem("occurs twice".to_owned()));
        }
        let (names, place) = (["value", name], self.place(&drawn.named));
        let text = place.text(&item.text, &names).map_err(problem)?;
        let gate = place.gate(item, &names, &[]).map_err(problem)?;
        if text.most > ENTRY {
            return Err(problem(format!("it could have {} bytes; the most is {ENTRY}", text.most)));
        }
        let facts = SlotFacts { slot: drawn.slots.len(), most: text.most, printable: text.printable };
        drawn.named.insert(name.to_owned(), facts);
        drawn.slots.push(SlotValue { gate, text });
        Ok(())
    }

    /// Returns the attributes of the RDN with their slots, and the indexes of all slots needed to write the RDN.
    #[allow(clippy::type_complexity, reason = "two lists")]
    fn rdn(&self, drawn: &mut KindSlots) -> Result<(Vec<(Vec<u8>, usize)>, Vec<usize>), Problem> {
        let declared = self.declared();
        let (mut rdn, mut naming): (Vec<(Vec<u8>, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
        for attribute in named_by(self.context, declared)? {
            let item = &attribute.items[0];
            for value in needed(declared, &item.text) {
                let Named { name, item } = &declared.values[value];
                check_naming(self.context, name, item)?;
                naming.push(value);
            }
            let slot = match item.text[..] {
                [Piece::Tag(Tag::Value { ref name })] if drawn.named.contains_key(name) => drawn.named[name].slot,
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
        let text = self.place(&drawn.named).text(&item.text, &names);
        let problem = |reason| self.context.wrong(item.spot, format!("{description}: {reason}"));
        drawn.slots.push(SlotValue { gate: Presence::default(), text: text.map_err(problem)? });
        Ok(drawn.slots.len() - 1)
    }

    /// Returns the maximum length of the kind's DNs in bytes.
    fn longest_dn(&self) -> Result<u64, Problem> {
        let mut drawn = KindSlots::default();
        let declared = self.declared();
        let attributes = named_by(self.context, declared)?;
        let values = attributes.iter().flat_map(|attribute| needed(declared, &attribute.items[0].text));
        for value in values.collect::<BTreeSet<usize>>() {
            self.draw(&mut drawn, &declared.values[value])?;
        }
        let mut rdn = 0_u64;
        for attribute in attributes {
            let slot = self.naming_slot(&mut drawn, attribute)?;
            // In the worst case every character is escaped; the attribute name, `=` and a comma are added.
            let value = drawn.slots[slot].text.most.saturating_mul(3);
            rdn = rdn.saturating_add(value).saturating_add(attribute.description.len() as u64 + 2);
        }
        let branch_dn = |branch: usize| self.branches.get(branch).map_or(0, |branch| branch.dn.len() as u64);
        let parent = match &declared.parent {
            Parent::Branch(branch) => branch_dn(*branch),
            Parent::Kind { name, .. } => self.facts[self.parent_kind(name)?].dn,
            Parent::Itself { branch, levels, .. } => {
                branch_dn(*branch).saturating_add(rdn.saturating_mul(u64::from(*levels)))
            }
        };
        Ok(rdn.saturating_add(parent))
    }

    /// Returns the index of the parent kind, which must be before this kind.
    fn parent_kind(&self, name: &str) -> Result<usize, Problem> {
        let before = &self.facts[..self.index];
        before.iter().position(|kind| kind.name == name).ok_or_else(|| {
            let hint = suggestion(name, before.iter().map(|kind| kind.name.as_str()));
            self.wrong(format!("there is no kind {name:?} before it{hint}"))
        })
    }

    fn parent_rule(&self) -> Result<ParentRule, Problem> {
        let own = self.facts[self.index].count;
        let stream = self.context.stream(&["kind", &self.declared().name, "parent"]);
        match &self.declared().parent {
            Parent::Branch(branch) => Ok(ParentRule::Branch(*branch)),
            Parent::Kind { name, pick } => {
                let kind = self.parent_kind(name)?;
                let of = self.facts[kind].count;
                if of == 0 && own > 0 {
                    return Err(self.wrong(format!("there are no entries of kind {name:?}")));
                }
                let chooser = ParentChooser::new(*pick, stream, own, of.max(1));
                Ok(ParentRule::Kind { kind, chooser: chooser.map_err(|reason| self.wrong(reason))? })
            }
            Parent::Itself { branch, levels, pick } => {
                if !(1..=MOST_LEVELS).contains(levels) {
                    return Err(self.wrong(format!("write 1 to {MOST_LEVELS} levels")));
                }
                let levels = Levels::new(own, *levels, *pick, stream);
                let levels = levels.map_err(|reason| self.wrong(reason))?;
                Ok(ParentRule::Itself { branch: *branch, levels })
            }
        }
    }
}

/// A kind with more attributes in its RDN than this is refused.
const MOST_PARTS: usize = 8;

/// Returns the attributes of the RDN, in the order of the template. Returns an error unless every entry has all of
/// them, and at least one of them makes the RDN unique.
fn named_by<'a>(context: &Context<'_>, kind: &'a Kind) -> Result<Vec<&'a Attribute>, Problem> {
    let wrong = |reason: String| context.wrong(kind.spot, format!("kind {:?}: {reason}", kind.name));
    if kind.rdn.is_empty() {
        return Err(wrong("rdn is missing".to_owned()));
    }
    if kind.rdn.len() > MOST_PARTS {
        return Err(wrong(format!("more than {MOST_PARTS} attributes in a name")));
    }
    for (index, name) in kind.rdn.iter().enumerate() {
        if kind.rdn[..index].iter().any(|before| before.eq_ignore_ascii_case(name)) {
            return Err(wrong(format!("{name} occurs twice in rdn")));
        }
    }
    let attributes: Vec<&Attribute> =
        kind.rdn.iter().map(|name| naming_attribute(context, kind, name)).collect::<Result<_, _>>()?;
    let is_unique = attributes.iter().any(|attribute| is_unique(kind, &attribute.items[0].text));
    if !is_unique && !is_only(kind) {
        let reason = "names the entries: without {number} or {unique:...} two could be equal";
        let names = kind.rdn.join(" and ");
        return Err(context.wrong(attributes[0].items[0].spot, format!("{names} {reason}")));
    }
    Ok(attributes)
}

/// Whether every parent has one entry of this kind, so that all entries may have the same RDN.
const fn is_only(kind: &Kind) -> bool {
    match (&kind.count, &kind.parent) {
        (Count::Fixed(1), _) => true,
        (Count::Each(1), Parent::Kind { pick, .. }) => matches!(pick, Pick::Each),
        _ => false,
    }
}

fn naming_attribute<'a>(context: &Context<'_>, kind: &'a Kind, name: &str) -> Result<&'a Attribute, Problem> {
    let is_named = |attribute: &&Attribute| attribute.description.eq_ignore_ascii_case(name);
    let Some(attribute) = kind.attributes.iter().find(is_named) else {
        let hint = suggestion(name, kind.attributes.iter().map(|attribute| attribute.description.as_str()));
        let reason = format!("kind {:?}: {name} must be an attribute of the entry{hint}", kind.name);
        return Err(context.wrong(kind.spot, reason));
    };
    let Some(first) = attribute.items.first() else {
        return Err(context.wrong(attribute.spot, format!("{name} names the entries and has no value")));
    };
    check_naming(context, name, first)?;
    Ok(attribute)
}

/// Returns an error unless the item is in every entry, once, and may be in an RDN.
fn check_naming(context: &Context<'_>, name: &str, item: &Item) -> Result<(), Problem> {
    let is_always = item.chance >= 1.0 && item.conditions.is_empty();
    if !is_always || item.count.is_some() {
        let reason = format!("{name} names the entries: it must always be present, once");
        return Err(context.wrong(item.spot, reason));
    }
    if item.text.windows(2).any(run_together) {
        let reason = "a number next to {number} needs a width: two entries could have one name";
        return Err(context.wrong(item.spot, format!("{name}: {reason}")));
    }
    if item.text.iter().any(|piece| matches!(piece, Piece::Tag(tag) if !tags::may_name(tag))) {
        let reason = format!("{name} names the entries: it cannot contain a DN or bytes");
        return Err(context.wrong(item.spot, reason));
    }
    Ok(())
}

/// Whether two adjacent tags write ambiguous text: the numbers 1 and 12 look like 11 and 2.
fn run_together(pair: &[Piece]) -> bool {
    let is_count = |piece: &Piece| matches!(piece, Piece::Tag(Tag::Number { width: 0..=1, .. }));
    let is_open = |piece: &Piece| is_count(piece) || matches!(piece, Piece::Tag(Tag::Drawn { width: 0..=1, .. }));
    pair.iter().any(is_count) && pair.iter().all(is_open)
}

/// Returns an error if two kinds have the same parents and the same texts in their RDNs.
fn check_names_of_kinds(context: &Context<'_>) -> Result<(), Problem> {
    let mut patterns: HashMap<String, &str> = HashMap::new();
    for kind in &context.template.kinds {
        let texts = named_by(context, kind)?.into_iter().map(|attribute| {
            let text = &attribute.items[0].text;
            let values: Vec<_> = needed(kind, text).into_iter().map(|value| &kind.values[value]).collect();
            (attribute.description.to_lowercase(), text, values)
        });
        let pattern = format!("{:?} {:?}", kind.parent, texts.collect::<Vec<_>>());
        if let Some(other) = patterns.insert(pattern, &kind.name) {
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

/// Returns the indexes of the values to which a text refers, directly or through other values, in ascending order. Only
/// tags that `follows` accepts and conditions count as references.
fn reached(kind: &Kind, text: &[Piece], follows: fn(&Tag) -> bool) -> Vec<usize> {
    let names = kind.values.iter().enumerate().map(|(index, value)| (value.name.as_str(), index));
    let indexes: HashMap<&str, usize> = names.collect();
    let mut is_reached = vec![false; kind.values.len()];
    let mark = |text: &[Piece], conditions: &[Condition], is_reached: &mut [bool]| {
        let tags = text.iter().filter_map(|piece| match piece {
            Piece::Tag(tag) if follows(tag) => Some(tag),
            _ => None,
        });
        let conditions = conditions.iter().map(|condition| &condition.name);
        for name in tags.flat_map(tags::named).chain(conditions) {
            if let Some(mark) = indexes.get(name.as_str()).and_then(|&index| is_reached.get_mut(index)) {
                *mark = true;
            }
        }
    };
    mark(text, &[], &mut is_reached);
    // A value refers only to values before it, so one backward pass finds all.
    for index in (0..kind.values.len()).rev() {
        if is_reached[index] {
            let item = &kind.values[index].item;
            mark(&item.text, &item.conditions, &mut is_reached[..index]);
        }
    }
    (0..is_reached.len()).filter(|&index| is_reached[index]).collect()
}

/// Whether the text differs between all entries of the kind.
fn is_unique(kind: &Kind, text: &[Piece]) -> bool {
    let own = |text: &[Piece]| text.iter().any(|piece| matches!(piece, Piece::Tag(tag) if tags::is_unique(tag)));
    // Two different values may begin with the same characters.
    let values = reached(kind, text, |tag| !matches!(tag, Tag::Start { .. }));
    own(text) || values.iter().any(|&value| own(&kind.values[value].item.text))
}
