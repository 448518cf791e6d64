//! What a consumer holds of its provider's entries when its syncrepl has a filter, a list of attributes, a narrower
//! base or another suffix: LDIF in, LDIF out (`servers/slapd/syncrepl.c`, slapd.conf(5) `syncrepl`).
//!
//! [`filter`] decides about entries as `test_filter` does, [`attributes`] about their lines, [`place`] about their
//! names, [`glue`] notes which ancestors are missing, and [`stage`] ties them together. [`searches`] asks of filters
//! which indexes they use.

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
