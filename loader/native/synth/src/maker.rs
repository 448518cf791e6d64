//! Writes entries as LDIF (RFC 2849) without folding, each from its number alone.

use std::hash::Hasher as _;

use rustc_hash::{FxHashSet, FxHasher};

use crate::body::{Attribute, Body, Item};
use crate::tags::{EntryContext, Slot};
use crate::tree::{Branch, EntryRef, Kind, Tree};

/// Generates the entries of a tree. Each thread has its own `Maker`. Its caches do not affect the output.
#[derive(Debug)]
pub struct Maker<'t> {
    tree: &'t Tree,
    /// The values of the entry that was drawn last.
    slots: Vec<Slot>,
    /// For each attribute before the attribute that is being written: whether the entry has it.
    present: Vec<bool>,
    names: Names,
    seen: AttributeValues,
    /// A buffer for a value that is written in base64.
    spare: Vec<u8>,
    /// The parent of the last entry, and the parent's DN.
    parent: Option<EntryRef>,
    parent_dn: Vec<u8>,
}

/// Hashes of the values of one attribute of one entry.
#[derive(Debug, Default)]
struct AttributeValues {
    few: Vec<u64>,
    many: FxHashSet<u64>,
}

/// Up to this many hashes are in a list, because comparing all of them is faster than a hash set.
const MOST_COMPARED: usize = 24;

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
            parent: None,
            parent_dn: Vec::new(),
        }
    }

    /// Appends the record of entry `number`, and the empty line after it.
    pub fn entry(&mut self, number: u64, out: &mut Vec<u8>) {
        match self.tree.place(number) {
            EntryRef::Branch(branch) => self.branch(branch, out),
            EntryRef::Entry { kind, index } => self.entry_of(kind, index, out),
        }
    }

    fn branch(&mut self, branch: usize, out: &mut Vec<u8>) {
        let Branch { dn, body, structural } = &self.tree.branches[branch];
        ldif::write::line(out, b"dn", dn);
        self.attributes(body, 0, branch as u64, out);
        self.end(branch as u64, structural.as_deref(), out);
    }

    /// Appends the record of entry `index` of a kind.
    pub fn entry_of(&mut self, kind: usize, index: u64, out: &mut Vec<u8>) {
        let Kind { rdn, body, start: first, structural, .. } = &self.tree.kinds[kind];
        self.draw(kind, index);
        let start = out.len();
        out.extend_from_slice(b"dn: ");
        write_rdn(rdn, |_, slot| &self.slots[slot].text, out);
        out.push(b',');
        self.set_parent(self.tree.parent(kind, index));
        out.extend_from_slice(&self.parent_dn);
        end_line(out, start, b"dn", false, &mut self.spare);
        self.attributes(body, kind, index, out);
        self.end(first + index, structural.as_deref(), out);
    }

    /// Appends the DN of an entry.
    pub fn dn(&mut self, entry: EntryRef, out: &mut Vec<u8>) {
        self.names.dn(self.tree, entry, out);
    }

    /// Draws the values of an entry, which [`Self::value`] then returns.
    fn draw(&mut self, kind: usize, index: u64) {
        let body = &self.tree.kinds[kind].body;
        for slot in 0..body.slots.len() {
            let names = &mut self.names;
            let at = EntryContext { tree: self.tree, kind, index, occurrence: 0, slots: &[], names };
            body.fill(slot, at, &mut self.slots);
        }
    }

    /// Returns a value of the entry that was written last, or None if the entry does not have the value.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.slots.get(slot).filter(|slot| slot.is_present).map(|slot| slot.text.as_slice())
    }

    /// Caches the parent's DN, because consecutive entries often have the same parent.
    fn set_parent(&mut self, parent: EntryRef) {
        if self.parent != Some(parent) {
            self.parent_dn.clear();
            self.names.dn(self.tree, parent, &mut self.parent_dn);
            self.parent = Some(parent);
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

    fn item(&mut self, attribute: &Attribute, item: &Item, kind: usize, index: u64, out: &mut Vec<u8>) {
        let (slots, names) = (&self.slots, &mut self.names);
        let mut at = EntryContext { tree: self.tree, kind, index, occurrence: 0, slots, names };
        if !item.gate.is_open(&at, &self.present) {
            return;
        }
        let count = item.count.as_ref().map_or(1, |count| count.draw(index));
        // Duplicate values are drawn again, but the total number of draws is limited.
        let tries = count.saturating_mul(2).saturating_add(16);
        let mut written = 0;
        while written < count && at.occurrence < tries {
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
            written += 1;
        }
    }

    /// Appends the operational attributes and the empty line after the record.
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

/// Ends the line that begins at `start`, and changes its value to base64 if necessary. If the value is printable, only
/// its first or last character can require base64.
fn end_line(out: &mut Vec<u8>, start: usize, description: &[u8], printable: bool, spare: &mut Vec<u8>) {
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

    /// Adds a value and returns whether it is new. Ignores case, like most matching rules.
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
        if self.many.is_empty() && self.few.len() < MOST_COMPARED {
            let is_new = !self.few.contains(&hash);
            self.few.push(hash);
            return is_new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(hash)
    }
}

/// Writes DNs. The buffers are reused to avoid allocations.
#[derive(Debug, Default)]
pub struct Names {
    slots: Vec<Slot>,
}

impl Names {
    pub fn dn(&mut self, tree: &Tree, mut entry: EntryRef, out: &mut Vec<u8>) {
        loop {
            match entry {
                EntryRef::Branch(branch) => {
                    out.extend_from_slice(&tree.branches[branch].dn);
                    return;
                }
                EntryRef::Entry { kind, index } => {
                    self.rdn(tree, kind, index, out);
                    out.push(b',');
                    entry = tree.parent(kind, index);
                }
            }
        }
    }

    fn rdn(&mut self, tree: &Tree, kind: usize, index: u64, out: &mut Vec<u8>) {
        let Kind { rdn, naming, body, .. } = &tree.kinds[kind];
        if self.slots.len() < body.slots.len() {
            self.slots.resize_with(body.slots.len(), Slot::default);
        }
        // An RDN never refers to other DNs, so these buffers stay empty.
        let mut others = Self::default();
        for &slot in naming {
            let at = EntryContext { tree, kind, index, occurrence: 0, slots: &[], names: &mut others };
            body.fill(slot, at, &mut self.slots);
        }
        write_rdn(rdn, |_, slot| &self.slots[slot].text, out);
    }
}

/// Appends an RDN. `parts` are its attributes with their slots ([`Kind::rdn`]). `value` returns a value by the index of
/// the part and the slot.
pub fn write_rdn<'v>(parts: &[(Vec<u8>, usize)], value: impl Fn(usize, usize) -> &'v [u8], out: &mut Vec<u8>) {
    for (index, (attribute, slot)) in parts.iter().enumerate() {
        if index > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(attribute);
        out.push(b'=');
        escape(value(index, *slot), out);
    }
}

/// Escapes a value for a DN (RFC 4514, 2.4). Accepts any bytes, unlike `schema::dn`, which writes DNs as slapd does and
/// refuses invalid UTF-8. Special and control characters become hexadecimal digits, so that no line is split.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    if value.iter().all(|&byte| byte.is_ascii_alphanumeric()) {
        out.extend_from_slice(value);
        return;
    }
    for (at, &byte) in value.iter().enumerate() {
        let is_outer_space = byte == b' ' && (at == 0 || at + 1 == value.len());
        if is_special(byte) || is_outer_space || (byte == b'#' && at == 0) {
            out.push(b'\\');
            out.push(b"0123456789ABCDEF"[usize::from(byte >> 4)]);
            out.push(b"0123456789ABCDEF"[usize::from(byte & 15)]);
        } else {
            out.push(byte);
        }
    }
}

const fn is_special(byte: u8) -> bool {
    matches!(byte, b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' | b'=' | 0..=0x1f | 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn special_characters_in_a_dn_are_escaped() {
        for (value, expected) in [
            ("plain 1", "plain 1"),
            ("a, b 3", r"a\2C b 3"),
            ("#3#", r"\233#"),
            (r#" "3" "#, r"\20\223\22\20"),
            (r"x\3", r"x\5C3"),
            ("n\u{e9}3", "n\u{e9}3"),
            ("a+b;3<\0", r"a\2Bb\3B3\3C\00"),
            (" ", r"\20"),
        ] {
            let mut out = Vec::new();
            escape(value.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
