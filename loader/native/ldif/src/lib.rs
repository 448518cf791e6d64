//! LDIF (RFC 2849): parses bytes into records, and writes values.
//!
//! From the outside in: [`input`] opens and decompresses, [`blocks`] divides the stream between records, [`records`]
//! finds each record in a block, [`fields`] parses the lines of a record; [`walk`] combines these. [`write`](mod@write)
//! and [`output`] write LDIF. The crate knows no schema, no tree and no Python.

pub mod blocks;
pub mod feed;
pub mod fields;
pub mod input;
mod open_end;
pub mod outflow;
pub mod output;
pub mod records;
pub mod rejects;
mod summed;
pub mod tail;
pub mod url;
pub mod walk;
pub mod write;

pub use common::{Code, Counters, Error, Result};
pub use feed::Feed;
pub use fields::{Entry, Field, Fields, LineHead};
pub use input::Input;
pub use outflow::StreamWriter;
pub use output::{Closing, Output};
pub use records::{Include, Record};
