//! DNs of any entries, by their numbers (RFC 4514).

use crate::tags::{EntryContext, Slot};
use crate::tree::{EntryRef, Tree};

/// Room to make names in; reused, so that no memory is asked for.
#[derive(Debug, Default)]
pub struct Names {
    slots: Vec<Slot>,
}

impl Names {
    /// Appends the DN of an entry.
    pub fn dn(&mut self, tree: &Tree, place: EntryRef, out: &mut Vec<u8>) {
        let mut place = place;
        loop {
            match place {
                EntryRef::Branch(branch) => {
                    out.extend_from_slice(&tree.branches[branch].dn);
                    return;
                }
                EntryRef::Entry { kind, index } => {
                    self.rdn(tree, kind, index, out);
                    out.push(b',');
                    place = tree.parent(kind, index);
                }
            }
        }
    }

    fn rdn(&mut self, tree: &Tree, kind: usize, index: u64, out: &mut Vec<u8>) {
        let known = &tree.kinds[kind];
        if self.slots.len() < known.body.slots.len() {
            self.slots.resize_with(known.body.slots.len(), Slot::default);
        }
        // Names tell of no other names, so these stay empty.
        let mut others = Self::default();
        for &slot in &known.naming {
            let at =
                EntryContext { tree, kind, index, occurrence: 0, slots: &[], names: &mut others };
            known.body.fill(slot, at, &mut self.slots);
        }
        write_rdn(&known.rdn, &self.slots, out);
    }
}

/// Appends an RDN whose values stand in the slots.
pub fn write_rdn(parts: &[(Vec<u8>, usize)], slots: &[Slot], out: &mut Vec<u8>) {
    for (place, (attribute, slot)) in parts.iter().enumerate() {
        if place > 0 {
            out.push(b'+');
        }
        out.extend_from_slice(attribute);
        out.push(b'=');
        escape(&slots[*slot].text, out);
    }
}

/// RFC 4514, 2.4. Unlike `schema::dn`, which writes as slapd does and refuses what is no UTF-8, this takes any bytes,
/// and escapes control characters, so that lines stay lines. What must be escaped is written as two hexadecimal digits.
pub fn escape(value: &[u8], out: &mut Vec<u8>) {
    if value.iter().all(|&byte| byte.is_ascii_alphanumeric()) {
        out.extend_from_slice(value);
        return;
    }
    for (place, &byte) in value.iter().enumerate() {
        let at_an_end = byte == b' ' && (place == 0 || place + 1 == value.len());
        if is_special(byte) || at_an_end || (byte == b'#' && place == 0) {
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
    fn what_has_a_meaning_in_names_is_escaped() {
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
