//! Sorted postings grouped by key, in pieces that pass from the threads that sort to the visitor.

use super::item::{Item, Key};
use crate::{Error, Result};

/// Positions in a batch: enough to make passing it on cheap, few enough to stay in cache.
const BATCH: usize = 16 << 10;

/// How often a posting that came more often is told.
const OFTEN: u8 = 2;

pub(crate) type TaskSender = workers::Outlet<Batch, Error>;

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
