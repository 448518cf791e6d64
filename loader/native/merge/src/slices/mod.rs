//! Cutting an LDIF: which entries are shared, where each slice begins, and what its slapadd is fed.

mod complete;
mod feed;
mod find;
mod key;
mod plan;
mod shared;
mod walk;

pub use complete::OperationalAttributes;
pub use feed::{SliceCounts, SliceOptions, feed};
pub use find::{Found, find_line, find_name};
pub use plan::{Plan, SliceStart, plan};
