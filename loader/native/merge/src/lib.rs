//! Several `slapadd -q` side by side in the place of one: [`slices`] cuts the LDIF, [`merge`] makes the
//! databases one.
//!
//! Every slice begins with the same shared entries, those that have children, parents first; the others
//! follow in the order of the input, each in one slice. So a slice is a tree, and the merged database is
//! the one that a single slapadd makes of the shared entries and then of all the others.
//!
//! Merging goes table by table, each in the order of its keys, so nothing has to be sorted. Threads read
//! and renumber ([`pipe`]), the caller's writes.

mod id2e;
mod index;
mod merge;
mod nodes;
mod shards;
pub mod slices;

pub use common::{Code, Error, Result};
pub use merge::{Merged, Options, merge};
