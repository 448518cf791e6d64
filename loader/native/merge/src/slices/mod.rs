//! Cuts an LDIF into slices: decides which entries are shared and where each slice begins, and feeds its slapadd.

mod feed;
mod key;
mod plan;
mod walk;

pub use feed::{OperationalAttributes, SliceCounts, SliceOptions, feed};
pub use plan::{Plan, SliceStart, plan};
pub use walk::{Found, find_line, find_name};
