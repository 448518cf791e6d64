//! Records that are read back in the order that they were appended in.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::scratch::{Resources, Window};
use crate::{HEADER, Result, push_record, split_record};

/// Records read between two looks at the stop flag.
const PATIENCE: u64 = 1 << 16;

/// Keeps byte records, in memory up to a limit and then in a temporary file.
///
/// ```
/// # use extsort::Spool;
/// # use std::sync::Arc;
/// let mut spool = Spool::new(1 << 20, "/tmp".as_ref(), &Arc::default());
/// spool.append(b"one")?;
/// spool.append_parts(&[b"tw", b"o"])?;
/// let mut reader = spool.reader();
/// assert_eq!(reader.next()?, Some(&b"one"[..]));
/// assert_eq!(reader.next()?, Some(&b"two"[..]));
/// assert_eq!(reader.next()?, None);
/// # Ok::<(), common::Error>(())
/// ```
#[derive(Debug)]
pub struct Spool {
    means: Resources,
    /// The first records: whole ones, as many as memory holds.
    first: Vec<u8>,
    /// How many bytes come then in the file.
    spilled: u64,
    /// The last records: not written yet.
    last: Vec<u8>,
    records: u64,
}

impl Spool {
    /// Uses about `memory` bytes, then a temporary file in `dir`. When `stop` is raised, all calls
    /// end with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let means = Resources::new(memory, dir, stop);
        Self { means, first: Vec::new(), spilled: 0, last: Vec::new(), records: 0 }
    }

    /// Appends a record of less than 4 GiB.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_parts(&[record])
    }

    /// Appends one record that is made of several parts.
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let in_memory = self.means.memory - self.means.memory / 8;
        let is_first = self.spilled == 0
            && self.last.is_empty()
            && self.first.len() + HEADER + len <= in_memory;
        let bytes = if is_first { &mut self.first } else { &mut self.last };
        push_record(bytes, parts)?;
        self.records += 1;
        if self.last.len() < self.means.write_size() { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        self.means.check_cancelled()?;
        self.means.scratch.append(&self.last)?;
        self.spilled += self.last.len() as u64;
        self.last.clear();
        Ok(())
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Reads all from the start. There may be several readers.
    pub fn reader(&self) -> SpoolReader<'_> {
        let window = Window::new(0..self.spilled, self.means.write_size());
        let (first, last) = (&self.first, &self.last);
        SpoolReader { spool: self, first, window, last, given: 0, passed: 0 }
    }
}

/// The records of a spool in order.
#[derive(Debug)]
pub struct SpoolReader<'a> {
    spool: &'a Spool,
    first: &'a [u8],
    window: Window,
    last: &'a [u8],
    given: u64,
    /// The length of the record in the window that was given last.
    passed: usize,
}

impl SpoolReader<'_> {
    /// The next record. None at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend the bytes
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        self.given += 1;
        if self.given % PATIENCE == 0 {
            self.spool.means.check_cancelled()?;
        }
        if let Some(record) = split_record(&mut self.first) {
            return Ok(Some(record));
        }
        self.window.pass(std::mem::take(&mut self.passed));
        let scratch = &self.spool.means.scratch;
        let Some(&header) = self.window.peek(HEADER, scratch)?.first_chunk() else {
            return Ok(split_record(&mut self.last));
        };
        self.passed = HEADER + u32::from_le_bytes(header) as usize;
        let record = self.window.peek(self.passed, scratch)?.get(HEADER..self.passed);
        record.map(Some).ok_or_else(|| scratch.damaged())
    }
}
