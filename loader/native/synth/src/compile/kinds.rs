//! Kinds: first what names their entries, then all the rest, which may tell of names.

use std::collections::HashSet;

use super::items;
use super::{Context, ENTRY, naming};
use crate::body::{Body, Presence, SlotValue, Text};
use crate::draw::Stream;
use crate::model::{self, Named, Parent, Piece, Tag};
use crate::parent::{Levels, ParentChooser};
use crate::problem::{Problem, suggestion};
use crate::tags::{KindFacts, Scope, SlotFacts, Slots};
use crate::tree::{Branch, Kind, ParentRule};

/// Levels of a kind below itself, at most.
const LEVELS: u32 = 250;

/// With the bytes of the largest entry of each.
pub fn compile(
    context: &Context<'_>,
    counts: &[u64],
    branches: &[Branch],
) -> Result<Vec<(Kind, u64)>, Problem> {
    let facts = facts(context, counts, branches)?;
    naming::distinct(context)?;
    let mut start = branches.len() as u64;
    let mut found = Vec::new();
    for place in 0..counts.len() {
        let compiling = Compiling { context, facts: &facts, place, branches };
        let (mut kind, most) = compiling.kind()?;
        kind.start = start;
        start += kind.count;
        found.push((kind, most));
    }
    Ok(found)
}

/// Names and counts of all kinds, and how long their DNs are.
fn facts(
    context: &Context<'_>,
    counts: &[u64],
    branches: &[Branch],
) -> Result<Vec<KindFacts>, Problem> {
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
        let compiling = Compiling { context, facts: &facts, place, branches };
        let dn = compiling.longest_dn()?;
        facts[place].dn = dn;
    }
    Ok(facts)
}

/// One kind on its way.
#[derive(Clone, Copy)]
struct Compiling<'a> {
    context: &'a Context<'a>,
    facts: &'a [KindFacts],
    place: usize,
    branches: &'a [Branch],
}

/// The slots of a kind so far.
#[derive(Default)]
struct Drawing {
    slots: Vec<SlotValue>,
    known: Slots,
}

impl<'a> Compiling<'a> {
    fn said(&self) -> &'a model::Kind {
        &self.context.template.kinds[self.place]
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Problem {
        let kind = self.said();
        self.context.wrong(kind.spot, format!("kind {:?}: {message}", kind.name))
    }

    fn stream(&self, names: &[&str]) -> Stream {
        self.context.stream(&[&["kind", self.said().name.as_str()], names].concat())
    }

    fn kind(&self) -> Result<(Kind, u64), Problem> {
        let said = self.said();
        let mut drawing = Drawing::default();
        for value in &said.values {
            self.draw(&mut drawing, value)?;
        }
        let (rdn, naming) = self.rdn(&mut drawing)?;
        let known = &drawing.known;
        let scope = |names: &[&str]| self.scope(known, self.stream(names));
        let mut attributes = items::attributes(self.context, &said.attributes, known, scope)?;
        let mut most = self.facts[self.place].dn.saturating_mul(2);
        for (said, made) in said.attributes.iter().zip(&attributes) {
            most = most.saturating_add(items::most(said, made));
        }
        if most > ENTRY {
            return Err(
                self.wrong(format!("an entry could have {most} bytes; the most is {ENTRY}"))
            );
        }
        for (description, slot) in &rdn {
            let mut all = attributes.iter_mut();
            if let Some(found) = all.find(|one| one.description.as_bytes() == description) {
                found.name_by(*slot);
            }
        }
        let kind = Kind {
            name: said.name.clone(),
            start: 0,
            count: self.facts[self.place].count,
            structural: said.structural.clone(),
            rdn,
            naming,
            above: self.above()?,
            body: Body { slots: drawing.slots, attributes },
        };
        Ok((kind, most))
    }

