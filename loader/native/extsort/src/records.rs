//! Sorts byte records.

use std::ops::Range;
use std::sync::Arc;

use crate::scratch::{Appender, Resources, Window};
use crate::sorter::{Block, Merge, Merged, Sorter, Source};
use crate::{Result, too_large};

/// Bytes of a record's prefix and length, which precede the record in the temporary file.
const HEADER: usize = 16 + 4;

/// Sorts records by a prefix, which is a number, and then by their bytes.
///
/// ```
/// # use extsort::RecordSorter;
/// # use std::sync::Arc;
/// let mut sorter = RecordSorter::new(64 << 20, 2, "/tmp".as_ref(), &Arc::default());
/// sorter.push(7, b"b")?;
/// sorter.push(7, b"a")?;
/// let mut sorted = sorter.finish()?;
/// assert_eq!(sorted.next()?, Some((7, &b"a"[..])));
/// assert_eq!(sorted.next()?, Some((7, &b"b"[..])));
/// assert_eq!(sorted.next()?, None);
/// # Ok::<(), common::Error>(())
/// ```
pub type RecordSorter = Sorter<RecordBlock>;
pub type Records = Merged<RecordPart>;

impl RecordSorter {
    /// Adds a record of less than 4 GiB.
    pub fn push(&mut self, prefix: u128, bytes: &[u8]) -> Result<()> {
        self.add(|open| open.push(prefix, bytes))?.ok_or_else(too_large)
    }
}

impl Records {
    /// Returns the prefix and the bytes of the next record; `None` at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend the bytes
    pub fn next(&mut self) -> Result<Option<(u128, &[u8])>> {
        self.merge()?.next()
    }
}

impl Merge<RecordPart> {
    fn next(&mut self) -> Result<Option<(u128, &[u8])>> {
        let head = self.next_source()?.and_then(RecordPart::head);
        Ok(head.map(|([high, low], bytes)| (u128::from(high) << 64 | u128::from(low), bytes)))
    }
}

/// Consecutive records, and for each its prefix and location.
#[derive(Debug, Default)]
pub struct RecordBlock {
    bytes: Vec<u8>,
    records: Vec<Location>,
}

#[derive(Debug, Clone, Copy)]
struct Location {
    prefix: Prefix,
    start: u32,
    len: u32,
}

/// A prefix as two halves, the high one first: they take less memory than a `u128`, which is aligned to 16 bytes.
type Prefix = [u64; 2];

#[allow(clippy::cast_possible_truncation, reason = "splits the number")]
fn halves(prefix: u128) -> Prefix {
    [(prefix >> 64) as u64, prefix as u64]
}

impl RecordBlock {
    fn push(&mut self, prefix: u128, bytes: &[u8]) -> Option<()> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        let len = u32::try_from(bytes.len()).ok()?;
        self.bytes.extend_from_slice(bytes);
        self.records.push(Location { prefix: halves(prefix), start, len });
        Some(())
    }
}

fn record(bytes: &[u8], location: Location) -> &[u8] {
    &bytes[location.start as usize..][..location.len as usize]
}

impl Block for RecordBlock {
    type Part = RecordPart;
    const QUARTERS: usize = 3;
    const LEAST: usize = 0;

    fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.records)
    }

    fn next(&self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len());
        Self { bytes, records: Vec::with_capacity(self.records.len()) }
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.records.sort_unstable_by(|left, right| {
            let by_bytes = || record(bytes, *left).cmp(record(bytes, *right));
            left.prefix.cmp(&right.prefix).then_with(by_bytes)
        });
    }

    fn into_part(self) -> RecordPart {
        RecordPart::InMemory { block: self, passed: 0 }
    }

    fn write(merge: &mut Merge<RecordPart>, run: &mut Appender<'_>) -> Result<()> {
        while let Some((prefix, bytes)) = merge.next()? {
            run.put(&prefix.to_le_bytes())?;
            // Every record in a block is shorter than 4 GiB.
            run.put(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes())?;
            run.put(bytes)?;
        }
        Ok(())
    }

    fn open(run: Range<u64>, read_size: usize, resources: &Arc<Resources>) -> Result<RecordPart> {
        let mut window = Window::new(run, read_size);
        load(&mut window, resources)?;
        Ok(RecordPart::Spilled(window, Arc::clone(resources)))
    }
}

/// A sorted part of the records.
pub enum RecordPart {
    InMemory {
        block: RecordBlock,
        passed: usize,
    },
    /// A run. The window has the complete next record, or is at the end of the run.
    Spilled(Window, Arc<Resources>),
}

impl RecordPart {
    fn head(&self) -> Option<(Prefix, &[u8])> {
        match self {
            Self::InMemory { block, passed } => {
                let &location = block.records.get(*passed)?;
                Some((location.prefix, record(&block.bytes, location)))
            }
            Self::Spilled(window, _) => {
                let (prefix, rest) = window.buffered().split_first_chunk()?;
                let (len, rest) = rest.split_first_chunk()?;
                let bytes = &rest[..u32::from_le_bytes(*len) as usize];
                Some((halves(u128::from_le_bytes(*prefix)), bytes))
            }
        }
    }
}

impl Source for RecordPart {
    type Key = Prefix;

    fn key(&self) -> Option<Prefix> {
        self.head().map(|(prefix, _)| prefix)
    }

    fn is_before(parts: &[Self], left: usize, right: usize) -> bool {
        parts[left].head().map(|head| head.1) < parts[right].head().map(|head| head.1)
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        let len = self.head().map_or(0, |(_, bytes)| HEADER + bytes.len());
        match self {
            Self::InMemory { passed, .. } => *passed += count,
            Self::Spilled(window, resources) => {
                window.pass(len);
                load(window, resources)?;
            }
        }
        Ok(())
    }
}

/// Reads until the window has the complete next record.
fn load(window: &mut Window, resources: &Resources) -> Result<()> {
    let header = window.peek(HEADER, &resources.scratch)?;
    if header.is_empty() {
        return Ok(());
    }
    let len = header.get(16..HEADER).and_then(|len| len.try_into().ok());
    let len = HEADER + len.map_or(0, u32::from_le_bytes) as usize;
    let is_whole = window.peek(len, &resources.scratch)?.len() >= len;
    if is_whole { Ok(()) } else { Err(resources.scratch.damaged()) }
}
