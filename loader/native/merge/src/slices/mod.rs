//! Cuts an LDIF: which entries are shared, where each slice begins, and what its slapadd reads.

mod feed;
mod key;
mod plan;
mod walk;

pub use feed::{OperationalAttributes, SliceCounts, SliceOptions, feed};
pub use plan::{Plan, SliceStart, plan};
pub use walk::{Found, find_line, find_name};
