//! Reads and writes files past the page cache.
//!
//! The page cache costs a copy and memory (which memory cgroups count), and limits writing to the speed of write-back.
//! Direct I/O in units of some megabytes runs at the speed of the device with hardly any CPU time, but not every file
//! system supports it. Random reads go through the page cache, with readahead.

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
