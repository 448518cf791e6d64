//! Copies of a file as it stands, page for page and hole for hole.
//!
//! Of a file that is written to, that is right as long as a reader's slot in the lock file holds the
//! snapshot: LMDB writes to none of its pages then. Only the meta pages go on to change, so that they
//! are not taken from the file but given.

mod frame;
mod journal;
mod origin;
mod plain;
mod receive;
mod send;

pub use plain::{Image, copy};
pub use receive::receive;
pub use send::{ResumePoint, send};
