//! What a directory looks like in numbers, and a template that makes one like it.
//!
//! Read once: [`read`] counts entry by entry, with caps on all that is kept ([`gather`], [`kind`], [`sampled`]). Then
//! the outline of the tree is drawn ([`outline`](tree_shape::outline)), each kind is described from a sample of its
//! entries ([`describe`], [`shapes`], [`text`]), and all is written as a template ([`template`]).
//!
//! No value of the source, nor a part of one, gets into the template: only numbers, names of attribute types and of
//! object classes, and words of our own lists ([`schemes`], neutral names of branches). What fewer than five entries
//! show is not told.

mod columns;
mod curve;
mod describe;
mod histogram;
mod kind;
mod letters;
mod parent_counts;
mod place;
mod read;
mod registry;
mod sampled;
mod schemes;
mod shapes;
mod simulate;
mod statistics;
mod template;
mod text;
mod token;
mod toml;
mod tree_shape;
mod value;
mod vocabulary;
mod words;

use common::{Code, Counters, Error, Result};

pub use backmdb::Source;

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

/// Learns from LDIF, with so many workers.
pub fn learn(sources: Vec<Source>, jobs: usize, counters: &Counters) -> Result<Learned> {
    let gathered = read::read(sources, jobs, counters)?;
    if gathered.entries == 0 {
        return Err(Error::new(Code::Empty, "the source has no entry"));
    }
    template::write(&gathered)
}
