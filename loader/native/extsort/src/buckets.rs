//! Records apart by a number, such as the top bits of a hash: a bucket for each, of which one is read at a time.

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::scratch::Resources;
use crate::{Result, push_record, split_record};

/// Bytes of a bucket that are written at once.
const BLOCK: usize = 64 << 10;

/// Keeps byte records in buckets, in memory up to a limit and then in a temporary file. Beyond the limit it uses up to
/// 64 KiB for each bucket.
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
#[derive(Debug)]
pub struct Buckets {
    means: Resources,
    all: Vec<Bucket>,
    /// Bytes of whole blocks in memory.
    kept: usize,
}

#[derive(Debug, Default)]
struct Bucket {
    whole: Vec<Block>,
    /// The block that grows. Records may go on in the next one.
    last: Vec<u8>,
}

#[derive(Debug)]
enum Block {
    Kept(Vec<u8>),
    /// Where a block of so many bytes begins in the temporary file.
    Written(u64, usize),
}

impl Buckets {
    /// `memory` in bytes; `dir` is the directory of the temporary file. When `stop` is raised, calls end with
    /// [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(count: usize, memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let all = (0..count).map(|_| Bucket::default()).collect();
        Self { means: Resources::new(memory, dir, stop), all, kept: 0 }
    }

    /// Appends a record of less than 4 GiB that is made of several parts.
    pub fn append(&mut self, bucket: usize, parts: &[&[u8]]) -> Result<()> {
        let last = &mut self.all[bucket].last;
        push_record(last, parts)?;
        if last.len() < BLOCK { Ok(()) } else { self.end_block(bucket) }
    }

    fn end_block(&mut self, bucket: usize) -> Result<()> {
        let Bucket { whole, last } = &mut self.all[bucket];
        if self.kept + last.len() <= self.means.memory {
            self.kept += last.len();
            last.shrink_to_fit();
            whole.push(Block::Kept(mem::take(last)));
            return Ok(());
        }
        self.means.check_cancelled()?;
        whole.push(Block::Written(self.means.scratch.append(last)?, last.len()));
        last.clear();
        Ok(())
    }

    /// The bytes of all records of a bucket, in the order in which they came: see [`bucket_records`].
    pub fn read(&self, bucket: usize) -> Result<Vec<u8>> {
        self.means.check_cancelled()?;
        let Bucket { whole, last } = &self.all[bucket];
        let mut bytes = Vec::with_capacity(self.size(bucket));
        for block in whole {
            match block {
                Block::Kept(kept) => bytes.extend_from_slice(kept),
                &Block::Written(offset, length) => {
                    let start = bytes.len();
                    bytes.resize(start + length, 0);
                    self.means.scratch.read(&mut bytes[start..], offset)?;
                }
            }
        }
        bytes.extend_from_slice(last);
        Ok(bytes)
    }

    fn size(&self, bucket: usize) -> usize {
        let Bucket { whole, last } = &self.all[bucket];
        let length = |block: &Block| match block {
            Block::Kept(kept) => kept.len(),
            Block::Written(_, length) => *length,
        };
        whole.iter().map(length).sum::<usize>() + last.len()
    }
}

/// The records of a bucket that was read.
pub fn bucket_records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || split_record(&mut bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_does_not_hold_is_read_back_from_the_file() {
        for memory in [0, 100 << 10, usize::MAX] {
            let mut buckets = Buckets::new(3, memory, &std::env::temp_dir(), &Arc::default());
            let record = |number: u32| number.to_le_bytes().repeat(number as usize % 80);
            for number in 0..5_000 {
                buckets.append(number as usize % 3, &[&record(number)]).unwrap();
            }
            assert!(!buckets.all[2].whole.is_empty());
            for bucket in 0..3_u32 {
                let bytes = buckets.read(bucket as usize).unwrap();
                let expected = (bucket..5_000).step_by(3).map(record);
                assert!(bucket_records(&bytes).eq(expected), "{memory}");
            }
        }
    }

    #[test]
    fn it_ends_when_it_is_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        let buckets = Buckets::new(1, 0, &std::env::temp_dir(), &stop);
        assert_eq!(buckets.read(0).unwrap_err().code, common::Code::Cancelled);
    }
}
