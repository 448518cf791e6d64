//! Stores records and reads them back in the order in which they were appended: all records, or those of a bucket.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::scratch::{Resources, Window};
use crate::{HEADER, PATIENCE, Result, push_record, split_record};

/// Keeps byte records in memory up to a limit, then in a temporary file.
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
pub struct Spool {
    resources: Resources,
    /// The first records, up to the memory limit.
    first: Vec<u8>,
    /// Bytes of the records in the file, which follow those in `first`.
    spilled: u64,
    /// The last records, which are not in the file yet.
    last: Vec<u8>,
    records: u64,
}

impl Spool {
    /// Uses about `memory` bytes, then a temporary file in `dir`. When `stop` is set, all calls fail with
    /// [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let resources = Resources::new(memory, dir, stop);
        Self { resources, first: Vec::new(), spilled: 0, last: Vec::new(), records: 0 }
    }

    /// Appends a record of less than 4 GiB.
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_parts(&[record])
    }

    /// Appends a record that consists of `parts`. Together, these must have less than 4 GiB.
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let in_memory = self.resources.memory - self.resources.memory / 8;
        let is_first = self.spilled == 0 && self.last.is_empty() && self.first.len() + HEADER + len <= in_memory;
        let bytes = if is_first { &mut self.first } else { &mut self.last };
        push_record(bytes, parts)?;
        self.records += 1;
        if self.last.len() < self.resources.write_size() { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        self.resources.check_cancelled()?;
        self.resources.scratch.append(&self.last)?;
        self.spilled += self.last.len() as u64;
        self.last.clear();
        Ok(())
    }

    pub fn len(&self) -> u64 {
        self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns a reader of all records. Several readers may exist at once.
    pub fn reader(&self) -> SpoolReader<'_> {
        let window = Window::new(0..self.spilled, self.resources.write_size());
        let (first, last) = (&self.first, &self.last);
        SpoolReader { spool: self, first, window, last, calls: 0, passed: 0 }
    }
}

/// The records of a spool in order.
pub struct SpoolReader<'a> {
    spool: &'a Spool,
    first: &'a [u8],
    window: Window,
    last: &'a [u8],
    calls: u64,
    /// Bytes that the record returned last takes in the window.
    passed: usize,
}

impl SpoolReader<'_> {
    /// Returns the next record; `None` at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend the bytes
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        self.calls += 1;
        if self.calls % PATIENCE == 0 {
            self.spool.resources.check_cancelled()?;
        }
        if let Some(record) = split_record(&mut self.first) {
            return Ok(Some(record));
        }
        self.window.pass(std::mem::take(&mut self.passed));
        let scratch = &self.spool.resources.scratch;
        let Some(&header) = self.window.peek(HEADER, scratch)?.first_chunk() else {
            return Ok(split_record(&mut self.last));
        };
        self.passed = HEADER + u32::from_le_bytes(header) as usize;
        let record = self.window.peek(self.passed, scratch)?.get(HEADER..self.passed);
        record.map(Some).ok_or_else(|| scratch.damaged())
    }
}

/// Size in bytes at which the open block of a bucket is complete.
const BLOCK: usize = 64 << 10;

/// Keeps byte records in buckets, in memory up to a limit, then in a temporary file. The open blocks, of up to 64 KiB
/// for each bucket, do not count towards the limit.
///
/// ```
/// # use extsort::{Buckets, bucket_records};
/// # use std::sync::Arc;
/// let mut buckets = Buckets::new(2, 1 << 20, "/tmp".as_ref(), &Arc::default());
/// buckets.append(1, &[b"on", b"e"])?;
/// buckets.append(0, &[b"zero"])?;
/// assert_eq!(bucket_records(&buckets.read(1)?).collect::<Vec<_>>(), [b"one"]);
/// # Ok::<(), common::Error>(())
/// ```
pub struct Buckets {
    resources: Resources,
    all: Vec<Bucket>,
    /// Bytes of all complete blocks in memory.
    in_memory: usize,
}

#[derive(Default)]
struct Bucket {
    complete: Vec<Block>,
    /// The open block.
    open: Vec<u8>,
}

#[derive(Debug)]
enum Block {
    InMemory(Vec<u8>),
    Written { offset: u64, size: usize },
}

impl Buckets {
    /// Uses about `memory` bytes, then a temporary file in `dir`. When `stop` is set, all calls fail with
    /// [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(count: usize, memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let all = (0..count).map(|_| Bucket::default()).collect();
        Self { resources: Resources::new(memory, dir, stop), all, in_memory: 0 }
    }

    /// Appends a record that consists of `parts`. Together, these must have less than 4 GiB.
    pub fn append(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<()> {
        let open = &mut self.all[bucket].open;
        push_record(open, parts)?;
        if open.len() < BLOCK { Ok(()) } else { self.end_block(bucket) }
    }

    fn end_block(&mut self, bucket: usize) -> Result<()> {
        let Bucket { complete, open } = &mut self.all[bucket];
        if self.in_memory + open.len() <= self.resources.memory {
            self.in_memory += open.len();
            open.shrink_to_fit();
            complete.push(Block::InMemory(mem::take(open)));
            return Ok(());
        }
        self.resources.check_cancelled()?;
        complete.push(Block::Written { offset: self.resources.scratch.append(open)?, size: open.len() });
        open.clear();
        Ok(())
    }

    /// Returns the bytes of a bucket's records in the order of insertion; see [`bucket_records`].
    pub fn read(&self, bucket: usize) -> Result<Vec<u8>> {
        self.resources.check_cancelled()?;
        let Bucket { complete, open } = &self.all[bucket];
        let size = |block: &Block| match block {
            Block::InMemory(bytes) => bytes.len(),
            Block::Written { size, .. } => *size,
        };
        let mut bytes = Vec::with_capacity(complete.iter().map(size).sum::<usize>() + open.len());
        for block in complete {
            match block {
                Block::InMemory(block) => bytes.extend_from_slice(block),
                &Block::Written { offset, size } => {
                    let start = bytes.len();
                    bytes.resize(start + size, 0);
                    self.resources.scratch.read(&mut bytes[start..], offset)?;
                }
            }
        }
        bytes.extend_from_slice(open);
        Ok(bytes)
    }
}

/// Splits bytes from [`Buckets::read`] into records.
pub fn bucket_records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || split_record(&mut bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_flag_ends_all_calls() {
        let stop = Arc::new(AtomicBool::new(true));
        let buckets = Buckets::new(1, 0, &std::env::temp_dir(), &stop);
        assert_eq!(buckets.read(0).unwrap_err().code, common::Code::Cancelled);
    }
}
