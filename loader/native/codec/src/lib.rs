//! Keys and records of back-mdb's tables: a parser and a writer for each.
//!
//! Parsers check every length, and return `None` for invalid bytes, which the caller reports.

pub mod ad2i;
pub mod dn2i;
pub mod id;
pub mod id2e;
pub mod id2v;
pub mod idl;
pub mod tables;
