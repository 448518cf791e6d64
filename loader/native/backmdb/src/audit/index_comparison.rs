//! Compares an index with the postings that the entries require, key by key.

use codec::idl::{self, IndexRecord};
use extsort::Visitor;
use lmdbfile::{Peekable, TableReader};
use values::keys::Key;

use super::findings::{Finding, Findings, Kind};
use super::indexes::TOO_LONG;
use super::ranges::StopReason;

/// Counts of an index.
#[derive(Debug, Default, Clone, Copy)]
pub struct IndexCounts {
    /// Postings that the entries require.
    pub required: u64,
    /// Required postings that the index lacks.
    pub missing: u64,
    /// Keys of the index with a length that no required key has.
    pub foreign: u64,
}

/// Length in bytes of the longest keys in [`Lengths`]; longer keys are counted with them.
const LONGEST: usize = 31;
/// Number of keys by length.
type Lengths = [u64; LONGEST + 1];

pub struct IndexComparison<'a> {
    rows: IndexRecords<'a>,
    name: &'a str,
    /// Maximum number of IDs in a list.
    most: u64,
    /// The file is new: a range is valid only where a list would be too long.
    new: bool,
    findings: &'a mut Findings,
    key: Key,
    /// The record of `key`; `None` if the index does not have the key.
    row: Option<IndexRecord>,
    /// Number of required postings of `key`.
    required: u64,
    /// Number of IDs that were read from the list of `key`.
    listed: u64,
    /// Position of the previous required posting of `key`.
    last: Option<u32>,
    /// Keys that entries require, counted by length.
    required_keys: Lengths,
    /// Keys of the index that no entry requires, counted by length; the presence key is not counted.
    other_keys: Lengths,
    pub counts: IndexCounts,
}

impl<'a> IndexComparison<'a> {
    pub fn new(
        table: &TableReader<'a>,
        name: &'a str,
        most: u64,
        new: bool,
        findings: &'a mut Findings,
    ) -> Result<Self, StopReason> {
        let (rows, key, row) = (IndexRecords::new(table, name)?, Key::PRESENCE, None);
        let (required, listed, last, counts) = (0, 0, None, IndexCounts::default());
        let [required_keys, other_keys] = [Lengths::default(); 2];
        Ok(Self {
            rows,
            name,
            most,
            new,
            findings,
            key,
            row,
            required,
            listed,
            last,
            required_keys,
            other_keys,
            counts,
        })
    }

    /// Ends the comparison: all remaining keys are superfluous.
    pub fn finish(&mut self) -> Result<(), StopReason> {
        while self.rows.key().is_some() {
            self.other_key()?;
        }
        if self.counts.required > 0 {
            let by_length = self.required_keys.iter().zip(self.other_keys);
            self.counts.foreign = by_length.filter(|(required, _)| **required == 0).map(|(_, other)| other).sum();
        }
        Ok(())
    }

    /// Checks a key that no entry requires. A range remains when its entries are deleted, and does no harm.
    fn other_key(&mut self) -> Result<(), StopReason> {
        // slapd generates keys of more than 8 bytes only if olcIndexIntLen is larger, but the file may have such keys.
        let bytes = self.rows.key().unwrap_or_default();
        self.key = Key::new(&bytes[..bytes.len().min(8)]);
        if self.key != Key::PRESENCE {
            self.other_keys[bytes.len().min(LONGEST)] += 1;
        }
        self.begin()?;
        if self.new && self.is_range() {
            self.too_much(0);
        }
        self.rest()
    }

    fn begin(&mut self) -> Result<(), StopReason> {
        (self.required, self.listed, self.last) = (0, 0, None);
        self.row = Some(self.rows.begin()?);
        if self.row == Some(IndexRecord::Damaged) {
            self.add(Kind::Posting, None, "an invalid range");
        }
        Ok(())
    }

    /// Reports the remaining IDs of a list as superfluous.
    fn rest(&mut self) -> Result<(), StopReason> {
        while let Some(id) = self.of_list() {
            self.too_much(id);
            self.advance()?;
        }
        Ok(())
    }

    fn of_list(&self) -> Option<u64> {
        self.rows.id().filter(|_| self.row == Some(IndexRecord::List))
    }

    const fn is_range(&self) -> bool {
        matches!(self.row, Some(IndexRecord::Range(..)))
    }

    fn advance(&mut self) -> Result<(), StopReason> {
        self.listed += 1;
        self.rows.another().map(|_| ())
    }

