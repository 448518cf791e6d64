//! Sorts the postings of indexes. A posting is a key of an index together with a position, from which the entry ID
//! follows.

mod item;
mod run;
mod sorted;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::scratch::Resources;
use crate::{Error, Result};
use item::{pack, pack_long, widen};
pub use sorted::{Sorted, Visitor};
use store::Store;

/// Maximum size of a writer's buffer in bytes. The buffer and its buckets fit in the cache of a core.
const BUFFER: usize = 512 << 10;

/// Length of an index's keys: always four bytes, or one to eight. Keys of four bytes take half the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySize {
    Four,
    UpToEight,
}

/// The unsorted postings of several indexes.
///
/// ```
/// # use extsort::{KeySize, Postings};
/// # use std::sync::Arc;
/// let postings = Postings::new(&[KeySize::Four], 64 << 20, "/tmp".as_ref(), &Arc::default());
/// let mut writer = postings.writer();
/// writer.push(0, 0x6262_6262, 1);
/// writer.push(0, 0x6161_6161, 2);
/// writer.finish_index()?;
/// drop(writer);
/// let sorted = postings.finish(1)?;
/// # Ok::<(), common::Error>(())
/// ```
pub struct Postings {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    indexes: Vec<Index>,
    resources: Resources,
    writers: AtomicUsize,
    misused: AtomicBool,
}

#[derive(Debug)]
enum Index {
    Four(Store<u64>),
    UpToEight(Store<u128>),
}

impl Postings {
    /// `indexes` has the key size of each index. Uses about `memory` bytes (at least 16 MiB are sensible), then a
    /// temporary file in `dir`. When `stop` is set, all calls fail with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(indexes: &[KeySize], memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let indexes = indexes.iter().map(|size| match size {
            KeySize::Four => Index::Four(Store::new()),
            KeySize::UpToEight => Index::UpToEight(Store::new()),
        });
        let shared = Shared {
            indexes: indexes.collect(),
            resources: Resources::new(memory, dir, stop),
            writers: AtomicUsize::new(0),
            misused: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a writer for one thread. Drop it before calling [`finish`](Self::finish).
    pub fn writer(&self) -> Writer {
        let indexes = self.shared.indexes.len();
        let number = self.shared.writers.fetch_add(1, Ordering::Relaxed);
        let buffer = self.shared.resources.memory / 32 / indexes.max(1);
        Writer {
            shared: Arc::clone(&self.shared),
            number,
            four: vec![Vec::new(); indexes],
            long: vec![Vec::new(); indexes],
            buffer: buffer.clamp(4 << 10, BUFFER),
        }
    }

    /// Ends the input. Each [`Sorted::visit`] may use `threads` threads besides the calling one.
    pub fn finish(self, threads: usize) -> Result<Sorted> {
        let shared = Arc::into_inner(self.shared)
            .ok_or_else(|| Error::damaged("postings were finished before all writers were dropped"))?;
        if shared.misused.into_inner() {
            return Err(Error::damaged("a long key was pushed to an index of keys of four bytes"));
        }
        Ok(Sorted::new(shared.indexes, shared.resources, threads.max(1)))
    }
}

/// Adds postings. This is fastest if the positions ascend.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    number: usize,
    /// For each index, a buffer of postings with keys of four bytes.
    four: Vec<Vec<u64>>,
    /// For each index, a buffer of postings with longer keys.
    long: Vec<Vec<u128>>,
    /// Size of a full buffer in bytes.
    buffer: usize,
}

impl Writer {
    /// Adds a posting. Its key is the four bytes of `key`, big-endian.
    ///
    /// # Panics
    /// If there is no such index.
    #[inline]
    pub fn push(&mut self, index: usize, key: u32, position: u32) {
        self.four[index].push(pack(key, position));
    }

    /// Adds postings of many keys with the same position.
    ///
    /// # Panics
    /// If there is no such index.
    #[inline]
    pub fn extend(&mut self, index: usize, keys: impl Iterator<Item = u32>, position: u32) {
        self.four[index].extend(keys.map(|key| pack(key, position)));
    }

    /// Adds a posting. Its key is the first `len` (1 to 8) bytes of `bits`, big-endian; the other bytes must be 0.
    ///
    /// # Panics
    /// If there is no such index.
    #[inline]
    pub fn push_long(&mut self, index: usize, bits: u64, len: u8, position: u32) {
        self.long[index].push(pack_long(bits, len, position));
    }

    /// Passes full buffers on, and spills postings if they exceed their share of memory. Call it after a block of
    /// entries.
    pub fn finish_index(&mut self) -> Result<()> {
        self.shared.resources.check_cancelled()?;
        self.hand_over(self.buffer);
        self.shared.spill()
    }

    /// Passes on all buffers that are not empty and have at least `bytes` bytes.
    fn hand_over(&mut self, bytes: usize) {
        let indexes = self.shared.indexes.iter().zip(&mut self.four).zip(&mut self.long);
        for ((index, four), long) in indexes {
            if size_of_val(&**four) + size_of_val(&**long) < bytes.max(1) {
                continue;
            }
            match index {
                Index::Four(store) if long.is_empty() => store.take(four, self.number),
                Index::Four(_) => self.shared.misused.store(true, Ordering::Relaxed),
                Index::UpToEight(store) => {
                    long.extend(four.drain(..).map(widen));
                    store.take(long, self.number);
                }
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.hand_over(0);
    }
}

impl Shared {
    /// Spills until the indexes use at most half of the memory: the other half is for buffers and for sorting.
    fn spill(&self) -> Result<()> {
        let writers = self.writers.load(Ordering::Relaxed).max(1);
        while self.indexes.iter().map(Index::bytes).sum::<usize>() > self.resources.memory / 2 {
            let Some(index) = self.indexes.iter().max_by_key(|index| index.bytes()) else { break };
            let share = self.resources.memory / 4 / writers;
            match index {
                Index::Four(store) => store.spill_oldest(share, &self.resources)?,
                Index::UpToEight(store) => store.spill_oldest(share, &self.resources)?,
            }
        }
        Ok(())
    }
}

impl Index {
    fn bytes(&self) -> usize {
        match self {
            Self::Four(store) => store.bytes(),
            Self::UpToEight(store) => store.bytes(),
        }
    }
}
