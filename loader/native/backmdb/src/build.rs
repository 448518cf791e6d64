//! Runs a build from its inputs to the finished file: read, join, write.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use codec::tables;
use common::WithCode;
use extsort::Sorted;
use ldif::Counters;
use lmdbfile::{FileWriter, Layout, Table};
use schema::Schema;
use tree::claim::Claim;
use tree::fingerprint::Checksum;

use crate::chunks::{Chunks, Source};
use crate::descriptions::{AttributeDescriptions, InvalidValues};
use crate::dn2i::{self, Children, ParentIds};
use crate::encoded::Rejection;
use crate::gather::{EncodedInput, TempStorage};
use crate::indexes::Indexes;
use crate::join::{ParentTable, join};
use crate::live::{Renamed, Reread};
use crate::naming::Suffixes;
use crate::numbering::Numbering;
use crate::shared::BuildContext;
use crate::{Code, Error, Options, Result, Settings, context, lock, postings, rejects, reorder};

/// The result of a build.
#[derive(Debug)]
pub struct Built {
    /// Records of the input.
    pub read: u64,
    pub entries: u64,
    /// Number of entries of a live server that were left out because a newer copy was read.
    pub duplicates: u64,
    /// Number of entries of a live server that were left out because they have no path to a suffix.
    pub dropped: u64,
    /// IDs that the caller must remove from id2e; no other table has them.
    pub stale: Vec<u64>,
    pub rejections: Vec<Rejection>,
    /// Invalid values by attribute name.
    pub misfits: Vec<InvalidValues>,
    /// Change of the checksum by attributes that the build added; 0 unless [`Options::account`].
    pub completed: Checksum,
    pub pages: u64,
    pub bytes: u64,
    /// Table -> number of its values.
    pub tables: BTreeMap<String, u64>,
    /// Seconds of each phase.
    pub phases: Vec<(&'static str, f64)>,
}

/// A server that keeps changing while its entries are read.
#[derive(Clone, Copy)]
pub struct LiveSource<'a> {
    /// The input that is read first. It has the parents of many entries; they come again later.
    pub head: Option<&'a Path>,
    pub read_again: &'a Reread<'a>,
    pub renamed: &'a Renamed<'a>,
}

impl fmt::Debug for LiveSource<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LiveSource").field("head", &self.head).finish_non_exhaustive()
    }
}

/// Builds `out` from `sources`. On success the whole file is on disk. An entry that comes twice or without its parent
/// is rejected, unless the sources are read from the `live` server.
pub fn build(
    sources: Vec<Source>,
    live: Option<LiveSource<'_>>,
    out: &Path,
    schema: &Schema,
    settings: &Settings,
    options: &Options,
    counters: &Counters,
) -> Result<Built> {
    let indexes = Indexes::read(schema, settings)?;
    let file = settings.file_options();
    let longest_row = Layout::new(file.format, file.page_size)?.max_key();
    let shared = BuildContext {
        schema,
        settings,
        options,
        counters,
        columns: AttributeDescriptions::new(schema, settings, &indexes),
        suffixes: Suffixes::read(schema, &settings.suffixes, &settings.foreign, longest_row)
            .map_err(|refusal| Error::new(Code::Schema, format!("suffix: {}", refusal.0)))?,
        longest_row,
        claim: options.claimed.as_ref().map(|texts| Claim::new(texts)),
        live: live.is_some(),
        completed: Mutex::default(),
        positions: workers::Turn::new(0),
        numbers: workers::Turn::new(()),
    };
    let temp = TempStorage {
        memory: options.memory,
        threads: options.jobs.max(1),
        scratch: options.scratch.clone(),
        stop: Arc::clone(counters.flag()),
    };
    let chunks = Chunks::new(sources, options.file_urls, counters);
    let task = Build { shared, live, chunks, indexes: &indexes, temp, out };
    task.run()
}

pub(crate) struct Build<'a> {
    pub shared: BuildContext<'a>,
    pub live: Option<LiveSource<'a>>,
    pub chunks: Chunks<'a>,
    indexes: &'a Indexes,
    pub temp: TempStorage,
    out: &'a Path,
}

