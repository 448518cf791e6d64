//! Merges the tables one after another: reading threads send batches of rows to the writing thread.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use codec::tables;
use common::{Counters, lock};
use lmdbfile::{FileWriter, PendingValue, Table, TreeWriter};
use workers::Outlet;

use crate::id2e::{self, ContextCsnTarget, ContextCsns};
use crate::shards::Shards;
use crate::{Error, Result, index, nodes};

#[derive(Debug, Clone)]
pub struct Options {
    /// Number of entries that every shard has.
    pub shared: u64,
    /// `maxsize`, in bytes.
    pub map_size: u64,
    /// `idlexp`: an index key with 2^idlexp entries or more is stored as a range.
    pub list_exponent: u32,
    /// The suffix whose entry gets contextCSN, as with `slapadd -w`. If `None`, no entry gets it.
    pub context: Option<String>,
    /// Number of reading threads.
    pub jobs: usize,
}

/// Merges the data files `paths` into one database, which is synced on success. Returns the number of entries.
pub fn merge(paths: &[PathBuf], out: &Path, options: &Options, counters: &Counters) -> Result<u64> {
    let shards = Shards::open(paths, options.shared)?;
    let target = options.context.as_ref().map(|suffix| ContextCsnTarget::new(&shards, suffix)).transpose()?;
    let layout = shards.layout.ok_or_else(|| Error::damaged("no shard"))?;
    let mut file = FileWriter::create(out, &layout.options(options.map_size))?;
    let task = Merge { shards, target, options, counters, newest: Mutex::default() };
    let tables = task.tables(&mut file)?;
    task.finish(file, tables)
}

#[derive(Debug)]
struct Merge<'a> {
    shards: Shards,
    target: Option<ContextCsnTarget>,
    options: &'a Options,
    counters: &'a Counters,
    newest: Mutex<ContextCsns>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Entries,
    Values,
    Index,
    Nodes,
}

type MergedTables = Vec<(String, Table)>;
/// id2e while one entry still waits for contextCSN: the tree, where to fill in the value, and the value so far.
type PendingTree = Option<(TreeWriter, PendingValue, Vec<u8>)>;

impl Merge<'_> {
    /// Returns the tables that reading threads merge, in the order of writing: all tables except ad2i and ixck.
    fn parts(&self) -> Result<Vec<(Kind, String)>> {
        let mut parts = Vec::new();
        for (name, flags) in &self.shards.tables {
            let name = String::from_utf8_lossy(name).into_owned();
            if *flags != tables::flags(&name) {
                return Err(Error::damaged(format!("{name} is not a table of back-mdb")));
            }
            let kind = match name.as_str() {
                "ad2i" | "ixck" => continue,
                "id2e" => Kind::Entries,
                "id2v" => Kind::Values,
                "dn2i" => Kind::Nodes,
                _ => Kind::Index,
            };
            parts.push((kind, name));
        }
        parts.sort_by_key(|(kind, _)| *kind);
        Ok(parts)
    }

    fn tables(&self, file: &mut FileWriter) -> Result<(MergedTables, PendingTree)> {
        let parts = self.parts()?;
        self.counters.begin("merge", parts.len() as u64);
        let (mut tables, mut waiting, mut open) = (Vec::new(), None, None);
        let read = || |part: usize, outlet: &_| self.read(&parts[part], Rows { batch: Batch::default(), outlet });
        let mut done = 0;
        workers::in_order(self.options.jobs, parts.len(), read, |batch: Batch| {
            let (_, name) = &parts[done];
            let (mut tree, before) = open.take().unwrap_or_else(|| (tables::writer(name, file.layout()), None));
            let is_last = batch.is_last;
            self.counters.add(0, batch.size() as u64);
            let pending = batch.write(&mut tree, file)?.or(before);
            if !is_last {
                open = Some((tree, pending));
                return Ok(());
            }
            match pending {
                Some((place, value)) => waiting = Some((tree, place, value)),
                None => tables.push((name.clone(), tree.finish(file)?)),
            }
            done += 1;
            self.counters.advance(1);
            Ok::<_, Error>(())
        })?;
        Ok((tables, waiting))
    }

    fn read(&self, (kind, name): &(Kind, String), mut rows: Rows<'_>) -> Result<()> {
        let (shards, counters, out) = (&self.shards, self.counters, &mut rows);
        match kind {
            Kind::Entries => {
                let newest = id2e::rows(shards, self.target.as_ref(), counters, out)?;
                *lock(&self.newest) = newest;
            }
            Kind::Values => index::multival_rows(shards, counters, out)?,
            Kind::Nodes => nodes::rows(shards, counters, out)?,
            Kind::Index => index::rows(shards, name, self.options.list_exponent, counters, out)?,
        }
        rows.batch.is_last = true;
        rows.send()
    }

    fn finish(mut self, mut file: FileWriter, (mut merged, pending): (MergedTables, PendingTree)) -> Result<u64> {
        if let Some((mut tree, place, value)) = pending {
            let newest = mem::take(&mut *lock(&self.newest));
            let value = id2e::stamped(&mut self.shards, &value, &newest)?;
            tree.fill(&mut file, &place, &value)?;
            merged.push(("id2e".to_owned(), tree.finish(&mut file)?));
        }
        let mut tree = tables::AD2I.writer(file.layout());
        for (number, text) in (1u32..).zip(&self.shards.descriptions) {
            tree.put(&mut file, &codec::ad2i::key(number), text)?;
        }
        merged.push(("ad2i".to_owned(), tree.finish(&mut file)?));
        if self.shards.tables.iter().any(|(name, _)| name == b"ixck") {
            let empty = tables::IXCK.writer(file.layout());
            merged.push(("ixck".to_owned(), empty.finish(&mut file)?));
        }
        self.counters.begin("sync", 0);
        let named = merged.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        file.finish(named)?;
        Ok(self.shards.entries())
    }
}

