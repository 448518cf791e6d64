//! Reading sorted postings.

use std::sync::Mutex;

use common::lock;

use super::Index;
use super::item::{Item, Key};
use super::run::BUCKETS;
use super::store::{Buffers, FinishedIndex, Store};
use crate::scratch::Resources;
use crate::{Error, Result};

/// Positions in a batch: enough to make passing it on cheap, few enough to stay in cache.
const BATCH: usize = 16 << 10;

/// How often a posting that came more often is told.
const OFTEN: u8 = 2;

pub(crate) type TaskSender = workers::Outlet<Batch, Error>;

/// Is told the postings of an index, key by key.
pub trait Visitor {
    type Error: From<Error>;

    /// A key: the first `len` bytes of `bits`, big-endian. Keys ascend as byte strings do.
    fn key(&mut self, bits: u64, len: u8) -> std::result::Result<(), Self::Error>;
    /// Positions of this key, ascending, also from one call to the next. A position that was
    /// pushed more than once for this key comes twice.
    fn positions(&mut self, positions: &[u32]) -> std::result::Result<(), Self::Error>;
    /// The key has no more positions.
    fn end(&mut self) -> std::result::Result<(), Self::Error>;
}

/// The postings of several indexes, to be visited once each.
#[derive(Debug)]
pub struct Sorted {
    indexes: Vec<Mutex<Option<Index>>>,
    means: Resources,
    threads: usize,
}

impl Sorted {
    pub(super) fn new(indexes: Vec<Index>, means: Resources, threads: usize) -> Self {
        let indexes = indexes.into_iter().map(|index| Mutex::new(Some(index))).collect();
        Self { indexes, means, threads }
    }

    /// Tells all postings of index `index`, and forgets them. Different indexes may be visited by
    /// different threads at the same time.
    pub fn visit<V: Visitor>(
        &self,
        index: usize,
        visitor: &mut V,
    ) -> std::result::Result<(), V::Error> {
        match self.take(index)? {
            Index::Four(store) => self.visit_store(store, visitor),
            Index::UpToEight(store) => self.visit_store(store, visitor),
        }
    }

    fn take(&self, index: usize) -> Result<Index> {
        let place =
            self.indexes.get(index).ok_or_else(|| Error::damaged("there is no such index"))?;
        let index = lock(place).take();
        index.ok_or_else(|| Error::damaged("the postings of an index are visited twice"))
    }

    fn visit_store<I: Item, V: Visitor>(
        &self,
        store: Store<I>,
        visitor: &mut V,
    ) -> std::result::Result<(), V::Error> {
        let closed: FinishedIndex<I> =
            store.close(self.means.memory / 16 / self.threads, self.threads);
        let mut telling = BatchJoiner { visitor, key: None };
        workers::in_order(
            self.threads,
            BUCKETS,
            || {
                let mut buffers = Buffers::default();
                let closed = &closed;
                move |bucket, outlet| closed.send(bucket, &mut buffers, &self.means, outlet)
            },
            |batch| telling.tell(&batch),
        )?;
        telling.end()
    }
}

/// Sorted postings grouped by key, on their way from the threads that sort to the visitor.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Each key, and where its positions start. The first may go on from the batch before.
    pub keys: Vec<(Key, usize)>,
    /// Of all keys, ascending for each.
    pub positions: Vec<u32>,
}

/// Makes batches from sorted items.
pub(crate) struct Grouper<'a, I> {
    outlet: &'a TaskSender,
    batch: Batch,
    last: I,
    /// How often `last` came: not at all at the start.
    times: u8,
}

impl<'a, I: Item> Grouper<'a, I> {
    pub fn new(outlet: &'a TaskSender) -> Self {
        Self { outlet, batch: Batch::default(), last: I::zeroed(), times: 0 }
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
            // Of one key, and none that came before.
            let is_next = |pair: &&[I]| pair[0] != pair[1] && first.same_key(pair[1]);
            let count = 1 + items.windows(2).take_while(is_next).count();
            let (mut now, later) = items.split_at(count);
            self.times = if first == self.last { self.times + 1 } else { 1 };
            if self.times > OFTEN {
                (self.times, now) = (OFTEN, &now[1..]);
            }
            if let Some(item) = now.first() {
                if !item.same_key(self.last) || positions.is_empty() {
                    keys.push((item.key(), positions.len()));
                }
                positions.extend(now.iter().map(|item| item.position()));
            }
            if count > 1 {
                self.times = 1;
            }
            (self.last, items) = (items[count - 1], later);
        }
    }

    pub fn finish(self) -> Result<()> {
        if self.batch.positions.is_empty() { Ok(()) } else { Ok(self.outlet.send(self.batch)?) }
    }
}

/// Joins batches: a key may be in several.
struct BatchJoiner<'a, V> {
    visitor: &'a mut V,
    key: Option<Key>,
}

impl<V: Visitor> BatchJoiner<'_, V> {
    fn tell(&mut self, batch: &Batch) -> std::result::Result<(), V::Error> {
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
