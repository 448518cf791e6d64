//! From the threads that read tables to the one that writes them: batches, each table in its turn.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use common::Counters;
use lmdbfile::{FileWriter, PendingValue, TreeWriter};
use workers::GivenUp;

use crate::Result;

/// Bytes of a batch.
const FULL: usize = 1 << 20;
/// Batches of a table that wait to be written.
const WAITING: usize = 4;

/// What is to be done with the bytes that come next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A key with its one value.
    Put(usize, usize),
    /// The same, of an entry whose value is still to change.
    Hold(usize, usize),
    Key(usize),
    Value(usize),
    Ids(usize),
    End,
}

#[derive(Debug, Default)]
pub struct Batch {
    steps: Vec<Step>,
    bytes: Vec<u8>,
    ids: Vec<u64>,
}

/// The end of a thread that reads.
#[derive(Debug)]
pub struct Rows {
    batch: Batch,
    send: SyncSender<Result<Batch>>,
}

pub type Batches = Receiver<Result<Batch>>;

pub fn pipe() -> (Rows, Batches) {
    let (send, receive) = sync_channel(WAITING);
    (Rows { batch: Batch::default(), send }, receive)
}

impl Rows {
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(Step::Put(key.len(), value.len()), &[key, value])
    }

    pub fn hold(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(Step::Hold(key.len(), value.len()), &[key, value])
    }

    pub fn key(&mut self, key: &[u8]) -> Result<()> {
        self.add(Step::Key(key.len()), &[key])
    }

    pub fn value(&mut self, value: &[u8]) -> Result<()> {
        self.add(Step::Value(value.len()), &[value])
    }

    pub fn ids(&mut self, ids: &[u64]) -> Result<()> {
        self.batch.ids.extend_from_slice(ids);
        self.add(Step::Ids(ids.len()), &[])
    }

    pub fn end(&mut self) -> Result<()> {
        self.add(Step::End, &[])
    }

    fn add(&mut self, step: Step, parts: &[&[u8]]) -> Result<()> {
        self.batch.steps.push(step);
        for part in parts {
            self.batch.bytes.extend_from_slice(part);
        }
        let size = self.batch.bytes.len() + 8 * self.batch.ids.len() + 24 * self.batch.steps.len();
        if size < FULL { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        Ok(self.send.send(Ok(mem::take(&mut self.batch))).or(Err(GivenUp))?)
    }

    /// The table is whole, or cannot be.
    pub fn close(mut self, result: Result<()>) {
        let _ = match result {
            Ok(()) => self.send().is_ok(),
            Err(error) => self.send.send(Err(error)).is_ok(),
        };
    }
}

/// Writes a table's rows; the entry that was held, with the value it has now.
pub fn write(
    batches: Batches,
    tree: &mut TreeWriter,
    file: &mut FileWriter,
    counters: &Counters,
) -> Result<Option<(PendingValue, Vec<u8>)>> {
    let mut held = None;
    for batch in batches {
        let Batch { steps, bytes, ids } = batch?;
        counters.add(0, (bytes.len() + 8 * ids.len()) as u64);
        let (mut bytes, mut ids) = (bytes.as_slice(), ids.as_slice());
        for step in steps {
            let done = match step {
                Step::Put(key, value) => {
                    let key = take(&mut bytes, key);
                    tree.put(file, key, take(&mut bytes, value))
                }
                Step::Hold(key, value) => tree.held(file, take(&mut bytes, key)).map(|one| {
                    held = Some((one, take(&mut bytes, value).to_vec()));
                }),
                Step::Key(key) => tree.begin(take(&mut bytes, key)),
                Step::Value(value) => tree.dup(file, take(&mut bytes, value)),
                Step::Ids(count) => tree.fixed(file, take(&mut ids, count)),
                Step::End => tree.end(file),
            };
            done?;
        }
    }
    Ok(held)
}

fn take<'a, T>(from: &mut &'a [T], count: usize) -> &'a [T] {
    let (head, tail) = from.split_at(count.min(from.len()));
    *from = tail;
    head
}
