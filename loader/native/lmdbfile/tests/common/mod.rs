//! Random tables around every threshold of the format.
#![allow(dead_code)] // Each test file uses a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use heed::{Env, EnvOpenOptions};
use lmdbfile::{FileWriter, Flags, Format, Options, Order, Reader, Summary, Table, TreeWriter};

pub const MAP_SIZE: u64 = 1 << 30;

/// Returns a directory, and the path of the data file in it.
pub fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.mdb");
    (directory, path)
}

/// Opens a directory with LMDB.
pub fn lmdb(directory: &Path) -> Env {
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(MAP_SIZE).unwrap()).max_dbs(8);
    // SAFETY: the directory is the test's own and the file is opened once.
    #[allow(unsafe_code)]
    unsafe { options.open(directory) }.unwrap()
}

/// Opens a file and checks that every page is accounted for.
pub fn intact(path: &Path) -> Reader {
    let reader = Reader::open(path).unwrap();
    assert_eq!(reader.walk(&mut |_| {}).unwrap().unreachable, vec![]);
    reader
}

/// Checks that the reader returns the contents of these tables.
pub fn check(reader: &Reader, tables: &[(String, Content)]) {
    for (name, content) in tables {
        assert!(rows(reader, name.as_bytes()).unwrap() == content.rows, "{name}");
    }
}

/// Each key with its values.
pub type Rows = Vec<(Vec<u8>, Vec<Vec<u8>>)>;

/// A table's content in its order.
#[derive(Debug, Clone)]
pub struct Content {
    pub flags: Flags,
    pub rows: Rows,
}

/// Returns the kinds of table to test, those of slapd's database first (slapd-mdb(5)).
pub fn kinds() -> Vec<Flags> {
    vec![
        Flags::INTEGERKEY,
        Flags::INTEGERKEY | Flags::DUPSORT,
        Flags::DUPFIXED | Flags::INTEGERDUP,
        Flags::DUPSORT,
        Flags::NONE,
        Flags::DUPFIXED,
        Flags::REVERSEKEY | Flags::REVERSEDUP,
        Flags::INTEGERKEY | Flags::INTEGERDUP | Flags::DUPFIXED,
    ]
}

/// Returns random content. `page_size` determines the thresholds.
pub fn content(rng: &mut Rng, flags: Flags, page_size: usize) -> Content {
    let keys = [0, 1, 2, 3, 50, 300, 3000][rng.usize(..7)];
    let key_size = [1, 4, 10, 200, 510, 511][rng.usize(..6)];
    let value_size = [2, 4, 7, 8, 9, 100, 510, 511][rng.usize(..8)];
    let many = rng.u8(..4) == 0;
    let mut rows = BTreeMap::new();
    for _ in 0..keys {
        let key = key(rng, flags, key_size);
        let order = Sorted(key, flags.key_order());
        let count = if many { dup_count(rng, page_size) } else { rng.usize(1..4) };
        rows.insert(order, values(rng, flags, page_size, count.min(60_000 / keys + 40), value_size));
    }
    Content { flags, rows: rows.into_iter().map(|(key, values)| (key.0, values)).collect() }
}

fn key(rng: &mut Rng, flags: Flags, most: usize) -> Vec<u8> {
    if flags.contains(Flags::INTEGERKEY) {
        return rng.u64(..).to_ne_bytes().to_vec();
    }
    let size = if rng.bool() { most } else { rng.usize(1..=most) };
    bytes(rng, size)
}

fn values(rng: &mut Rng, flags: Flags, page_size: usize, count: usize, most: usize) -> Vec<Vec<u8>> {
    if !flags.contains(Flags::DUPSORT) {
        return vec![large(rng, page_size)];
    }
    let mut values = BTreeSet::new();
    for _ in 0..count {
        let value = if flags.contains(Flags::INTEGERDUP) {
            rng.u64(..).to_ne_bytes().to_vec()
        } else if flags.contains(Flags::DUPFIXED) {
            bytes(rng, most)
        } else {
            let size = rng.usize(1..=most);
            bytes(rng, size)
        };
        values.insert(Sorted(value, flags.value_order()));
    }
    values.into_iter().map(|value| value.0).collect()
}

