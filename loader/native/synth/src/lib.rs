//! Generates synthetic trees. A template becomes a [`model`]. The model, a seed and a number of entries become a
//! [`Tree`], from which a [`Maker`] writes the LDIF of any entry by its number. A value depends only on the seed, the
//! kind of the entry, the number of the entry within the kind, and the position of the value in the template.

pub mod distribution;
pub mod draw;
pub mod list;
pub mod model;
pub mod permute;
pub mod problem;
pub mod toml;
pub mod vocabulary;

mod body;
mod compile;
mod maker;
mod tags;
mod tree;
mod write;

pub use compile::{Options, compile, is_description};
pub use maker::{Maker, write_rdn};
pub use problem::{Location, Problem};
pub use tags::ascii;
pub use tree::{EntryRef, Kind, Tree};
pub use write::{Items, MakeItem, Task, to_descriptor, to_file};
