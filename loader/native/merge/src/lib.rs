//! Builds a database with several parallel `slapadd -q`: [`slices`] cuts the LDIF, and [`merge`] joins the databases.
//!
//! Every slice begins with the same shared entries, those that have children, parents first; each other entry is in one
//! slice, in the order of the input. So each slice is a complete tree, and the merged database equals that of a single
//! slapadd which reads the shared entries and then all others.
//!
//! Tables are merged one by one in key order, so nothing has to be sorted. Threads read and renumber, and the calling
//! thread writes.

mod id2e;
mod index;
mod merge;
mod nodes;
mod shards;
pub mod slices;

pub use common::{Code, Error, Result};
pub use merge::{Merged, Options, merge};