/// Returns a value with a size near the limits of a leaf or of overflow pages, or random.
fn large(rng: &mut Rng, page_size: usize) -> Vec<u8> {
    let size = match rng.u8(..12) {
        0 => 0,
        1 => page_size / 2 - 16 + rng.usize(..16),
        2 => rng.usize(1..5) * page_size - 24 + rng.usize(..48),
        3 if rng.u8(..50) == 0 => rng.usize(..300_000),
        4 => page_size / 2 - 600 + rng.usize(..600),
        _ => rng.usize(..400),
    };
    bytes(rng, size)
}

/// Returns a count near the limits of a sub-page of 8-byte values, a page, or several levels.
fn dup_count(rng: &mut Rng, page_size: usize) -> usize {
    match rng.u8(..6) {
        0 => page_size / 16 - 8 + rng.usize(..12),
        1 => page_size / 8 - 4 + rng.usize(..8),
        2 => rng.usize(1..40_000),
        _ => rng.usize(1..20),
    }
}

fn bytes(rng: &mut Rng, size: usize) -> Vec<u8> {
    // Few different bytes, so that long common prefixes occur.
    let most = if rng.bool() { 3 } else { 255 };
    (0..size).map(|_| rng.u8(..=most)).collect()
}

#[derive(Debug, Clone)]
struct Sorted(Vec<u8>, Order);

impl Ord for Sorted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.1.compare(&self.0, &other.0)
    }
}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sorted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sorted {}

pub const FORMATS: [Format; 2] = [Format::V1, Format::V3];

pub fn options_of(format: Format, page_size: usize) -> Options {
    let page_size = u32::try_from(page_size).unwrap();
    Options { format, page_size, map_size: MAP_SIZE }
}

pub fn write_table(file: &mut FileWriter, content: &Content) -> Table {
    let mut writer = TreeWriter::new(content.flags, file.layout());
    for (key, values) in &content.rows {
        if !content.flags.contains(Flags::DUPSORT) {
            writer.put(file, key, &values[0]).unwrap();
            continue;
        }
        writer.begin(key).unwrap();
        if content.flags.contains(Flags::DUPFIXED | Flags::INTEGERDUP) && values[0].len() == 8 {
            let numbers: Vec<u64> = values.iter().map(|value| number(value)).collect();
            for some in numbers.chunks(700) {
                writer.fixed(file, some).unwrap();
            }
        } else {
            for value in values {
                writer.dup(file, value).unwrap();
            }
        }
        writer.end(file).unwrap();
    }
    writer.finish(file).unwrap()
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

pub fn write_file(path: &Path, page_size: usize, tables: &[(String, Content)]) -> Summary {
    write_as(path, &options_of(Format::V1, page_size), tables)
}

pub fn write_as(path: &Path, options: &Options, tables: &[(String, Content)]) -> Summary {
    let mut file = FileWriter::create(path, options).unwrap();
    let mut written = Vec::new();
    for (name, content) in tables {
        written.push((name.clone().into_bytes(), write_table(&mut file, content)));
    }
    file.finish(written).unwrap()
}

/// Returns some tables of random kinds.
pub fn tables(rng: &mut Rng, page_size: usize) -> Vec<(String, Content)> {
    let kinds = kinds();
    let count = rng.usize(0..5);
    let mut one = |at| {
        let kind = rng.usize(..kinds.len());
        (format!("table{at}"), content(rng, kinds[kind], page_size))
    };
    (0..count).map(&mut one).collect()
}

/// Returns all keys and values from the reader.
pub fn rows(reader: &Reader, name: &[u8]) -> lmdbfile::Result<Rows> {
    let mut rows = Rows::new();
    let Some(table) = reader.table(name) else { return Ok(rows) };
    let mut cursor = table.cursor()?;
    while let Some((key, value)) = cursor.next()? {
        add_row(&mut rows, key, value);
    }
    Ok(rows)
}

pub fn add_row(rows: &mut Rows, key: &[u8], value: &[u8]) {
    match rows.last_mut() {
        Some((last, values)) if last == key => values.push(value.to_vec()),
        _ => rows.push((key.to_vec(), vec![value.to_vec()])),
    }
}
