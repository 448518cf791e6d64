//! Builds a database with parallel `slapadd -q` runs: [`slices`] cuts the LDIF, [`merge`] joins the databases (shards).
//!
//! Shared entries are the entries with children. Every slice begins with all shared entries, parents first. The other
//! entries are divided among the slices in the order of the input. So each slice is a complete tree, and the merged
//! database equals the database of a single slapadd that reads the shared entries and then all others.
//!
//! Tables are merged one by one in key order, so nothing has to be sorted. Threads read the shards and renumber IDs and
//! attributes, and the calling thread writes.

mod id2e;
mod index;
mod merge;
mod nodes;
mod shards;
pub mod slices;

pub use common::{Code, Error, Result};
pub use merge::{Options, merge};
