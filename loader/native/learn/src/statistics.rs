//! Counts entries. Memory is bounded by limits, not by the size of the tree.

use std::borrow::Cow;

use common::Result;
use ldif::Record;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::histogram::Histogram;
use crate::position::Position;
use crate::sampled::{Counts, Sampled};

/// Maximum number of kinds. Entries of further kinds are only counted.
const MOST_KINDS: usize = 4096;
/// Maximum number of attributes of a kind. Further attributes are ignored.
const MOST_ATTRIBUTES: usize = 400;
/// Maximum number of records in the sample of a kind.
const MOST_RECORDS: usize = 1 << 15;
/// Maximum size in bytes of the sample of a kind, and of the samples of all kinds.
const KIND_BYTES: usize = 48 << 20;
const ALL_BYTES: usize = 128 << 20;
/// Maximum number of values of an attribute in a sampled record, and maximum length of such a value in bytes. Further
/// values and longer values are left out.
const MOST_VALUES: u32 = 16;
const LONGEST_VALUE: usize = 1024;

/// Identifies a kind: its entries have the same path and the same object classes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The types of the RDNs ([`crate::position::Position::path`]).
    pub path: Box<str>,
    /// Object classes in lower case, sorted, separated by spaces.
    pub classes: Box<str>,
}

/// Statistics of the entries with the same path and object classes.
#[derive(Debug, Default)]
pub struct Kind {
    pub entries: u64,
    pub attributes: FxHashMap<Box<str>, Attribute>,
    /// Number of children of this kind for each parent, by the hash of the parent's DN.
    pub parents: Counts,
    /// A sample of the entries as LDIF, by the hash of their DN. Some values are left out.
    pub records: Sampled<Box<[u8]>, MOST_RECORDS>,
    /// Size of `records` in bytes.
    pub size: usize,
}

/// Statistics of one attribute over all entries of a kind.
#[derive(Debug, Default)]
pub struct Attribute {
    /// A spelling of the attribute's name in the source.
    pub spelling: Box<str>,
    /// Number of entries that have the attribute.
    pub entries: u64,
    pub values: u64,
    /// Number of values that are not text.
    pub binary: u64,
    /// Number of values per entry, over the entries that have the attribute.
    pub counts: Histogram,
    /// Lengths of the values in bytes.
    pub lengths: Histogram,
    /// Hashes of the distinct values; case is ignored.
    pub distinct: Counts,
}

/// The statistics that one worker collects.
#[derive(Debug, Default)]
pub struct Statistics {
    pub kinds: FxHashMap<Key, Kind>,
    pub entries: u64,
    /// Number of entries without a kind, because the limit `MOST_KINDS` is reached or the DN has invalid types.
    pub uncounted: u64,
    /// Size of all samples in bytes.
    size: usize,
    /// Minimum sampling level for the records of every kind.
    level: u32,
    // Buffers for one entry: its position, its sampled record, and the number of values of each attribute.
    position: Position,
    record: Vec<u8>,
    values: FxHashMap<Box<str>, u32>,
}

/// A decoded attribute line.
struct Line<'a> {
    name: String,
    spelling: &'a str,
    value: Cow<'a, [u8]>,
    raw: &'a [u8],
}

impl Statistics {
    pub fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.entries += 1;
        let entry = record.entry()?;
        let fields = entry.fields.collect::<Result<Vec<_>>>()?;
        let line = |field| line(field, record.bytes);
        let mut lines = fields.iter().map(line).collect::<Result<Vec<_>>>()?;
        lines.retain(|line| synth::is_description(&line.name));
        self.position.set(&entry.dn);
        let key = Key { path: String::from_utf8_lossy(&self.position.path).into(), classes: classes(&lines) };
        if !self.position.has_types() || (self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&key)) {
            self.uncounted += 1;
            return Ok(());
        }
        let kind = self.kinds.entry(key).or_default();
        let (before, hash) = (kind.size, self.position.hash());
        kind.raise(self.level);
        kind.entries += 1;
        kind.parents.count(self.position.parent_hash());
        let is_sampled = kind.records.takes(hash);
        self.record.clear();
        self.record.extend_from_slice(&record.bytes[entry.dn_span]);
        self.values.clear();
        for line in &lines {
            let Some(attribute) = kind.attribute(line) else { continue };
            let count = self.values.entry(line.name.as_str().into()).or_default();
            *count += 1;
            attribute.count(line, *count == 1);
            if is_sampled && *count <= MOST_VALUES && line.value.len() <= LONGEST_VALUE {
                self.record.extend_from_slice(line.raw);
            }
        }
        for (name, &count) in &self.values {
            if let Some(attribute) = kind.attributes.get_mut(name) {
                attribute.counts.add(u64::from(count));
            }
        }
        if is_sampled {
            kind.sample(hash, &self.record);
        }
        self.size = self.size + kind.size - before;
        self.fit();
        Ok(())
    }

    /// Raises the level of all kinds until the samples are within `ALL_BYTES`.
    fn fit(&mut self) {
        while self.size > ALL_BYTES {
            self.level += 1;
            self.kinds.values_mut().for_each(|kind| kind.raise(self.level));
            self.size = self.kinds.values().map(|kind| kind.size).sum();
        }
    }

    /// Adds the statistics of another worker.
    pub fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.uncounted += other.uncounted;
        self.level = self.level.max(other.level);
        for (key, theirs) in other.kinds {
            self.kinds.entry(key).or_default().merge(theirs);
        }
        for kind in self.kinds.values_mut() {
            kind.raise(self.level);
        }
        self.size = self.kinds.values().map(|kind| kind.size).sum();
        self.fit();
    }
}

