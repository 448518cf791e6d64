//! Keys and records of back-mdb's tables: one parser and one writer of each.
//!
//! Parsers check every length and tell `None` where the bytes are something else; what that means, whoever reads the
//! table says.

pub mod ad2i;
pub mod dn2i;
pub mod id;
pub mod id2e;
pub mod id2v;
pub mod idl;
pub mod tables;
