//! Selects what a consumer stores if its syncrepl has a filter, a list of attributes, a narrower base or another
//! suffix. Reads and writes LDIF (`servers/slapd/syncrepl.c`, slapd.conf(5) `syncrepl`).
//!
//! [`filter`] selects entries as `test_filter` does, [`attributes`] selects attributes, [`place`] maps DNs, [`glue`]
//! finds missing ancestors, and [`stage`] combines them. [`searches`] finds the indexes that filters use.

mod attributes;
mod columns;
pub mod filter;
mod glue;
mod place;
pub mod searches;
mod selection;
mod stage;

pub use attributes::{AttributeLists, Attributes};
pub use filter::Filter;
pub use place::Suffixes;
pub use selection::{Selection, Settings};
pub use stage::{Selected, select};