impl Kind {
    fn sample(&mut self, hash: u64, record: &[u8]) {
        let level = self.records.level();
        self.records.note(hash, |kept| *kept = record.into());
        self.size += record.len();
        if self.records.level() > level {
            self.measure();
        }
        self.raise(level);
    }

    /// Raises the sampling level to `level`, unless it is higher, and further until the sample is within `KIND_BYTES`.
    fn raise(&mut self, mut level: u32) {
        while level > self.records.level() || self.size > KIND_BYTES {
            level = level.max(self.records.level() + 1);
            self.records.raise(level);
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.size = self.records.values().map(|record| record.len()).sum();
    }

    fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.parents.add(other.parents);
        self.records.merge(other.records, |mine, theirs| *mine = theirs);
        self.measure();
        for (name, theirs) in other.attributes {
            if let Some(mine) = self.attributes.get_mut(&name) {
                mine.merge(theirs);
            } else {
                self.attributes.insert(name, theirs);
            }
        }
    }

    /// Returns the statistics of the line's attribute, or None beyond `MOST_ATTRIBUTES`.
    fn attribute(&mut self, line: &Line<'_>) -> Option<&mut Attribute> {
        if !self.attributes.contains_key(line.name.as_str()) {
            if self.attributes.len() >= MOST_ATTRIBUTES {
                return None;
            }
            let attribute = Attribute { spelling: line.spelling.into(), ..Attribute::default() };
            self.attributes.insert(line.name.as_str().into(), attribute);
        }
        self.attributes.get_mut(line.name.as_str())
    }
}

impl Attribute {
    /// Counts a value. `first` says whether it is the entry's first value of the attribute.
    fn count(&mut self, line: &Line<'_>, first: bool) {
        self.entries += u64::from(first);
        self.values += 1;
        self.lengths.add(line.value.len() as u64);
        match std::str::from_utf8(&line.value) {
            Ok(text) if !text.chars().any(char::is_control) => {}
            _ => self.binary += 1,
        }
        if line.value.iter().any(u8::is_ascii_uppercase) {
            self.distinct.count(xxh3_64(&line.value.to_ascii_lowercase()));
        } else {
            self.distinct.count(xxh3_64(&line.value));
        }
    }

    fn merge(&mut self, other: Self) {
        // The lower spelling is kept, so that the result does not depend on the order of the workers.
        self.spelling = std::cmp::min(std::mem::take(&mut self.spelling), other.spelling);
        self.entries += other.entries;
        self.values += other.values;
        self.binary += other.binary;
        self.counts.merge(&other.counts);
        self.lengths.merge(&other.lengths);
        self.distinct.add(other.distinct);
    }
}

fn line<'a>(field: &'a ldif::Field<'a>, record: &'a [u8]) -> Result<Line<'a>> {
    let spelling = std::str::from_utf8(described(field)).unwrap_or("");
    Ok(Line { name: spelling.to_ascii_lowercase(), spelling, value: field.value()?, raw: &record[field.span.clone()] })
}

/// Returns the attribute type, with `;binary` if the description has it. Other options are left out, because they may
/// be private.
pub fn described<'a>(field: &'a ldif::Field<'a>) -> &'a [u8] {
    const BINARY: &[u8] = b";binary";
    let (whole, base) = (field.description(), field.base());
    if whole.len() == base.len() + BINARY.len() && whole[base.len()..].eq_ignore_ascii_case(BINARY) {
        return whole;
    }
    base
}

/// Returns the object classes of an entry, as in [`Key::classes`].
fn classes(lines: &[Line<'_>]) -> Box<str> {
    let values = lines.iter().filter(|line| line.name == "objectclass");
    let mut names: Vec<_> = values.filter_map(|line| class(&line.value)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ").into()
}

/// Returns the name of an object class, or None if the value cannot be such a name.
fn class(value: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(value).ok()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (!name.is_empty() && name.bytes().all(fits)).then(|| name.to_ascii_lowercase())
}
