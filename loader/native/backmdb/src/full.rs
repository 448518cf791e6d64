//! The full look: every page, every entry, the tree, and every index made again from the entries.

use extsort::{KeySize, Postings, Writer};
use ldif::Counters;
use lmdbfile::Cursor;
use values::keys::Key;
use xxhash_rust::xxh3::xxh3_128;

use crate::numbering::Numbering;
use crate::postings::{self, Rows};
use crate::stored::Stored;
use crate::verify::{Means, damaged, read_node, wrong};
use crate::{Result, sorting};

/// After so many entries the sorter may put its buffers in order.
const SETTLE: u64 = 1000;

pub fn verify(stored: &Stored<'_>, means: &Means, counters: &Counters) -> Result<()> {
    counters.begin("verify", 3 + stored.database.indexes.tables.len() as u64);
    pages(stored)?;
    counters.advance(1);
    tree(stored, counters)?;
    counters.advance(1);
    indexes(stored, means, counters)
}

/// Every page is reached once, and none is left over.
fn pages(stored: &Stored<'_>) -> Result<()> {
    let found = stored.database.reader.walk(&mut |_| {}).map_err(|error| damaged(&error))?;
    match found.unreachable.first() {
        None if found.free == 0 => Ok(()),
        None => Err(wrong(format!("{} free pages in a new file", found.free))),
        Some(lost) => Err(wrong(format!("page {} belongs to nothing", lost.start))),
    }
}

/// Sums in which every node must appear twice, and so vanish: as itself, and in its parent's list.
#[derive(Debug, Default)]
struct Sums {
    names: u128,
    counts: u128,
}

impl Sums {
    fn name(&mut self, id: u64, parent: u64, normal: &[u8], pretty: &[u8]) {
        let parts = [&id.to_le_bytes()[..], &parent.to_le_bytes(), normal, b"\0", pretty];
        self.names ^= xxh3_128(&parts.concat());
    }

    fn count(&mut self, id: u64, entries: u64) {
        let parts = [id.to_le_bytes(), entries.to_le_bytes()];
        self.counts ^= xxh3_128(parts.as_flattened());
    }
}

/// id2e and dn2i have the same entries, parents list their children, and subtree counts are right.
fn tree(stored: &Stored<'_>, counters: &Counters) -> Result<()> {
    let cursor = stored.database.dn2i.cursor();
    let mut nodes = cursor.map_err(|error| damaged(&error))?;
    let (mut sums, mut open, mut expected) = (Sums::default(), None, 0);
    while let Some((key, record)) = nodes.next().map_err(|error| damaged(&error))? {
        let id = number(key)?;
        if open.map(|(id, _)| id) != Some(id) {
            counters.check()?;
            if id != expected {
                return Err(wrong(format!("dn2i: {id} stands where {expected} should")));
            }
            close(&mut sums, open);
            (open, expected) = (Some((id, 1)), id + 1);
            if id > 0 {
                let node = read_node(record)?;
                sums.name(id, node.id, node.normal, node.pretty);
            }
            continue;
        }
        let node = read_node(record)?;
        let entries = node
            .child
            .ok_or_else(|| wrong(format!("dn2i: node {id} has two records of its own")))?;
        sums.name(node.id, id, node.normal, node.pretty);
        sums.count(node.id, entries);
        open = open.map(|(id, sum)| (id, sum + entries));
    }
    close(&mut sums, open);
    if expected != stored.database.entries + 1 {
        return Err(wrong("dn2i and id2e have different entries"));
    }
    match sums {
        Sums { names: 0, counts: 0 } => Ok(()),
        Sums { names: 0, .. } => {
            Err(wrong("dn2i: a subtree has another number of entries than it says"))
        }
        _ => Err(wrong("dn2i: a node is not in its parent's list, or under another name")),
    }
}

fn close(sums: &mut Sums, open: Option<(u64, u64)>) {
    if let Some((id, entries)) = open.filter(|(id, _)| *id > 0) {
        sums.count(id, entries);
    }
}

fn number(key: &[u8]) -> Result<u64> {
    key.try_into().map(u64::from_ne_bytes).map_err(|_| wrong("a key that is no entry ID"))
}

/// Every index holds exactly what its entries ask for.
fn indexes(stored: &Stored<'_>, means: &Means, counters: &Counters) -> Result<()> {
    let database = stored.database;
    let sizes = database.indexes.tables.iter();
    let sizes: Vec<KeySize> = sizes.map(|_| KeySize::UpToEight).collect();
    let postings = Postings::new(&sizes, means.memory, &means.scratch, counters.flag());
    entries(stored, postings.writer(), counters)?;
    counters.advance(1);
    let sorted = postings.finish(means.jobs).map_err(sorting)?;
    for (index, table) in database.indexes.tables.iter().enumerate() {
        let cursor = database.index_tables[index].cursor().map_err(|error| damaged(&error))?;
        let mut rows = Compared { cursor, name: &table.name };
        let exponent = stored.settings.list_exponent;
        postings::each_row(&sorted, index, &Numbering::plain(), exponent, &mut rows)?;
        rows.end()?;
        counters.advance(1);
    }
    Ok(())
}

/// Looks at every entry, and hands its keys to the sorter.
fn entries(stored: &Stored<'_>, mut writer: Writer, counters: &Counters) -> Result<()> {
    let mut cursor = stored.database.id2e.cursor().map_err(|error| damaged(&error))?;
    let mut expected = 1;
    while let Some((key, value)) = cursor.next().map_err(|error| damaged(&error))? {
        let id = number(key)?;
        if id != expected {
            return Err(wrong(format!("id2e: {id} stands where {expected} should")));
        }
        let position = u32::try_from(id - 1).map_err(|_| wrong("an ID of more than 32 bits"))?;
        stored.entry(id, value, &mut |table, key: Key| {
            #[allow(clippy::cast_possible_truncation, reason = "a key has at most 8 bytes")]
            writer.push_long(table, key.bits(), key.len() as u8, position);
            Ok(())
        })?;
        if id % SETTLE == 0 {
            counters.check()?;
            writer.settle().map_err(sorting)?;
        }
        expected += 1;
    }
    Ok(())
}

/// Holds the rows that should be against those that are.
struct Compared<'r> {
    cursor: Cursor<'r>,
    name: &'r str,
}

impl Rows for Compared<'_> {
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()> {
        for id in ids {
            let found = self.cursor.next().map_err(|error| damaged(&error))?;
            if found != Some((key, &id.to_ne_bytes())) {
                let (name, key) = (self.name, Key::new(key));
                return Err(wrong(format!(
                    "index {name} does not agree with the entries at key {key:?}"
                )));
            }
        }
        Ok(())
    }
}

impl Compared<'_> {
    fn end(&mut self) -> Result<()> {
        match self.cursor.next().map_err(|error| damaged(&error))? {
            None => Ok(()),
            Some(_) => Err(wrong(format!("index {} has keys that no entry asks for", self.name))),
        }
    }
}
