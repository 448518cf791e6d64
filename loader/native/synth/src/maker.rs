//! Writing entries as LDIF (RFC 2849), never folded: each by its number alone.

use std::hash::Hasher as _;

use rustc_hash::{FxHashSet, FxHasher};

use crate::body::{Attribute, Body, Item};
use crate::names::{Names, write_rdn};
use crate::tags::{EntryContext, Slot};
use crate::tree::{EntryRef, Tree};

/// Makes entries of one tree; one for each thread. It remembers nothing that would change them.
#[derive(Debug)]
pub struct Maker<'t> {
    tree: &'t Tree,
    slots: Vec<Slot>,
    present: Vec<bool>,
    names: Names,
    seen: AttributeValues,
    spare: Vec<u8>,
    above: Option<EntryRef>,
    above_dn: Vec<u8>,
}

/// The values of one attribute of one entry.
#[derive(Debug, Default)]
struct AttributeValues {
    few: Vec<u64>,
    many: FxHashSet<u64>,
}

/// Up to here looking at all is quicker than hashing.
const FEW: usize = 24;

impl<'t> Maker<'t> {
    pub fn new(tree: &'t Tree) -> Self {
        let slots = tree.kinds.iter().map(|kind| kind.body.slots.len()).max().unwrap_or(0);
        Self {
            tree,
            slots: vec![Slot::default(); slots],
            present: Vec::new(),
            names: Names::default(),
            seen: AttributeValues::default(),
            spare: Vec::new(),
            above: None,
            above_dn: Vec::new(),
        }
    }

    pub const fn tree(&self) -> &'t Tree {
        self.tree
    }

    /// Appends the record of entry `number`, the empty line after it included.
    pub fn entry(&mut self, number: u64, out: &mut Vec<u8>) {
        match self.tree.place(number) {
            EntryRef::Branch(branch) => self.branch(branch, out),
            EntryRef::Entry { kind, index } => self.entry_of(kind, index, out),
        }
    }

    fn branch(&mut self, branch: usize, out: &mut Vec<u8>) {
        let known = &self.tree.branches[branch];
        ldif::write::line(out, b"dn", &known.dn);
        self.attributes(&known.body, 0, branch as u64, out);
        self.end(branch as u64, known.structural.as_deref(), out);
    }

    /// Appends the record of entry `index` of a kind.
    pub fn entry_of(&mut self, kind: usize, index: u64, out: &mut Vec<u8>) {
        let known = &self.tree.kinds[kind];
        self.draw(kind, index);
        let start = out.len();
        out.extend_from_slice(b"dn: ");
        write_rdn(&known.rdn, &self.slots, out);
        out.push(b',');
        self.look_above(self.tree.parent(kind, index));
        out.extend_from_slice(&self.above_dn);
        end_line(out, start, b"dn", false, &mut self.spare);
        self.attributes(&known.body, kind, index, out);
        self.end(known.start + index, known.structural.as_deref(), out);
    }

    /// Appends the DN of an entry.
    pub fn dn(&mut self, place: EntryRef, out: &mut Vec<u8>) {
        self.names.dn(self.tree, place, out);
    }

    /// Draws the values of an entry, which [`Self::value`] tells.
    pub fn draw(&mut self, kind: usize, index: u64) {
        let body = &self.tree.kinds[kind].body;
        for slot in 0..body.slots.len() {
            let names = &mut self.names;
            let at =
                EntryContext { tree: self.tree, kind, index, occurrence: 0, slots: &[], names };
            body.fill(slot, at, &mut self.slots);
        }
    }

    /// A value of the entry that was drawn last; None when it has none of this place.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.slots.get(slot).filter(|slot| slot.there).map(|slot| slot.text.as_slice())
    }

    /// Neighbours often have the same parent.
    fn look_above(&mut self, above: EntryRef) {
        if self.above != Some(above) {
            self.above_dn.clear();
            self.names.dn(self.tree, above, &mut self.above_dn);
            self.above = Some(above);
        }
    }

    fn attributes(&mut self, body: &Body, kind: usize, index: u64, out: &mut Vec<u8>) {
        self.present.clear();
        for attribute in &body.attributes {
            let before = out.len();
            if let Some(lines) = &attribute.constant {
                out.extend_from_slice(lines);
                self.present.push(!lines.is_empty());
                continue;
            }
            if attribute.may_repeat {
                self.seen.clear();
            }
            for item in &attribute.items {
                self.item(attribute, item, kind, index, out);
            }
            self.present.push(out.len() > before);
        }
    }

    fn item(
        &mut self,
        attribute: &Attribute,
        item: &Item,
        kind: usize,
        index: u64,
        out: &mut Vec<u8>,
    ) {
        let (slots, names) = (&self.slots, &mut self.names);
        let mut at = EntryContext { tree: self.tree, kind, index, occurrence: 0, slots, names };
        if !item.gate.is_open(&at, &self.present) {
            return;
        }
        let wanted = item.count.as_ref().map_or(1, |count| count.draw(index));
        // A value that is there already is drawn again, but not for ever.
        let tries = wanted.saturating_mul(2).saturating_add(16);
        let mut made = 0;
        while made < wanted && at.occurrence < tries {
            let start = out.len();
            out.extend_from_slice(&item.lead);
            item.text.write(&mut at, out);
            at.occurrence += 1;
            let value = &out[start + attribute.head.len()..];
            if value.is_empty() || (attribute.may_repeat && !self.seen.add(value)) {
                out.truncate(start);
                if item.count.is_none() {
                    return;
                }
                continue;
            }
            let description = attribute.description.as_bytes();
            end_line(out, start, description, item.text.printable, &mut self.spare);
            made += 1;
        }
    }

    fn end(&self, number: u64, structural: Option<&str>, out: &mut Vec<u8>) {
        if let Some(clock) = &self.tree.clock {
            if let Some(class) = structural {
                ldif::write::line(out, b"structuralObjectClass", class.as_bytes());
            }
            clock.write(number, out);
        }
        out.push(b'\n');
    }
}

/// Ends a line that begins at `start`; in base64 where the value wants it. `printable`: only its ends may.
fn end_line(
    out: &mut Vec<u8>,
    start: usize,
    description: &[u8],
    printable: bool,
    spare: &mut Vec<u8>,
) {
    let value = &out[start + description.len() + 2..];
    let is_safe = match value {
        [first, .., last] if printable => !matches!(first, b' ' | b':' | b'<') && *last != b' ',
        value => ldif::write::is_safe(value),
    };
    if is_safe {
        out.push(b'\n');
        return;
    }
    spare.clear();
    spare.extend_from_slice(value);
    out.truncate(start);
    ldif::write::line(out, description, spare);
}

impl AttributeValues {
    fn clear(&mut self) {
        self.few.clear();
        if !self.many.is_empty() {
            self.many.clear();
        }
    }

    /// Whether it is new; case does not count, for most attributes do not see it.
    fn add(&mut self, value: &[u8]) -> bool {
        let mut hasher = FxHasher::default();
        for eight in value.chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            word.make_ascii_lowercase();
            hasher.write_u64(u64::from_ne_bytes(word));
        }
        hasher.write_usize(value.len());
        let hash = hasher.finish();
        if self.many.is_empty() && self.few.len() < FEW {
            let is_new = !self.few.contains(&hash);
            self.few.push(hash);
            return is_new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(hash)
    }
}
