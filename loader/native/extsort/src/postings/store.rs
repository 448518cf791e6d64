//! The postings of one index.

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
    /// Computed from the first items that arrive.
    bounds: OnceLock<BucketBounds<I>>,
    buffered: Mutex<Buffered<I>>,
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
        Self { bounds: OnceLock::new(), buffered: Mutex::default() }
    }

    /// Moves the items out of a writer's `buffer`, which must not be empty.
    pub fn take(&self, buffer: &mut Vec<I>, writer: usize) {
        let bounds = self.bounds.get_or_init(|| BucketBounds::new(buffer));
        let chunk = Chunk::new(*bounds, buffer, writer);
        buffer.clear();
        let mut buffered = lock(&self.buffered);
        buffered.bytes += chunk.bytes();
        buffered.chunks.push_back(chunk);
    }

    /// Returns the number of bytes in memory.
    pub fn bytes(&self) -> usize {
        lock(&self.buffered).bytes
    }

    /// Spills the oldest chunks: at least one, and at least `bytes` bytes if the store has as many.
    pub fn spill_oldest(&self, bytes: usize, resources: &Resources) -> Result<()> {
        let (mut chunks, mut removed) = (Vec::new(), 0);
        let mut buffered = lock(&self.buffered);
        while removed < bytes.max(1) {
            let Some(chunk) = buffered.chunks.pop_front() else { break };
            removed += chunk.bytes();
            chunks.push(chunk);
        }
        buffered.bytes -= removed;
        drop(buffered);
        if chunks.is_empty() {
            return Ok(());
        }
        chunks.sort_by_key(|chunk: &Chunk<I>| chunk.writer);
        let run = run::spill(&chunks, resources)?;
        lock(&self.buffered).runs.push(run);
        Ok(())
    }

    /// Ends the input. A bucket of more than `limit` bytes is merged instead of sorted.
    pub fn finish(self, limit: usize, threads: usize) -> FinishedIndex<I> {
        let buffered = self.buffered.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut chunks = Vec::from(buffered.chunks);
        chunks.sort_by_key(|chunk| chunk.writer);
        let mut index = FinishedIndex { chunks, runs: buffered.runs, limit };
        let large: Vec<_> = (0..BUCKETS).filter(|&bucket| index.is_large(bucket)).collect();
        workers::for_each(threads, &mut index.chunks, |chunk| {
            for &bucket in &large {
                chunk.bucket_mut(bucket).sort_unstable();
            }
        });
        index
    }
}

/// The buffers of a sorting thread, which are reused for each bucket because new memory is slow.
#[derive(Debug, Default)]
pub(crate) struct Buffers<I> {
    items: Vec<I>,
    spare: Vec<I>,
    bytes: Vec<u8>,
}

/// All postings of one index, to be sorted bucket by bucket.
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
        let in_memory: usize = self.chunks.iter().map(|chunk| chunk.bucket(bucket).len()).sum();
        in_memory + self.extents(bucket).map(|extent| extent.items).sum::<usize>()
    }

    fn is_large(&self, bucket: usize) -> bool {
        self.items(bucket) * size_of::<I>() > self.limit
    }

    /// Groups consecutive buckets. A group of several buckets has at most `most` items.
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

    /// Sends the items of `buckets`, sorted and grouped by key.
    pub fn send(
        &self,
        buckets: Range<usize>,
        buffers: &mut Buffers<I>,
        resources: &Resources,
        outlet: &TaskSender,
    ) -> Result<()> {
        let mut grouper = Grouper::new(outlet);
        for bucket in buckets {
            resources.check_cancelled()?;
            if self.is_large(bucket) {
                self.merge(bucket, resources, &mut grouper)?;
                continue;
            }
            let Buffers { items, spare, bytes } = &mut *buffers;
            items.clear();
            for extent in self.extents(bucket) {
                run::read(extent, resources, bytes, items)?;
            }
            gather(&self.chunks, bucket, items);
            item::sort(items, spare);
            grouper.add(items)?;
        }
        grouper.finish()
    }

    fn merge(&self, bucket: usize, resources: &Resources, grouper: &mut Grouper<'_, I>) -> Result<()> {
        let read_size = resources.read_size(self.runs.len());
        let mut parts = Vec::new();
        for extent in self.extents(bucket) {
            parts.push(run::part(extent, read_size, resources)?);
        }
        parts.extend(self.chunks.iter().map(|chunk| Part::in_memory(chunk.bucket(bucket).into())));
        let mut merge = Merge::new(parts);
        while let Some(items) = merge.next()? {
            grouper.add(items)?;
        }
        Ok(())
    }
}