    fn scope<'s>(&self, slots: &'s Slots, stream: Stream) -> Scope<'s>
    where
        'a: 's,
    {
        Scope {
            stream,
            suffix: self.context.suffix,
            lists: &self.context.template.lists,
            learned: &self.context.template.learned,
            slots,
            kinds: self.facts,
            kind: Some(self.place),
            in_shape: false,
        }
    }

    fn text(&self, pieces: &[Piece], names: &[&str], slots: &Slots) -> Result<Text, String> {
        items::text(pieces, |place| {
            self.scope(slots, self.stream(&[names, &[place.to_string().as_str()]].concat()))
        })
    }

    /// One more value of the entry.
    fn draw(&self, drawing: &mut Drawing, value: &Named) -> Result<(), Problem> {
        let (name, item) = (value.name.as_str(), &value.item);
        let told = |reason| self.context.wrong(item.spot, format!("{name}: {reason}"));
        if item.count.is_some() {
            return Err(told("a value that is drawn once has no count".to_owned()));
        }
        if drawing.known.contains_key(name) {
            return Err(told("stands twice".to_owned()));
        }
        let names = ["value", name];
        let known = &drawing.known;
        let text = self.text(&item.text, &names, known).map_err(told)?;
        let stream = self.stream(&["value", name, "chance"]);
        let gate = items::gate(item, stream, known, &[]).map_err(told)?;
        if text.most > ENTRY {
            return Err(told(format!("it could have {} bytes; the most is {ENTRY}", text.most)));
        }
        let facts =
            SlotFacts { at: drawing.slots.len(), most: text.most, printable: text.printable };
        drawing.known.insert(name.to_owned(), facts);
        drawing.slots.push(SlotValue { gate, text });
        Ok(())
    }

    /// The RDN's attributes with their slots, and the slots it takes.
    #[allow(clippy::type_complexity, reason = "two lists")]
    fn rdn(&self, drawing: &mut Drawing) -> Result<(Vec<(Vec<u8>, usize)>, Vec<usize>), Problem> {
        let said = self.said();
        let (mut rdn, mut naming): (Vec<(Vec<u8>, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
        for attribute in naming::attributes(self.context, said)? {
            let item = &attribute.items[0];
            for place in naming::needed(said, &item.text) {
                naming::check_value(self.context, &said.values[place])?;
                naming.push(place);
            }
            let slot = match item.text[..] {
                [Piece::Tag(Tag::Value { ref name })] if drawing.known.contains_key(name) => {
                    drawing.known[name].at
                }
                _ => self.hidden(drawing, attribute)?,
            };
            naming.push(slot);
            rdn.push((attribute.description.clone().into_bytes(), slot));
        }
        naming.sort_unstable();
        naming.dedup();
        Ok((rdn, naming))
    }

    /// A slot for an attribute that names, so that it is made once for the name and the line.
    fn hidden(
        &self,
        drawing: &mut Drawing,
        attribute: &model::Attribute,
    ) -> Result<usize, Problem> {
        let (description, item) = (attribute.description.as_str(), &attribute.items[0]);
        let names = ["attribute", description, "0"];
        let text = self.text(&item.text, &names, &drawing.known);
        let told = |reason| self.context.wrong(item.spot, format!("{description}: {reason}"));
        drawing.slots.push(SlotValue { gate: Presence::default(), text: text.map_err(told)? });
        Ok(drawing.slots.len() - 1)
    }

    fn longest_dn(&self) -> Result<u64, Problem> {
        let mut drawing = Drawing::default();
        let said = self.said();
        let mut wanted: HashSet<usize> = HashSet::new();
        for attribute in naming::attributes(self.context, said)? {
            wanted.extend(naming::needed(said, &attribute.items[0].text));
        }
        for (place, value) in said.values.iter().enumerate() {
            if wanted.contains(&place) {
                self.draw(&mut drawing, value)?;
            }
        }
        let mut rdn = 0_u64;
        for attribute in naming::attributes(self.context, said)? {
            let slot = self.hidden(&mut drawing, attribute)?;
            // All escaped, with the attribute before it and a comma behind.
            let value = drawing.slots[slot].text.most.saturating_mul(3);
            rdn = rdn.saturating_add(value).saturating_add(attribute.description.len() as u64 + 2);
        }
        let branch = |place: usize| self.branches.get(place).map_or(0, |one| one.dn.len() as u64);
        let above = match &said.parent {
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
        let stream = self.stream(&["parent"]);
        match &self.said().parent {
            Parent::Branch(branch) => Ok(ParentRule::Branch(*branch)),
            Parent::Kind { name, pick } => {
                let kind = self.above_kind(name)?;
                let of = self.facts[kind].count;
                if of == 0 && own > 0 {
                    return Err(self.wrong(format!("there are no entries of kind {name:?}")));
                }
                let chooser = ParentChooser::new(*pick, stream, own, of.max(1));
                Ok(ParentRule::Kind {
                    kind,
                    chooser: chooser.map_err(|reason| self.wrong(reason))?,
                })
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