    fn posting(&mut self, id: u64) -> Result<(), StopReason> {
        self.required += 1;
        let is_found = match self.row {
            None => false,
            Some(IndexRecord::Damaged) => true,
            Some(IndexRecord::Range(low, high)) => (low..=high).contains(&id),
            Some(IndexRecord::List) => self.listed(id)?,
        };
        if !is_found {
            self.counts.missing += 1;
            self.add(Kind::Missing, Some(id), "a search by this index does not find the entry");
        }
        Ok(())
    }

    /// Returns true if the list has the ID. Reports smaller IDs as superfluous.
    fn listed(&mut self, id: u64) -> Result<bool, StopReason> {
        while let Some(own) = self.of_list().filter(|own| *own <= id) {
            self.advance()?;
            if own == id {
                return Ok(true);
            }
            self.too_much(own);
        }
        Ok(false)
    }

    fn too_much(&mut self, id: u64) {
        self.add(Kind::TooMuch, Some(id), "superfluous: the entry has no such value");
    }

    fn add(&mut self, kind: Kind, id: Option<u64>, message: &str) {
        let (key, name) = (self.key, self.name);
        self.findings.add(kind, || Finding {
            id,
            attribute: Some(name.to_owned()),
            ..Finding::new(format!("key {key:?}: {message}"))
        });
    }
}

impl Visitor for IndexComparison<'_> {
    type Error = StopReason;

    fn key(&mut self, bits: u64, len: u8) -> Result<(), StopReason> {
        let key = Key::new(&bits.to_be_bytes()[..usize::from(len)]);
        while self.rows.key().is_some_and(|stored| stored < key.as_bytes()) {
            self.other_key()?;
        }
        let is_found = self.rows.key() == Some(key.as_bytes());
        self.required_keys[usize::from(len).min(LONGEST)] += 1;
        self.key = key;
        (self.required, self.listed, self.last, self.row) = (0, 0, None, None);
        if is_found { self.begin() } else { Ok(()) }
    }

    fn positions(&mut self, positions: &[u32]) -> Result<(), StopReason> {
        for &position in positions {
            if self.last.replace(position) != Some(position) {
                self.posting(position.into())?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), StopReason> {
        self.rest()?;
        self.counts.required += self.required;
        if self.listed > self.most {
            self.add(Kind::TooLong, None, TOO_LONG);
        }
        if self.new && self.is_range() && self.required < self.most {
            self.add(Kind::TooMuch, None, "a range where a list would fit");
        }
        Ok(())
    }
}

/// Iterates over the postings of an index.
pub struct IndexRecords<'r> {
    posting: Peekable<'r>,
    name: &'r str,
    /// The ID of the current posting.
    id: u64,
    /// The current posting is the first of its key.
    first: bool,
}

impl<'r> IndexRecords<'r> {
    pub fn new(table: &TableReader<'r>, name: &'r str) -> Result<Self, StopReason> {
        let posting = Peekable::new(table, b"")?;
        let mut records = Self { posting, name, id: 0, first: true };
        records.read_id()?;
        Ok(records)
    }

    /// Returns the key of the current posting.
    pub fn key(&self) -> Option<&[u8]> {
        self.posting.live.then_some(self.posting.key.as_slice())
    }

    /// Reads the record of the current key from its first posting; skips the postings of a range.
    pub fn begin(&mut self) -> Result<IndexRecord, StopReason> {
        self.first = false;
        idl::begin(self.id, || self.another())
    }

    /// Returns the current ID if it belongs to the same key as the previous ID.
    pub fn id(&self) -> Option<u64> {
        (self.posting.live && !self.first).then_some(self.id)
    }

    /// Advances to the next posting; returns its ID if it belongs to the same key.
    pub fn another(&mut self) -> Result<Option<u64>, StopReason> {
        if self.id().is_some() {
            self.posting.step()?;
            self.read_id()?;
        }
        Ok(self.id())
    }

    fn read_id(&mut self) -> Result<(), StopReason> {
        if !self.posting.live {
            return Ok(());
        }
        let value = &self.posting.value;
        self.id = codec::id::read(value).ok_or_else(|| {
            let message = format!("a posting of {} bytes instead of 8", value.len());
            StopReason::damage(Finding::new(message).of_table(self.name))
        })?;
        self.first = self.posting.is_first;
        Ok(())
    }
}
