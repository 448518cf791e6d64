//! LDIF (RFC 2849): whole records out of bytes, and bytes out of values.
//!
//! From the outside in: [`input`] opens and decompresses, [`blocks`] cuts the stream between records,
//! [`records`] finds each record in a block, [`fields`] reads the lines of one record; [`walk`] ties
//! them together. [`write`](mod@write) and [`output`] go the other way. No schema, no tree, no Python.

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
