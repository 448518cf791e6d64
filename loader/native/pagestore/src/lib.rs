//! Stores pages of data files by content, so that backups share unchanged pages.
//!
//! The new pages of a backup are its pack. A pack consists of frames of up to 256 pages; each frame is compressed
//! separately and followed by the ids of its pages. A backup is a sequence of runs of pages, each run from one pack. A
//! page that changed a little is stored as a difference to an earlier page of any pack, its base. A base is never a
//! difference itself, so there are no chains. Files may be damaged or forged, so everything is checked before it is
//! used.

mod assembly;
mod cache;
mod difference;
mod frame;
mod known;
mod pack;
mod page;
mod sift;
#[cfg(test)]
mod tests;

pub use assembly::{Assembly, Backup, Piece};
pub use known::{Known, Segment};
pub use pack::Pack;
pub use page::Shape;
pub use sift::{Sifted, sift};
