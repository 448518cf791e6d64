//! What an entry must, may and must not hold (`servers/slapd/schema_check.c`).

mod check;
mod naming;
mod profile;
mod structural;

pub use profile::ObjectClassSet;