/// Records the time since the previous phase ended.
struct PhaseTimer(Instant, Vec<(&'static str, f64)>);

impl PhaseTimer {
    fn done(&mut self, phase: &'static str) {
        self.1.push((phase, self.0.elapsed().as_secs_f64()));
        self.0 = Instant::now();
    }
}

impl Build<'_> {
    fn run(&self) -> Result<Built> {
        let mut clock = PhaseTimer(Instant::now(), Vec::new());
        let counters = self.shared.counters;
        counters.begin("read", 0);
        let postings = self.indexes.postings(self.temp.memory / 2, &self.temp.scratch, &self.temp.stop);
        let mut gathered = self.read(&postings)?;
        clock.done("read");
        counters.begin("join", 0);
        let joined = match self.live {
            Some(live) => self.resolve(&postings, &mut gathered, live)?,
            None => join(gathered.take_tuples(&self.temp), &gathered.askers)?,
        };
        let sorted = postings.finish(self.temp.threads)?;
        let numbering = self.number(&mut gathered, &joined)?;
        clock.done("join");
        counters.begin("write", self.indexes.tables.len() as u64 + 3);
        let tables = self.write(&mut gathered, &joined, &numbering, &sorted)?;
        clock.done("write");
        self.finish(gathered, tables, clock)
    }

    pub(crate) fn create(&self) -> Result<FileWriter> {
        Ok(FileWriter::create(self.out, &self.shared.settings.file_options())?)
    }

    /// Assigns the IDs. If they do not follow the order of the input, rewrites id2e, names and rows in ID order.
    fn number(&self, gathered: &mut EncodedInput, joined: &ParentTable) -> Result<Numbering> {
        self.fill_context(gathered)?;
        let keeps_order = match self.live {
            Some(_) => gathered.has_few_removed(),
            None => joined.is_plain(),
        };
        let numbering = if gathered.exceeds_max_rejects() {
            Numbering::plain()
        } else if keeps_order {
            let (vacant, stale) = (gathered.positions_without_id(), gathered.removed_positions());
            Numbering::without(&vacant, stale, gathered.positions())
        } else {
            reorder::reorder(gathered, joined, &self.shared, &self.temp, self.out, || self.create())?
        };
        self.write_rejects(gathered)?;
        Ok(numbering)
    }

    /// Writes the reject file if entries were rejected. Fails if more entries were rejected than allowed.
    pub(crate) fn write_rejects(&self, gathered: &mut EncodedInput) -> Result<()> {
        let rejections = &mut gathered.rejections;
        if rejections.is_empty() {
            return Ok(());
        }
        rejections.sort_by_key(|rejection| rejection.position);
        ldif::rejects::write(&self.shared.options.rejects, rejections)?;
        if rejections.len() as u64 > self.shared.options.max_rejects {
            return Err(rejects::too_many(rejections));
        }
        Ok(())
    }

    /// If writing the suffix entry was deferred, writes it now with its contextCSN, which follows from all entries.
    fn fill_context(&self, gathered: &mut EncodedInput) -> Result<()> {
        let Some((pending, value)) = gathered.pending.take() else { return Ok(()) };
        let number = self.shared.columns.number_of(b"contextCSN")?;
        let most = self.shared.columns.column(b"contextCSN").with_code(Code::Schema)?.apart_above;
        let value = context::with_context(&value, number, most, &gathered.newest)?;
        Ok(gathered.id2e.fill(&mut gathered.file, &pending, &value)?)
    }

    fn write(
        &self,
        gathered: &mut EncodedInput,
        joined: &ParentTable,
        numbering: &Numbering,
        sorted: &Sorted,
    ) -> Result<Vec<(String, Table)>> {
        let parents = ParentIds { numbering, answers: &joined.answers };
        let EncodedInput { file, names, rows, .. } = gathered;
        let names = &*names;
        let layout = file.layout();
        let id2e = std::mem::replace(&mut gathered.id2e, tables::ID2E.writer(layout));
        let mut tables = vec![("id2e".to_owned(), id2e.finish(file)?)];
        let counters = self.shared.counters;
        thread::scope(|scope| {
            let children = scope.spawn(|| Children::sort(names, &parents, &self.temp));
            if self.shared.settings.has_id2v {
                tables.push(("id2v".to_owned(), crate::rows::write(file, rows, numbering)?));
            }
            counters.advance(1);
            for (index, table) in self.indexes.tables.iter().enumerate() {
                let exponent = self.shared.settings.list_exponent;
                let written = postings::write(file, sorted, index, numbering, exponent)?;
                tables.push((table.name.clone(), written));
                counters.advance(1);
            }
            let children = children.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
            tables.push(("dn2i".to_owned(), dn2i::write(file, names, &parents, children)?));
            counters.advance(1);
            Ok::<_, Error>(())
        })?;
        tables.push(("ad2i".to_owned(), self.descriptions(file)?));
        if self.shared.settings.has_ixck {
            let empty = tables::IXCK.writer(layout);
            tables.push(("ixck".to_owned(), empty.finish(file)?));
        }
        Ok(tables)
    }

    /// Writes ad2i.
    fn descriptions(&self, file: &mut FileWriter) -> Result<Table> {
        let mut tree = tables::AD2I.writer(file.layout());
        for (number, text) in (1u32..).zip(self.shared.columns.numbered()) {
            tree.put(file, &codec::ad2i::key(number), text.as_bytes())?;
        }
        Ok(tree.finish(file)?)
    }

    fn finish(&self, gathered: EncodedInput, tables: Vec<(String, Table)>, mut clock: PhaseTimer) -> Result<Built> {
        self.shared.counters.begin("sync", 0);
        let counts = tables.iter().map(|(name, table)| (name.clone(), table.entries)).collect();
        let named = tables.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        let (duplicates, dropped) = gathered.left_out();
        let stale = gathered.stale_ids();
        let summary = gathered.file.finish(named)?;
        clock.done("sync");
        let rejected = gathered.rejections.len() as u64;
        Ok(Built {
            stale,
            read: gathered.records,
            entries: gathered.records - rejected - duplicates - dropped,
            duplicates,
            dropped,
            rejections: gathered.rejections,
            misfits: self.shared.columns.invalid_values(),
            completed: *lock(&self.shared.completed),
            pages: summary.pages,
            bytes: summary.bytes,
            tables: counts,
            phases: clock.1,
        })
    }
}
