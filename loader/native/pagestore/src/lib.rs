//! Pages of data files, stored by their content, so that backups share those that did not change.
//!
//! The pages that are new in a backup are its pack: frames of some hundred pages, each compressed by itself, followed
//! by the ids of its pages. A backup is a sequence of runs of pages, each of one pack. A page that changed a little is
//! stored as what differs from a former one, its base, which is in a pack too. A base is never itself a difference, so
//! there are no chains. Everything read here may have been damaged or forged: nothing in it is believed before it is
//! checked.

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
pub use difference::compressed_piece;
pub use known::{Known, Segment};
pub use pack::Pack;
pub use page::Shape;
pub use sift::{Sifted, sift};
