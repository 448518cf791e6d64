//! Compares an index with the postings that its entries require, key by key and row by row.

use codec::idl::{self, IndexRecord};
use extsort::Visitor;
use lmdbfile::{Peekable, TableReader};
use values::keys::Key;

use super::findings::{Finding, Findings, Kind};
use super::indexes::TOO_LONG;
use super::ranges::StopReason;

/// Counts of required and missing postings of an index.
#[derive(Debug, Default, Clone, Copy)]
pub struct IndexCounts {
    pub wanted: u64,
    pub missing: u64,
    /// Keys of a length that no entry requires.
    pub foreign: u64,
}

/// Longest key, in bytes, that is counted by its length.
const LONGEST: usize = 31;
/// Number of keys by length; longer keys count as the longest.
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
    /// `None` when the index does not have the key.
    row: Option<IndexRecord>,
    /// Postings of the current key: those that entries require, and those in the list.
    wanted: u64,
    listed: u64,
    last: Option<u32>,
    /// Keys that entries require, and keys that no entry requires, except that of presence.
    asked: Lengths,
    unasked: Lengths,
    pub tally: IndexCounts,
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
        let (wanted, listed, last, tally) = (0, 0, None, IndexCounts::default());
        let (asked, unasked) = (Lengths::default(), Lengths::default());
        Ok(Self { rows, name, most, new, findings, key, row, wanted, listed, last, asked, unasked, tally })
    }

    /// Ends the comparison: all remaining keys are superfluous.
    pub fn finish(&mut self) -> Result<(), StopReason> {
        while self.rows.key().is_some() {
            self.unasked()?;
        }
        if self.tally.wanted > 0 {
            let of_length = self.asked.iter().zip(self.unasked);
            self.tally.foreign = of_length.filter(|(asked, _)| **asked == 0).map(|(_, count)| count).sum();
        }
        Ok(())
    }

    /// Checks a key that no entry requires. A range outlives its entries, and does no harm.
    fn unasked(&mut self) -> Result<(), StopReason> {
        // Keys longer than those of any entry do not come from slapd, but may exist.
        let bytes = self.rows.key().unwrap_or_default();
        self.key = Key::new(&bytes[..bytes.len().min(8)]);
        if self.key != Key::PRESENCE {
            self.unasked[bytes.len().min(LONGEST)] += 1;
        }
        self.begin()?;
        if self.new && self.is_range() {
            self.too_much(0);
        }
        self.rest()
    }

    fn begin(&mut self) -> Result<(), StopReason> {
        (self.wanted, self.listed, self.last) = (0, 0, None);
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
        self.wanted += 1;
        let there = match self.row {
            None => false,
            Some(IndexRecord::Damaged) => true,
            Some(IndexRecord::Range(low, high)) => (low..=high).contains(&id),
            Some(IndexRecord::List) => self.listed(id)?,
        };
        if !there {
            self.tally.missing += 1;
            self.add(Kind::Missing, Some(id), "a search by this index does not find the entry");
        }
        Ok(())
    }

    /// Returns true if the list has the ID; reports smaller IDs as superfluous.
    fn listed(&mut self, id: u64) -> Result<bool, StopReason> {
        while let Some(found) = self.of_list().filter(|found| *found <= id) {
            self.advance()?;
            if found == id {
                return Ok(true);
            }
            self.too_much(found);
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
            self.unasked()?;
        }
        let found = self.rows.key() == Some(key.as_bytes());
        self.asked[usize::from(len).min(LONGEST)] += 1;
        self.key = key;
        (self.wanted, self.listed, self.last, self.row) = (0, 0, None, None);
        if found { self.begin() } else { Ok(()) }
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
        self.tally.wanted += self.wanted;
        if self.listed > self.most {
            self.add(Kind::TooLong, None, TOO_LONG);
        }
        if self.new && self.is_range() && self.wanted < self.most {
            self.add(Kind::TooMuch, None, "a range where a list would fit");
        }
        Ok(())
    }
}

/// Iterates over the postings of an index; one posting is current.
pub struct IndexRecords<'r> {
    posting: Peekable<'r>,
    name: &'r str,
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

    /// Returns the current ID while it belongs to the same key.
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
            let what = format!("a posting of {} bytes instead of 8", value.len());
            StopReason::damage(Finding::new(what).of_table(self.name))
        })?;
        self.first = self.posting.is_first;
        Ok(())
    }
}
