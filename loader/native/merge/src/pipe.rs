//! From the threads that read tables to the one that writes them: batches, each table in its turn.

use std::mem;

use lmdbfile::{FileWriter, PendingValue, TreeWriter};
use workers::Outlet;

use crate::{Error, Result};

/// Bytes of a batch.
const FULL: usize = 1 << 20;

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
    /// The table is whole with it.
    pub is_last: bool,
}

/// The end of a thread that reads.
#[derive(Debug)]
pub struct Rows<'o> {
    batch: Batch,
    outlet: &'o Outlet<Batch, Error>,
}

impl<'o> Rows<'o> {
    pub fn new(outlet: &'o Outlet<Batch, Error>) -> Self {
        Self { batch: Batch::default(), outlet }
    }

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
        let size = self.batch.size() + 24 * self.batch.steps.len();
        if size < FULL { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        Ok(self.outlet.send(mem::take(&mut self.batch))?)
    }

    /// The table is whole.
    pub fn finish(mut self) -> Result<()> {
        self.batch.is_last = true;
        self.send()
    }
}

impl Batch {
    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.bytes.len() + 8 * self.ids.len()
    }

    /// Writes the rows. Returns the entry that is held, with the value that it has now.
    pub fn write(
        self,
        tree: &mut TreeWriter,
        file: &mut FileWriter,
    ) -> Result<Option<(PendingValue, Vec<u8>)>> {
        let (mut bytes, mut ids, mut held) = (&self.bytes[..], &self.ids[..], None);
        for step in self.steps {
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
        Ok(held)
    }
}

fn take<'a, T>(from: &mut &'a [T], count: usize) -> &'a [T] {
    let (head, tail) = from.split_at(count.min(from.len()));
    *from = tail;
    head
}
