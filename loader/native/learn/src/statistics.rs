//! Counts entries. Memory is bounded by limits on everything that is kept, not by the size of the tree.

use std::borrow::Cow;

use common::Result;
use ldif::Record;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::histogram::Histogram;
use crate::place::Place;
use crate::sampled::{Counts, Sampled};

/// Most kinds; entries of further kinds are only counted.
const MOST_KINDS: usize = 4096;
/// Most attributes of a kind.
const MOST_ATTRIBUTES: usize = 400;
/// Most whole entries kept of one kind, as records.
const MOST_RECORDS: usize = 1 << 15;
/// Most bytes of the sampled entries of a kind.
const KIND_BYTES: usize = 48 << 20;
const ALL_BYTES: usize = 128 << 20;
/// Most values of an attribute in a sampled entry.
const MOST_VALUES: u32 = 16;
const LONGEST_VALUE: usize = 1024;

/// Entries with the same key are of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The path as in [`crate::place::Place::path`].
    pub path: Box<str>,
    /// Object classes in lower case, sorted, separated by spaces.
    pub classes: Box<str>,
}

/// Counts of the entries with the same path and object classes.
#[derive(Debug, Default)]
pub struct Kind {
    pub entries: u64,
    pub attributes: FxHashMap<Box<str>, Attribute>,
    /// Number of children of this kind per parent, by the hash of the parent's DN.
    pub parents: Counts,
    /// A sample of entries as LDIF, by the hash of their DN; long values and long lists are shortened.
    pub records: Sampled<Box<[u8]>, MOST_RECORDS>,
    /// Bytes of the sample.
    pub size: usize,
}

/// Counts of one attribute over all entries of a kind.
#[derive(Debug, Default)]
pub struct Attribute {
    /// As spelled in an entry.
    pub spelling: Box<str>,
    /// Number of entries that have it.
    pub entries: u64,
    pub values: u64,
    /// Number of values that are not text.
    pub binary: u64,
    /// Number of values per entry that has any.
    pub counts: Histogram,
    /// Bytes per value.
    pub lengths: Histogram,
    /// Hashes of values, ignoring case.
    pub distinct: Counts,
}

/// The counts of one worker.
#[derive(Debug, Default)]
pub struct Statistics {
    pub kinds: FxHashMap<Key, Kind>,
    pub entries: u64,
    /// Number of entries beyond `MOST_KINDS`.
    pub uncounted: u64,
    size: usize,
    /// Least level of the records of every kind.
    level: u32,
    place: Place,
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
        let mut lines = Vec::with_capacity(fields.len());
        for field in &fields {
            lines.push(line(field, record.bytes)?);
        }
        lines.retain(|line| synth::is_description(&line.name));
        self.place.set(&entry.dn);
        if !self.place.has_types() {
            self.uncounted += 1;
            return Ok(());
        }
        let key = Key { path: lossy(self.place.path()), classes: classes(&lines) };
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&key) {
            self.uncounted += 1;
            return Ok(());
        }
        let kind = self.kinds.entry(key).or_default();
        let (before, hash) = (kind.size, self.place.own());
        kind.raise(self.level);
        kind.entries += 1;
        kind.parents.count(self.place.parent());
        let keep = kind.records.takes(hash);
        self.record.clear();
        self.record.extend_from_slice(&record.bytes[entry.dn_span]);
        self.values.clear();
        for line in &lines {
            let Some(attribute) = kind.attribute(line) else { continue };
            let count = self.values.entry(line.name.as_str().into()).or_default();
            *count += 1;
            attribute.see(line, *count == 1);
            if keep && *count <= MOST_VALUES && line.value.len() <= LONGEST_VALUE {
                self.record.extend_from_slice(line.raw);
            }
        }
        for (name, &count) in &self.values {
            if let Some(attribute) = kind.attributes.get_mut(name) {
                attribute.counts.add(u64::from(count));
            }
        }
        if keep {
            kind.keep(hash, &self.record);
            while kind.size > KIND_BYTES {
                kind.raise(kind.records.level() + 1);
            }
        }
        self.size = self.size + kind.size - before;
        self.fit();
        Ok(())
    }

    fn fit(&mut self) {
        while self.size > ALL_BYTES {
            self.level += 1;
            self.kinds.values_mut().for_each(|kind| kind.raise(self.level));
            self.size = self.kinds.values().map(|kind| kind.size).sum();
        }
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.uncounted += other.uncounted;
        self.level = self.level.max(other.level);
        for (key, theirs) in other.kinds {
            self.kinds.entry(key).or_default().merge(theirs);
        }
        for kind in self.kinds.values_mut() {
            kind.raise(self.level);
            while kind.size > KIND_BYTES {
                kind.raise(kind.records.level() + 1);
            }
        }
        self.size = self.kinds.values().map(|kind| kind.size).sum();
        self.fit();
    }
}

impl Kind {
    pub fn keep(&mut self, hash: u64, record: &[u8]) {
        let level = self.records.level();
        self.records.note(hash, |kept| *kept = record.into());
        self.size += record.len();
        if self.records.level() > level {
            self.measure();
        }
    }

    /// Keeps fewer records.
    pub fn raise(&mut self, level: u32) {
        if level > self.records.level() {
            self.records.raise(level);
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.size = self.records.values().map(|record| record.len()).sum();
    }

    pub fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.parents.add(other.parents);
        self.records.merge(other.records, |mine, theirs| *mine = theirs);
        self.measure();
        for (name, theirs) in other.attributes {
            match self.attributes.entry(name) {
                std::collections::hash_map::Entry::Occupied(mine) => mine.into_mut().merge(theirs),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(theirs);
                }
            }
        }
    }

    fn attribute(&mut self, line: &Line<'_>) -> Option<&mut Attribute> {
        if !self.attributes.contains_key(line.name.as_str()) {
            if self.attributes.len() >= MOST_ATTRIBUTES {
                return None;
            }
            self.attributes.insert(
                line.name.as_str().into(),
                Attribute { spelling: line.spelling.into(), ..Attribute::default() },
            );
        }
        self.attributes.get_mut(line.name.as_str())
    }
}

impl Attribute {
    fn see(&mut self, line: &Line<'_>, first: bool) {
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
        // Any spelling would do, but it must not depend on the order of the workers.
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
    Ok(Line {
        name: spelling.to_ascii_lowercase(),
        spelling,
        value: field.value()?,
        raw: &record[field.span.clone()],
    })
}

/// The attribute type with `;binary`. Other options are dropped, because they may reveal more than a type does.
pub fn described<'a>(field: &'a ldif::Field<'a>) -> &'a [u8] {
    const BINARY: &[u8] = b";binary";
    let (whole, base) = (field.description(), field.base());
    if whole.len() == base.len() + BINARY.len() && whole[base.len()..].eq_ignore_ascii_case(BINARY)
    {
        return whole;
    }
    base
}

fn classes(lines: &[Line<'_>]) -> Box<str> {
    let values = lines.iter().filter(|line| line.name == "objectclass");
    let mut names: Vec<_> = values.filter_map(|line| class(&line.value)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ").into()
}

/// The name of an object class, or None if the value cannot be one.
fn class(value: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(value).ok()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (!name.is_empty() && name.bytes().all(fits)).then(|| name.to_ascii_lowercase())
}

fn lossy(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}
