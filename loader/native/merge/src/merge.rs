//! All tables, in their turn.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use codec::tables;
use common::{Counters, lock};
use lmdbfile::{FileWriter, Table, TreeWriter};

use crate::context::{self, ContextCsnTarget};
use crate::id2e::ContextCsns;
use crate::pipe::{Batches, Rows, pipe, write};
use crate::shards::Shards;
use crate::{Error, Result, id2e, id2v, index, nodes};

#[derive(Debug, Clone)]
pub struct Options {
    /// Entries that every shard has.
    pub shared: u64,
    /// `maxsize`, in bytes.
    pub map_size: u64,
    /// `idlexp`: an index key with 2^idlexp entries or more is stored as a range.
    pub list_exponent: u32,
    /// The entry that gets contextCSN, as slapadd -w would do it.
    pub context: Option<String>,
    /// Threads that read.
    pub jobs: usize,
}

#[derive(Debug)]
pub struct Merged {
    pub entries: u64,
    pub pages: u64,
    pub bytes: u64,
    /// Sub-database -> values in it.
    pub tables: BTreeMap<String, u64>,
}

/// Makes one database of the data files `paths`; on success the whole file is on the disk.
pub fn merge(
    paths: &[PathBuf],
    out: &Path,
    options: &Options,
    counters: &Counters,
) -> Result<Merged> {
    let shards = Shards::open(paths, options.shared)?;
    let wanted = options
        .context
        .as_ref()
        .map(|suffix| ContextCsnTarget::new(&shards, suffix))
        .transpose()?;
    let layout = shards.layout.ok_or_else(|| Error::damaged("no shard"))?;
    let mut file = FileWriter::create(out, &layout.options(options.map_size))?;
    let task = Merge { shards, wanted, options, counters, newest: Mutex::default() };
    let tables = task.tables(&mut file)?;
    task.finish(file, tables)
}

struct Merge<'a> {
    shards: Shards,
    wanted: Option<ContextCsnTarget>,
    options: &'a Options,
    counters: &'a Counters,
    newest: Mutex<ContextCsns>,
}

/// A table with many rows.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Entries,
    Values,
    Index,
    Nodes,
}

type MergedTables = Vec<(String, Table)>;
type OpenRecord = Option<(TreeWriter, lmdbfile::PendingValue, Vec<u8>)>;

impl Merge<'_> {
    /// Those of one entry or more; ad2i and ixck are not among them.
    fn parts(&self) -> Result<Vec<Part>> {
        let mut found = Vec::new();
        for (name, flags) in &self.shards.tables {
            let name = String::from_utf8_lossy(name).into_owned();
            if *flags != tables::flags(&name) {
                return Err(Error::damaged(format!("{name} is no table of back-mdb's")));
            }
            let kind = match name.as_str() {
                "ad2i" | "ixck" => continue,
                "id2e" => Kind::Entries,
                "id2v" => Kind::Values,
                "dn2i" => Kind::Nodes,
                _ => Kind::Index,
            };
            found.push(Part { name, kind });
        }
        found.sort_by_key(|part| part.kind);
        Ok(found)
    }

    fn tables(&self, file: &mut FileWriter) -> Result<(MergedTables, OpenRecord)> {
        let parts = self.parts()?;
        self.counters.begin("merge", parts.len() as u64);
        let (senders, receivers): (VecDeque<Rows>, Vec<Batches>) =
            parts.iter().map(|_| pipe()).unzip();
        let queue = Mutex::new(senders.into_iter().zip(&parts).collect::<VecDeque<_>>());
        thread::scope(|scope| {
            for _ in 0..self.options.jobs.max(1) {
                scope.spawn(|| {
                    while let Some((rows, part)) = next(&queue) {
                        self.read(part, rows);
                    }
                });
            }
            let written = self.write(&parts, receivers, file);
            // Whoever has not begun does not begin.
            lock(&queue).clear();
            written
        })
    }

    fn read(&self, part: &Part, mut rows: Rows) {
        let (shards, counters) = (&self.shards, self.counters);
        let done = match part.kind {
            Kind::Entries => {
                id2e::rows(shards, self.wanted.as_ref(), counters, &mut rows).map(|found| {
                    *lock(&self.newest) = found;
                })
            }
            Kind::Values => id2v::rows(shards, counters, &mut rows),
            Kind::Nodes => nodes::rows(shards, counters, &mut rows),
            Kind::Index => {
                let exponent = self.options.list_exponent;
                index::rows(shards, &part.name, exponent, counters, &mut rows)
            }
        };
        rows.close(done);
    }

    fn write(
        &self,
        parts: &[Part],
        receivers: Vec<Batches>,
        file: &mut FileWriter,
    ) -> Result<(MergedTables, OpenRecord)> {
        let (mut tables, mut waiting) = (Vec::new(), None);
        for (part, batches) in parts.iter().zip(receivers) {
            let mut tree = tables::writer(&part.name, file.layout());
            match write(batches, &mut tree, file, self.counters)? {
                Some((held, value)) => waiting = Some((tree, held, value)),
                None => tables.push((part.name.clone(), tree.finish(file)?)),
            }
            self.counters.advance(1);
        }
        Ok((tables, waiting))
    }

    fn finish(
        mut self,
        mut file: FileWriter,
        (mut tables, held): (MergedTables, OpenRecord),
    ) -> Result<Merged> {
        if let Some((mut tree, held, value)) = held {
            let newest = std::mem::take(&mut *lock(&self.newest));
            let value = context::stamped(&mut self.shards, &value, &newest)?;
            tree.fill(&mut file, &held, &value)?;
            tables.push(("id2e".to_owned(), tree.finish(&mut file)?));
        }
        tables.push(("ad2i".to_owned(), self.descriptions(&mut file)?));
        if self.shards.tables.iter().any(|(name, _)| name == b"ixck") {
            let empty = tables::IXCK.writer(file.layout());
            tables.push(("ixck".to_owned(), empty.finish(&mut file)?));
        }
        self.counters.begin("sync", 0);
        let counts = tables.iter().map(|(name, table)| (name.clone(), table.entries)).collect();
        let named = tables.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        let summary = file.finish(named)?;
        let entries = self.shards.entries();
        Ok(Merged { entries, pages: summary.pages, bytes: summary.bytes, tables: counts })
    }

    fn descriptions(&self, file: &mut FileWriter) -> Result<Table> {
        let mut tree = tables::AD2I.writer(file.layout());
        for (number, text) in (1u32..).zip(&self.shards.descriptions) {
            tree.put(file, &codec::ad2i::key(number), text)?;
        }
        Ok(tree.finish(file)?)
    }
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    lock(queue).pop_front()
}
