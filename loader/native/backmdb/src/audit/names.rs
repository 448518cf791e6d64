//! DNs from entry IDs, for messages: of a tree that may be damaged.

use lmdbfile::TableReader;

use codec::dn2i;

/// Deeper than any DN: slapd takes those of 8192 bytes.
const DEEPEST: usize = 4096;

/// The DN of a node, as far up as dn2i tells it.
pub fn dn(dn2i: &TableReader<'_>, mut id: u64) -> Option<String> {
    let mut parts = Vec::new();
    while id != 0 && parts.len() < DEEPEST {
        let record = dn2i.get(&id.to_ne_bytes()).ok().flatten();
        let Some(node) = record.as_deref().and_then(dn2i::read).filter(|one| one.child.is_none())
        else {
            break;
        };
        parts.push(String::from_utf8_lossy(node.pretty).into_owned());
        id = node.id;
    }
    let whole = id == 0;
    if parts.is_empty() {
        return None;
    }
    if !whole {
        parts.push(format!("(ID {id}) ..."));
    }
    Some(parts.join(","))
}
