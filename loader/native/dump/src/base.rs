//! Finds entries by their DNs in dn2i, without a schema.

use codec::dn2i;
use common::Counters;
use ldif::write::line;
use tree::name::{ParsedDn, is_within};

use crate::tables::{Tables, open};
use crate::{Code, Error, Result, Source};

/// A node of dn2i and its DN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) dn: Vec<u8>,
}

/// Finds the entry with this DN; an error if there is none.
pub(crate) fn find(tables: &Tables<'_>, dn: &str) -> Result<Found> {
    let wanted = key(dn.as_bytes());
    let mut here = Found { id: 0, dn: Vec::new() };
    // The loop ends, because each step adds at least one RDN to the DN.
    while let Some(below) = step(tables, &here, &wanted)? {
        if key(&below.dn) == wanted {
            return Ok(below);
        }
        here = below;
    }
    Err(Error::new(Code::NoSuchBase, format!("there is no entry {dn}")))
}

/// Returns the key of a DN. A database of an older slapd may contain DNs that only the fallback parser accepts.
fn key(dn: &[u8]) -> Vec<u8> {
    schema::dn_key(dn).unwrap_or_else(|_| ParsedDn::new(dn).key().to_vec())
}

/// Returns the suffixes: the nodes directly below the root node (ID 0).
pub(crate) fn suffixes(tables: &Tables<'_>) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    children(tables, &Found { id: 0, dn: Vec::new() }, |child| {
        found.push(child);
        // Bounds the suffixes of a damaged database; no configuration has so many.
        found.len() < 1000
    })?;
    Ok(found)
}

/// Finds the child of `here` that is the wanted entry or an ancestor of it.
fn step(tables: &Tables<'_>, here: &Found, wanted: &[u8]) -> Result<Option<Found>> {
    let mut found = None;
    children(tables, here, |child| {
        let above = key(&child.dn);
        if !above.is_empty() && is_within(wanted, &above) {
            found = Some(child);
        }
        found.is_none()
    })?;
    Ok(found)
}

/// Calls `go_on` for each child of a node until `go_on` returns false.
fn children(tables: &Tables<'_>, of: &Found, mut go_on: impl FnMut(Found) -> bool) -> Result<()> {
    let key = of.id.to_ne_bytes();
    let mut cursor = tables.dn2i.cursor()?;
    cursor.seek(&key)?;
    while let Some((_, record)) = cursor.next()?.filter(|(at, _)| *at == key) {
        let Some(node) = dn2i::read(record) else {
            return Err(Error::damaged(format!("a record of entry {} is damaged (table dn2i)", of.id)));
        };
        let comma: &[u8] = if of.dn.is_empty() { b"" } else { b"," };
        let dn = [node.pretty, comma, &of.dn].concat();
        if node.child.is_some() && !go_on(Found { id: node.id, dn }) {
            break;
        }
    }
    Ok(())
}

/// Returns the entries with the DNs `names` as LDIF; skips DNs without an entry.
pub fn pick(source: &Source, names: &[String], counters: &Counters) -> Result<Vec<u8>> {
    let snapshot = open(&source.path, source.txn)?;
    let tables = Tables::of(&snapshot)?;
    let mut text = Vec::new();
    for name in names {
        counters.check()?;
        let found = match find(&tables, name) {
            Err(error) if error.code == Code::NoSuchBase => continue,
            found => found?,
        };
        tables.show(found.id, |entry| {
            line(&mut text, b"dn", &found.dn);
            let values = text.len();
            entry.each(|value| match value {
                Some(value) => value.description.line(value.bytes, &mut text),
                None => text.truncate(values),
            })?;
            text.push(b'\n');
            Ok(())
        })?;
    }
    Ok(text)
}
