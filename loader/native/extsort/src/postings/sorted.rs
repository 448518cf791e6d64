//! Reads sorted postings.

use std::sync::Mutex;

use common::lock;

use super::Index;
use super::item::{Item, Key};
use super::store::{Buffers, FinishedIndex, Store};
use crate::scratch::Resources;
use crate::{Error, Result};

/// Maximum number of positions in a batch: enough to make passing it on cheap, few enough to stay in the cache.
const BATCH: usize = 16 << 10;

pub(crate) type TaskSender = workers::Outlet<Batch, Error>;

/// Receives the postings of an index, key by key.
pub trait Visitor {
    type Error: From<Error>;

    /// Begins a key, which is the first `len` bytes of `bits`, big-endian. Keys ascend like byte strings.
    fn key(&mut self, bits: u64, len: u8) -> std::result::Result<(), Self::Error>;
    /// Adds positions of the current key. They ascend, also from one call to the next. A position that was pushed
    /// several times for the key is repeated as often.
    fn positions(&mut self, positions: &[u32]) -> std::result::Result<(), Self::Error>;
    /// Ends the key.
    fn end(&mut self) -> std::result::Result<(), Self::Error>;
}

/// The sorted postings of several indexes. Each index can be visited only once.
#[derive(Debug)]
pub struct Sorted {
    indexes: Vec<Mutex<Option<Index>>>,
    resources: Resources,
    threads: usize,
}

impl Sorted {
    pub(super) fn new(indexes: Vec<Index>, resources: Resources, threads: usize) -> Self {
        let indexes = indexes.into_iter().map(|index| Mutex::new(Some(index))).collect();
        Self { indexes, resources, threads }
    }

    /// Passes all postings of index `index` to `visitor`, and drops them. Several threads may visit different indexes
    /// at once.
    pub fn visit<V: Visitor>(&self, index: usize, visitor: &mut V) -> std::result::Result<(), V::Error> {
        let index = self.indexes.get(index).ok_or_else(|| Error::damaged("there is no such index"))?;
        let index = lock(index).take();
        match index.ok_or_else(|| Error::damaged("the postings of an index are visited twice"))? {
            Index::Four(store) => self.visit_store(store, visitor),
            Index::UpToEight(store) => self.visit_store(store, visitor),
        }
    }

    fn visit_store<I: Item, V: Visitor>(&self, store: Store<I>, visitor: &mut V) -> std::result::Result<(), V::Error> {
        let index: FinishedIndex<I> = store.finish(self.resources.memory / 16 / self.threads, self.threads);
        let mut joiner = BatchJoiner { visitor, key: None };
        // Small buckets are sent together, because each batch wakes a thread.
        let groups = index.groups(BATCH);
        workers::in_order(
            self.threads,
            groups.len(),
            || {
                let mut buffers = Buffers::default();
                let (index, groups) = (&index, &groups);
                move |task: usize, outlet: &TaskSender| {
                    index.send(groups[task].clone(), &mut buffers, &self.resources, outlet)
                }
            },
            |batch| joiner.join(&batch),
        )?;
        joiner.end()
    }
}

/// Sorted postings grouped by key, which a sorting thread sends to the visitor's thread.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Each key with the index of its first position. The first key may be the last one of the previous batch.
    pub keys: Vec<(Key, usize)>,
    /// Positions of all keys, ascending for each key.
    pub positions: Vec<u32>,
}

/// Builds batches from sorted items.
pub(crate) struct Grouper<'a, I> {
    outlet: &'a TaskSender,
    batch: Batch,
    /// An item of the key that was added last.
    last: I,
}

impl<'a, I: Item> Grouper<'a, I> {
    pub fn new(outlet: &'a TaskSender) -> Self {
        Self { outlet, batch: Batch::default(), last: I::zeroed() }
    }

    pub fn add(&mut self, mut items: &[I]) -> Result<()> {
        while !items.is_empty() {
            let (now, later) = items.split_at(items.len().min(BATCH - self.batch.positions.len()));
            self.add_some(now);
            items = later;
            if self.batch.positions.len() == BATCH {
                self.outlet.send(std::mem::take(&mut self.batch))?;
            }
        }
        Ok(())
    }

    fn add_some(&mut self, mut items: &[I]) {
        let Batch { keys, positions } = &mut self.batch;
        positions.reserve_exact(BATCH - positions.len());
        while let Some(&first) = items.first() {
            let (now, later) = items.split_at(of_one_key(items, first));
            if !first.same_key(self.last) || positions.is_empty() {
                keys.push((first.key(), positions.len()));
            }
            positions.extend(now.iter().map(|item| item.position()));
            (self.last, items) = (first, later);
        }
    }

    pub fn finish(self) -> Result<()> {
        if self.batch.positions.is_empty() { Ok(()) } else { Ok(self.outlet.send(self.batch)?) }
    }
}

/// Returns the number of items at the beginning that have the key of `first`, the first item. Searches in doubling
/// steps, because many keys have many positions.
fn of_one_key<I: Item>(items: &[I], first: I) -> usize {
    let mut step = 1;
    while items.get(step).is_some_and(|item| item.same_key(first)) {
        step *= 2;
    }
    let same = step / 2;
    let unchecked = &items[same..items.len().min(step)];
    same + unchecked.partition_point(|item| item.same_key(first))
}

/// Passes batches to a visitor, and joins the positions of a key that are in several batches.
struct BatchJoiner<'a, V> {
    visitor: &'a mut V,
    key: Option<Key>,
}

impl<V: Visitor> BatchJoiner<'_, V> {
    fn join(&mut self, batch: &Batch) -> std::result::Result<(), V::Error> {
        let ends = batch.keys.iter().skip(1).map(|&(_, start)| start);
        let ends = ends.chain([batch.positions.len()]);
        for (&(key, start), end) in batch.keys.iter().zip(ends) {
            if self.key != Some(key) {
                self.end()?;
                self.visitor.key(key.bits, key.len)?;
                self.key = Some(key);
            }
            self.visitor.positions(&batch.positions[start..end])?;
        }
        Ok(())
    }

    fn end(&mut self) -> std::result::Result<(), V::Error> {
        if self.key.take().is_some() { self.visitor.end() } else { Ok(()) }
    }
}
