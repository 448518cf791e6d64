//! Sorts byte records.

use std::ops::Range;
use std::sync::Arc;

use crate::scratch::{Appender, Resources, Window};
use crate::sorter::{Block, Merge, Merged, Sorter, Source};
use crate::{Result, too_large};

/// Bytes before a record in the temporary file: its prefix and its length.
const HEADER: usize = 16 + 4;

/// Sorts records by a prefix and then by their bytes.
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
/// Sorted records.
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

/// Consecutive records, and the location of each.
#[derive(Debug, Default)]
pub struct RecordBlock {
    bytes: Vec<u8>,
    records: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    prefix: Prefix,
    start: u32,
    len: u32,
}

/// The most significant half first. Because of its alignment it needs less room than a `u128`.
type Prefix = [u64; 2];

#[allow(clippy::cast_possible_truncation)] // takes the halves apart
fn halves(prefix: u128) -> Prefix {
    [(prefix >> 64) as u64, prefix as u64]
}

impl RecordBlock {
    fn push(&mut self, prefix: u128, bytes: &[u8]) -> Option<()> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        let len = u32::try_from(bytes.len()).ok()?;
        self.bytes.extend_from_slice(bytes);
        self.records.push(Place { prefix: halves(prefix), start, len });
        Some(())
    }
}

fn record(bytes: &[u8], place: Place) -> &[u8] {
    &bytes[place.start as usize..][..place.len as usize]
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
        self.records.sort_unstable_by(|one, other| {
            let by_bytes = || record(bytes, *one).cmp(record(bytes, *other));
            one.prefix.cmp(&other.prefix).then_with(by_bytes)
        });
    }

    fn into_part(self) -> RecordPart {
        RecordPart::Held { block: self, passed: 0 }
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

    fn open(run: Range<u64>, read_size: usize, means: &Arc<Resources>) -> Result<RecordPart> {
        let mut window = Window::new(run, read_size);
        load(&mut window, means)?;
        Ok(RecordPart::Spilled(window, Arc::clone(means)))
    }
}

/// A sorted part of the records.
pub enum RecordPart {
    Held {
        block: RecordBlock,
        passed: usize,
    },
    /// The complete next record is in memory, or the part is at its end.
    Spilled(Window, Arc<Resources>),
}

impl RecordPart {
    fn head(&self) -> Option<(Prefix, &[u8])> {
        match self {
            Self::Held { block, passed } => {
                let &place = block.records.get(*passed)?;
                Some((place.prefix, record(&block.bytes, place)))
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

    fn is_before(parts: &[Self], one: usize, other: usize) -> bool {
        parts[one].head().map(|head| head.1) < parts[other].head().map(|head| head.1)
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        let len = self.head().map_or(0, |(_, bytes)| HEADER + bytes.len());
        match self {
            Self::Held { passed, .. } => *passed += count,
            Self::Spilled(window, means) => {
                window.pass(len);
                load(window, means)?;
            }
        }
        Ok(())
    }
}

/// Reads the complete next record into memory.
fn load(window: &mut Window, means: &Resources) -> Result<()> {
    let header = window.peek(HEADER, &means.scratch)?;
    if header.is_empty() {
        return Ok(());
    }
    let len = header.get(16..HEADER).and_then(|len| len.try_into().ok());
    let len = HEADER + len.map_or(0, u32::from_le_bytes) as usize;
    let is_whole = window.peek(len, &means.scratch)?.len() >= len;
    if is_whole { Ok(()) } else { Err(means.scratch.damaged()) }
}
