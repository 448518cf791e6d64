//! Files read and written past the page cache.
//!
//! The cache costs a copy, memory (which counts in memory cgroups) and on the way out ends at the
//! speed of write-back. Direct transfers of some megabytes go at the speed of the device and take
//! hardly any processor time; but not every file system has them. What is read in no order goes
//! through the cache, read ahead.

mod ahead;
mod direct;
mod fill;
mod handed;
mod memory;
mod pieces;
mod resident;
mod source;
mod spare;
mod stream;

pub use ahead::Readahead;
pub use direct::{Buffer, Direct};
pub use fill::Fill;
pub use handed::PieceWriter;
pub use pieces::{Look, PIECE, pieces};
pub use source::Source;
pub use spare::BufferPool;
pub use stream::{BUFFER, DirectFile, DirectWriter, Syncing};
