//! All postings of one index.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use common::lock;

use super::item;
use super::item::Item;
use super::run::{self, BUCKETS, BucketBounds, Chunk, Extent, gather};
use super::sorted::{Grouper, TaskSender};
use crate::Result;
use crate::scratch::Resources;
use crate::sorter::{Merge, Part};

#[derive(Debug)]
pub(crate) struct Store<I> {
    split: OnceLock<BucketBounds<I>>,
    held: Mutex<Buffered<I>>,
}

#[derive(Debug, Default)]
struct Buffered<I> {
    chunks: VecDeque<Chunk<I>>,
    /// Bytes of all chunks.
    bytes: usize,
    /// The extents of each run, one per bucket.
    runs: Vec<Vec<Extent>>,
}

impl<I: Item> Store<I> {
    pub fn new() -> Self {
        Self { split: OnceLock::new(), held: Mutex::default() }
    }

    /// Takes the items in the `buffer` of a writer, at least one.
    pub fn take(&self, buffer: &mut Vec<I>, writer: usize) {
        let split = self.split.get_or_init(|| BucketBounds::new(buffer));
        let chunk = Chunk::new(*split, buffer, writer);
        buffer.clear();
        let mut held = lock(&self.held);
        held.bytes += chunk.bytes();
        held.chunks.push_back(chunk);
    }

    /// Returns the bytes held in memory.
    pub fn bytes(&self) -> usize {
        lock(&self.held).bytes
    }

    /// Spills the oldest chunks: at least one, and at least `bytes` bytes if there are as many.
    pub fn spill_oldest(&self, bytes: usize, means: &Resources) -> Result<()> {
        let chunks = self.oldest(bytes);
        if chunks.is_empty() {
            return Ok(());
        }
        let run = run::spill(&chunks, means)?;
        lock(&self.held).runs.push(run);
        Ok(())
    }

    /// Removes the oldest chunks.
    fn oldest(&self, bytes: usize) -> Vec<Chunk<I>> {
        let (mut chunks, mut taken) = (Vec::new(), 0);
        let mut held = lock(&self.held);
        while taken < bytes.max(1) {
            let Some(chunk) = held.chunks.pop_front() else { break };
            taken += chunk.bytes();
            chunks.push(chunk);
        }
        held.bytes -= taken;
        chunks.sort_by_key(|chunk: &Chunk<I>| chunk.writer);
        chunks
    }

    /// Prepares for reading. A bucket of more than `limit` bytes is merged instead of sorted.
    pub fn close(self, limit: usize, threads: usize) -> FinishedIndex<I> {
        let held = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut chunks = Vec::from(held.chunks);
        chunks.sort_by_key(|chunk| chunk.writer);
        let mut closed = FinishedIndex { chunks, runs: held.runs, limit };
        let large: Vec<_> = (0..BUCKETS).filter(|&bucket| closed.is_large(bucket)).collect();
        workers::for_each(threads, &mut closed.chunks, |chunk| {
            for &bucket in &large {
                chunk.bucket_mut(bucket).sort_unstable();
            }
        });
        closed
    }
}

/// The buffers of a sorting thread, kept from bucket to bucket because new memory is slow.
#[derive(Debug, Default)]
pub(crate) struct Buffers<I> {
    items: Vec<I>,
    spare: Vec<I>,
    bytes: Vec<u8>,
}

/// All postings of one index, complete.
pub(crate) struct FinishedIndex<I> {
    chunks: Vec<Chunk<I>>,
    runs: Vec<Vec<Extent>>,
    limit: usize,
}

impl<I: Item> FinishedIndex<I> {
    fn extents(&self, bucket: usize) -> impl Iterator<Item = Extent> {
        self.runs.iter().map(move |run| run[bucket]).filter(|extent| extent.items > 0)
    }

    fn items(&self, bucket: usize) -> usize {
        let held: usize = self.chunks.iter().map(|chunk| chunk.bucket(bucket).len()).sum();
        held + self.extents(bucket).map(|extent| extent.items).sum::<usize>()
    }

    fn is_large(&self, bucket: usize) -> bool {
        self.items(bucket) * size_of::<I>() > self.limit
    }

    /// Groups the buckets; a group has at most `most` items unless a single bucket has more.
    pub fn groups(&self, most: usize) -> Vec<Range<usize>> {
        let (mut groups, mut start, mut sum) = (Vec::new(), 0, 0);
        for bucket in 0..BUCKETS {
            let items = self.items(bucket);
            if sum > 0 && sum + items > most {
                groups.push(start..bucket);
                (start, sum) = (bucket, 0);
            }
            sum += items;
        }
        groups.push(start..BUCKETS);
        groups
    }

    /// Sends buckets, sorted and grouped.
    pub fn send(
        &self,
        buckets: Range<usize>,
        buffers: &mut Buffers<I>,
        means: &Resources,
        outlet: &TaskSender,
    ) -> Result<()> {
        let mut grouper = Grouper::new(outlet);
        for bucket in buckets {
            means.check_cancelled()?;
            if self.is_large(bucket) {
                self.merge(bucket, means, &mut grouper)?;
                continue;
            }
            let Buffers { items, spare, bytes } = &mut *buffers;
            items.clear();
            for extent in self.extents(bucket) {
                run::read(extent, means, bytes, items)?;
            }
            gather(&self.chunks, bucket, items);
            item::sort(items, spare);
            grouper.add(items)?;
        }
        grouper.finish()
    }

    fn merge(&self, bucket: usize, means: &Resources, grouper: &mut Grouper<'_, I>) -> Result<()> {
        let read_size = means.read_size(self.runs.len());
        let mut parts = Vec::new();
        for extent in self.extents(bucket) {
            parts.push(run::part(extent, read_size, means)?);
        }
        parts.extend(self.chunks.iter().map(|chunk| Part::held(chunk.bucket(bucket).into())));
        let mut merge = Merge::new(parts);
        while let Some(items) = merge.next()? {
            grouper.add(items)?;
        }
        Ok(())
    }
}
