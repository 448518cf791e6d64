//! Selects the data that a consumer stores if its syncrepl has a filter, a list of attributes, a narrower base or
//! another suffix (`servers/slapd/syncrepl.c`, slapd.conf(5) `syncrepl`). Reads and writes LDIF.
//!
//! [`filter`] selects entries as `test_filter` does, [`attributes`] selects attributes, [`place`] maps DNs, [`glue`]
//! finds missing ancestors, and [`stage`] combines these. [`searches`] finds the indexes that filters use.

mod attributes;
mod columns;
pub mod filter;
mod glue;
mod place;
pub mod searches;
mod selection;
mod stage;

pub use attributes::Attributes;
pub use filter::Filter;
pub use place::Suffixes;
pub use selection::{Selection, Settings};
pub use stage::{Selected, select};