/// A batch is sent when it has at least this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// One call of [`TreeWriter`]. The numbers tell how many bytes or IDs the call takes from the batch.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Writes a key with its only value. If the flag is set, writes the value only at the end, with contextCSN added.
    Put(usize, usize, bool),
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
    /// Whether this batch ends the table.
    is_last: bool,
}

/// Collects the rows of a reading thread in a batch, and sends full batches.
pub struct Rows<'o> {
    batch: Batch,
    outlet: &'o Outlet<Batch, Error>,
}

impl Rows<'_> {
    pub fn put(&mut self, key: &[u8], value: &[u8], is_pending: bool) -> Result<()> {
        self.add(Step::Put(key.len(), value.len(), is_pending), &[key, value])
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
        if size < BATCH_BYTES { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        Ok(self.outlet.send(mem::take(&mut self.batch))?)
    }
}

impl Batch {
    /// Returns the size in bytes of all keys, values and IDs.
    fn size(&self) -> usize {
        self.bytes.len() + 8 * self.ids.len()
    }

    /// Writes the rows, except the value of the entry that gets contextCSN: returns that value, to be filled in later.
    fn write(self, tree: &mut TreeWriter, file: &mut FileWriter) -> Result<Option<(PendingValue, Vec<u8>)>> {
        let (mut bytes, mut ids, mut pending) = (&self.bytes[..], &self.ids[..], None);
        for step in self.steps {
            let done = match step {
                Step::Put(key, value, is_pending) => {
                    let (key, value) = (take(&mut bytes, key), take(&mut bytes, value));
                    if is_pending {
                        tree.held(file, key).map(|place| pending = Some((place, value.to_vec())))
                    } else {
                        tree.put(file, key, value)
                    }
                }
                Step::Key(key) => tree.begin(take(&mut bytes, key)),
                Step::Value(value) => tree.dup(file, take(&mut bytes, value)),
                Step::Ids(count) => tree.fixed(file, take(&mut ids, count)),
                Step::End => tree.end(file),
            };
            done?;
        }
        Ok(pending)
    }
}

fn take<'a, T>(from: &mut &'a [T], count: usize) -> &'a [T] {
    let (head, tail) = from.split_at(count.min(from.len()));
    *from = tail;
    head
}
