//! Entries by their names, without a schema.

use codec::dn2i;
use tree::name::ParsedDn;

use crate::tables::Tables;
use crate::{Code, Error, Result};

/// A node by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) dn: Vec<u8>,
}

/// The entry of this DN.
pub(crate) fn find(tables: &Tables<'_>, dn: &str) -> Result<Found> {
    let wanted = key(dn.as_bytes());
    let mut here = Found { id: 0, dn: Vec::new() };
    // With each step the name becomes longer.
    while let Some(below) = step(tables, &here, &wanted)? {
        if key(&below.dn) == wanted {
            return Ok(below);
        }
        here = below;
    }
    Err(Error::new(Code::NoSuchBase, format!("there is no entry {dn}")))
}

/// What is no DN to slapd of today, a database of an earlier one may still hold.
fn key(dn: &[u8]) -> Vec<u8> {
    schema::dn_key(dn).unwrap_or_else(|_| ParsedDn::new(dn).key().to_vec())
}

/// The nodes below the root.
pub(crate) fn suffixes(tables: &Tables<'_>) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    children(tables, &Found { id: 0, dn: Vec::new() }, |child| {
        found.push(child);
        // More than any configuration has.
        found.len() < 1000
    })?;
    Ok(found)
}

/// The child of `here` that is the wanted one, or on the way to it.
fn step(tables: &Tables<'_>, here: &Found, wanted: &[u8]) -> Result<Option<Found>> {
    let mut found = None;
    children(tables, here, |child| {
        if is_above(&key(&child.dn), wanted) {
            found = Some(child);
        }
        found.is_none()
    })?;
    Ok(found)
}

fn is_above(key: &[u8], wanted: &[u8]) -> bool {
    let rest = wanted.strip_suffix(key);
    !key.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(b","))
}

/// Shows the children of a node until `go_on` is false.
fn children(tables: &Tables<'_>, of: &Found, mut go_on: impl FnMut(Found) -> bool) -> Result<()> {
    let key = of.id.to_ne_bytes();
    let mut cursor = tables.dn2i.cursor()?;
    cursor.seek(&key)?;
    while let Some((_, record)) = cursor.next()?.filter(|(at, _)| *at == key) {
        let Some(node) = dn2i::read(record) else {
            return Err(Error::damaged(format!(
                "a record of entry {} is damaged (table dn2i)",
                of.id
            )));
        };
        let comma: &[u8] = if of.dn.is_empty() { b"" } else { b"," };
        let dn = [node.pretty, comma, &of.dn].concat();
        if node.child.is_some() && !go_on(Found { id: node.id, dn }) {
            break;
        }
    }
    Ok(())
}
