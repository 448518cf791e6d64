//! Learns statistics of a directory, and writes a template that generates a similar one.
//!
//! The source is read once, entry by entry, and limits bound the memory ([`statistics`], [`sampled`]). Then the shape
//! of the tree is derived ([`outline`](tree_shape::outline)), each kind is described from a sample of its entries
//! ([`describe`], [`shapes`], [`text`]), and the template is written ([`template`]).
//!
//! The template contains no value of the source, nor a part of one: only numbers, names of attribute types and object
//! classes, and words of our own lists ([`schemes`], neutral names of branches). Facts that fewer than five entries
//! show are omitted.

mod describe;
mod histogram;
mod letters;
mod place;
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

use backmdb::chunks::{Chunk, Chunks};
use common::{Code, Counters, Error, InFile, Result};
use ldif::records::Records;
use ldif::walk::locate;

pub use backmdb::Source;
use statistics::Statistics;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The template, as TOML.
    pub template: String,
    pub entries: u64,
    /// Number of entries of the main kind; the user of the template chooses this number.
    pub main: u64,
    pub kinds: usize,
    /// Number of entries that the template does not represent.
    pub left_out: u64,
}

/// Learns from LDIF with `jobs` workers; each counts some of the blocks, and then the counts are added.
pub fn learn(sources: Vec<Source>, jobs: usize, counters: &Counters) -> Result<Learned> {
    let chunks = Chunks::new(sources, false, counters);
    let work = |_| work(&chunks, counters);
    let counted = workers::side_by_side(0..jobs.max(1), &|| chunks.stop(), work)?;
    let mut whole = Statistics::default();
    for one in counted {
        whole.merge(one);
    }
    if whole.entries == 0 {
        return Err(Error::new(Code::Empty, "the source has no entry"));
    }
    template::write(&whole)
}

fn work(chunks: &Chunks<'_>, counters: &Counters) -> Result<Statistics> {
    let (mut gather, mut buffer) = (Statistics::default(), Vec::new());
    while let Some(chunk) = chunks.next(buffer)? {
        let before = gather.entries;
        count(&chunk, &mut gather)?;
        counters.add(gather.entries - before, chunk.bytes.len() as u64);
        buffer = chunk.bytes;
    }
    Ok(gather)
}

fn count(chunk: &Chunk, gather: &mut Statistics) -> Result<()> {
    let path = chunk.path.as_deref();
    for record in Records::new(&chunk.block()) {
        let record = record.in_file(path)?;
        gather.record(&record).map_err(|error| locate(error, &record, path))?;
    }
    Ok(())
}
