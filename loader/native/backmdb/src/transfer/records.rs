//! Copies tables record by record, and computes a checksum that does not depend on the order of records.

use std::path::Path;
use std::sync::Mutex;

use codec::tables::{self, AD2I, DN2I, ID2E, ID2V};
use ldif::Counters;
use lmdbfile::{Cursor, FileWriter, Flags, Reader, Table};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::audit::ranges::{IdRange, id_ranges, side_by_side};
use crate::{Result, lock};

/// The copied tables, in the order in which they are written.
pub const COPIED: [tables::Table; 4] = [ID2E, ID2V, DN2I, AD2I];

/// Number of records after which the cancel flag is checked.
const PATIENCE: u64 = 4096;

/// Number of parallel reads. The file is not in the page cache, and fewer reads would not keep a disk busy.
const AT_ONCE: usize = 6;
/// Maximum number of parallel reads per processor: hashing takes less time than reading.
const FOR_EACH: usize = 3;

/// The number of records, and the sum of their hashes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Records {
    pub count: u64,
    pub sum: u128,
}

impl Records {
    /// Adds a record. `seed`: a hash of the table's name.
    #[inline]
    fn add(&mut self, seed: u64, key: &[u8], value: &[u8]) {
        let hash = xxh3_128_with_seed(value, xxh3_64_with_seed(key, seed));
        (self.count, self.sum) = (self.count + 1, self.sum.wrapping_add(hash));
    }

    fn add_all(&mut self, other: Self) {
        (self.count, self.sum) = (self.count + other.count, self.sum.wrapping_add(other.sum));
    }
}

fn seed(name: &str) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), 0)
}

/// Copies the table, or writes an empty table if the source has none. `check` fails if the copy was cancelled.
pub fn copy(
    reader: &Reader,
    name: &str,
    file: &mut FileWriter,
    check: &dyn Fn() -> Result<()>,
    sum: &mut Records,
) -> lmdbfile::Result<Table> {
    let mut tree = tables::writer(name, file.layout());
    let Some(table) = reader.table(name.as_bytes()) else { return tree.finish(file) };
    let (has_duplicates, seed) = (tables::flags(name).contains(Flags::DUPSORT), seed(name));
    let (mut cursor, mut open) = (table.cursor()?, None::<Vec<u8>>);
    while let Some((key, value)) = cursor.next()? {
        sum.add(seed, key, value);
        if sum.count % PATIENCE == 0 {
            check().map_err(|_| std::io::Error::from(std::io::ErrorKind::Interrupted))?;
        }
        if !has_duplicates {
            tree.put(file, key, value)?;
            continue;
        }
        if open.as_deref() != Some(key) {
            if open.is_some() {
                tree.end(file)?;
            }
            tree.begin(key)?;
            let buffer = open.get_or_insert_default();
            buffer.clear();
            buffer.extend_from_slice(key);
        }
        tree.dup(file, value)?;
    }
    if open.is_some() {
        tree.end(file)?;
    }
    tree.finish(file)
}

/// Returns the checksum of the copied tables in the file at `path`, to which nobody else may write.
pub fn records(path: &Path, jobs: usize, counters: &Counters) -> Result<Records> {
    let reader = tables::with_orders(Reader::open(path)?);
    let mut parts: Vec<(&str, IdRange)> = Vec::new();
    for name in COPIED.map(|table| table.name) {
        match reader.table(name.as_bytes()) {
            Some(table) if name == "id2e" || name == "dn2i" => {
                parts.extend(id_ranges(&table, jobs).into_iter().map(|span| (name, span)));
            }
            Some(_) => parts.push((name, IdRange { from: 0, to: None })),
            None => {}
        }
    }
    counters.begin("records", parts.len() as u64);
    let total = Mutex::new(Records::default());
    let at_once = AT_ONCE.min(FOR_EACH * jobs).max(jobs);
    side_by_side(&reader, at_once, parts.len(), |reader, turns| {
        let mut sum = Records::default();
        for at in turns.iter() {
            let (name, span) = parts[at];
            let Some(table) = reader.table(name.as_bytes()) else { continue };
            sum.add_all(of_part(table.cursor()?, name, span)?);
            counters.check()?;
            counters.advance(1);
        }
        lock(&total).add_all(sum);
        Ok(())
    })?;
    Ok(*lock(&total))
}

fn of_part(mut cursor: Cursor<'_>, name: &str, span: IdRange) -> Result<Records> {
    let (seed, mut sum) = (seed(name), Records::default());
    if span.from > 0 {
        cursor.seek(&span.from.to_ne_bytes())?;
    }
    while let Some((key, value)) = cursor.next()? {
        if span.to.is_some_and(|to| codec::id::first(key).is_some_and(|id| id >= to)) {
            break;
        }
        sum.add(seed, key, value);
    }
    Ok(sum)
}
