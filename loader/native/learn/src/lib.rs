//! What a directory looks like in numbers, and a template that makes one like it.
//!
//! Read once, entry by entry, with caps on all that is kept ([`statistics`], [`sampled`]). Then
//! the outline of the tree is drawn ([`outline`](tree_shape::outline)), each kind is described from a sample of its
//! entries ([`describe`], [`shapes`], [`text`]), and all is written as a template ([`template`]).
//!
//! No value of the source, nor a part of one, gets into the template: only numbers, names of attribute types and of
//! object classes, and words of our own lists ([`schemes`], neutral names of branches). What fewer than five entries
//! show is not told.

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
    /// Entries of the kind whose number is asked for when the template is used.
    pub main: u64,
    pub kinds: usize,
    /// Entries that the template has none of.
    pub left_out: u64,
}

/// Learns from LDIF, with so many workers: they take blocks in turn, each counts for itself, and what they counted is
/// added up.
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
