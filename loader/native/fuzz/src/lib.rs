//! Fuzz targets check the promises that each reader makes for any input, beyond not panicking.
//!
//! Each target is a function of bytes, so that libFuzzer and the replaying test run the same code. A broken promise is
//! a panic.

pub mod blob;
pub mod builder;
mod configuration;
mod database;
mod definitions;
pub mod dn;
pub mod dump;
pub mod ldif;
pub mod learn;
pub mod lmdb_reader;
pub mod schema;
mod sound;
pub mod template;
pub mod values;
pub mod wire;

/// The name of a target, and the function that runs one input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 11] = [
    ("ldif", ldif::run),
    ("dn", dn::run),
    ("schema", schema::run),
    ("values", values::run),
    ("lmdb_reader", lmdb_reader::run),
    ("blob", blob::run),
    ("builder", builder::run),
    ("dump", dump::run),
    ("template", template::run),
    ("wire", wire::run),
    ("learn", learn::run),
];

/// Splits the first `N` bytes off as switches; returns None if the input is too short.
pub(crate) fn switches<const N: usize>(data: &[u8]) -> Option<([u8; N], &[u8])> {
    let (head, rest) = data.split_first_chunk()?;
    Some((*head, rest))
}
