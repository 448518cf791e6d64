//! The records of dn2i in the format of `servers/slapd/back-mdb/dn2id.c`.
//!
//! Every node has two records: its own, with the ID of its parent; and a child's record under the key of its parent,
//! with the node's ID and the number of entries in its subtree, which includes the node.
//!
//! ```text
//! own:   | 0, length: 2 | normalised RDN | 0 | RDN | 0 | parent: 8 |
//! child: | 1, length: 2 | normalised RDN | 0 | RDN | 0 | ID: 8 | entries: 8 |
//! ```
//!
//! The length is that of the normalised RDN, big-endian; its highest bit marks the record of a child. The other numbers
//! are little-endian.

use std::cmp::Ordering;

/// The own record of the root above all suffixes. The root has the ID 0.
pub const ROOT: [u8; 12] = [0; 12];

/// Bytes of a child's record in addition to its two names.
const AROUND_NAMES: usize = 20;

/// Maximum size of a name in bytes: slapd aborts when it reads a longer name (`mdb_id2name`).
const LONGEST_NAME: usize = 1023;

/// Returns whether LMDB and slapd accept a record with these names. `longest` is the maximum size of a DUPSORT value in
/// bytes.
pub const fn fits(longest: usize, normal: &[u8], pretty: &[u8]) -> bool {
    let (normal, pretty) = (normal.len(), pretty.len());
    normal <= LONGEST_NAME && pretty <= LONGEST_NAME && normal + pretty + AROUND_NAMES <= longest
}

/// Returns the maximum length in bytes of an RDN that is as long as its normalised form. `longest` as in [`fits`].
pub const fn longest_name(longest: usize) -> usize {
    let half = (longest - AROUND_NAMES) / 2;
    if half < LONGEST_NAME { half } else { LONGEST_NAME }
}

const CHILD: u16 = 0x8000;

/// Replaces `out` by the node's own record.
pub fn own(out: &mut Vec<u8>, normal: &[u8], pretty: &[u8], parent: u64) {
    name(out, 0, normal, pretty);
    out.extend_from_slice(&parent.to_le_bytes());
}

/// Replaces `out` by the node's record as a child.
pub fn child(out: &mut Vec<u8>, normal: &[u8], pretty: &[u8], id: u64, subtree: u64) {
    name(out, CHILD, normal, pretty);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&subtree.to_le_bytes());
}

fn name(out: &mut Vec<u8>, mark: u16, normal: &[u8], pretty: &[u8]) {
    #[allow(clippy::cast_possible_truncation, reason = "at most LONGEST_NAME")]
    let length = normal.len() as u16 | mark;
    out.clear();
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(normal);
    out.push(0);
    out.extend_from_slice(pretty);
    out.push(0);
}

/// Compares two records with the same key, as `mdb_dup_compare` does: first the node's own record, then the records of
/// its children by the length and then the bytes of their normalised RDNs. Other fields are ignored.
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    name_of(left).cmp(name_of(right))
}

/// Returns the part of a record that [`compare`] compares: the length with its highest bit, and the normalised RDN. No
/// two children of the same node have the same part.
#[inline]
pub fn name_of(record: &[u8]) -> &[u8] {
    let length = record.first_chunk().map_or(0, |length| u16::from_be_bytes(*length) & !CHILD);
    &record[..record.len().min(2 + usize::from(length))]
}

/// Returns whether the record is a child's.
pub fn is_child(record: &[u8]) -> bool {
    record.first().is_some_and(|byte| byte & 0x80 != 0)
}

/// A parsed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    pub normal: &'a [u8],
    pub pretty: &'a [u8],
    /// In a node's own record, the ID of its parent; in a child's record, the ID of the child.
    pub id: u64,
    /// In a child's record, the number of entries in its subtree; `None` in a node's own record.
    pub child: Option<u64>,
}

/// Parses a record in the format of [`own`] or [`child`]. Returns `None` if the record is invalid.
pub fn read(record: &[u8]) -> Option<Node<'_>> {
    let (length, rest) = record.split_first_chunk::<2>()?;
    let length = u16::from_be_bytes(*length);
    let is_child = length & CHILD != 0;
    let (normal, rest) = rest.split_at_checked(usize::from(length & !CHILD))?;
    let rest = rest.strip_prefix(b"\0")?;
    let tail = if is_child { 16 } else { 8 };
    let (pretty, numbers) = rest.split_at_checked(rest.len().checked_sub(tail)?)?;
    let number = |at: usize| Some(u64::from_le_bytes(numbers.get(at..at + 8)?.try_into().ok()?));
    let pretty = pretty.strip_suffix(b"\0")?;
    let child = if is_child { Some(number(8)?) } else { None };
    Some(Node { normal, pretty, id: number(0)?, child })
}

impl Node<'_> {
    /// Replaces `out` by the record, in the format of [`own`] or [`child`].
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.child {
            None => own(out, self.normal, self.pretty, self.id),
            Some(subtree) => child(out, self.normal, self.pretty, self.id, subtree),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_compared() {
        let record = |normal: &[u8], id| {
            let mut out = Vec::new();
            child(&mut out, normal, b"any", id, id);
            out
        };
        let (short, long) = (record(b"ou=z", 9), record(b"ou=aa", 1));
        assert_eq!(compare(&short, &long), Ordering::Less);
        assert_eq!(compare(&short, &record(b"ou=z", 1)), Ordering::Equal);
        let mut own_record = Vec::new();
        own(&mut own_record, b"ou=longest of all", b"any", 1);
        assert_eq!(compare(&own_record, &short), Ordering::Less);
        assert_eq!(compare(b"", b"\xff"), Ordering::Less);
    }

    #[test]
    fn a_truncated_node_is_refused() {
        let mut out = Vec::new();
        own(&mut out, b"ou=x", b"ou=X", 1);
        assert_eq!(read(&out).unwrap().child, None);
        assert_eq!(read(&out[..9]), None);
    }
}
