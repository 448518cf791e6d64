//! Learns statistics of a directory, and writes a template that generates a similar directory.
//!
//! The source is read once, entry by entry, and limits bound the memory ([`statistics`], [`sampled`]). Then the shape
//! of the tree is derived ([`outline`](tree_shape::outline)), each kind is described from a sample of its entries
//! ([`describe`], [`shapes`], [`text`]), and the template is written ([`template`]).
//!
//! The template contains no value of the source and no part of a value: only numbers, names of attribute types and
//! object classes, and names from the lists in [`schemes`]. A feature of fewer than five entries is omitted.

mod describe;
mod histogram;
mod letters;
mod position;
mod sampled;
mod schemes;
mod shapes;
mod statistics;
mod template;
mod text;
mod token;
mod tree_shape;
mod value;
mod vocabulary;

use backmdb::chunks::Chunks;
use common::{Code, Counters, Error, InFile, Result};
use ldif::records::Records;
use ldif::walk::locate;

pub use backmdb::Source;
use statistics::Statistics;

/// A feature of fewer entries or values than this is not learned.
const LEAST_SEEN: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The text of the template (TOML).
    pub template: String,
    pub entries: u64,
    /// Number of entries of the main kind; the user of the template chooses this number.
    pub main: u64,
    pub kinds: usize,
    /// Number of entries that the template does not represent.
    pub left_out: u64,
}

/// Learns from LDIF with `jobs` workers. Each worker counts some of the blocks; at the end, the counts are added.
///
/// Fails with [`Code::Empty`] if there is no entry, or if too few entries are alike.
pub fn learn(sources: Vec<Source>, jobs: usize, counters: &Counters) -> Result<Learned> {
    let chunks = Chunks::new(sources, false, counters);
    let work = |_| work(&chunks, counters);
    let mut whole = Statistics::default();
    for part in workers::side_by_side(0..jobs.max(1), &|| chunks.stop(), work)? {
        whole.merge(part);
    }
    if whole.entries == 0 {
        return Err(Error::new(Code::Empty, "the source has no entry"));
    }
    template::write(&whole)
}

fn work(chunks: &Chunks<'_>, counters: &Counters) -> Result<Statistics> {
    let (mut statistics, mut buffer) = (Statistics::default(), Vec::new());
    while let Some(chunk) = chunks.next(buffer)? {
        let (before, path) = (statistics.entries, chunk.path.as_deref());
        for record in Records::new(&chunk.block()) {
            let record = record.in_file(path)?;
            statistics.record(&record).map_err(|error| locate(error, &record, path))?;
        }
        counters.add(statistics.entries - before, chunk.bytes.len() as u64);
        buffer = chunk.bytes;
    }
    Ok(statistics)
}
