//! Generates synthetic trees. A template in any syntax becomes a [`model`]; the model, a seed and a number of entries
//! become a [`Tree`]; the tree yields the LDIF of any entry by its number. A value depends only on the seed, its kind,
//! the entry's number within the kind, and its position in the template: entries share no state.

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
pub use maker::{Maker, escape};
pub use problem::{Location, Problem};
pub use tree::{EntryRef, Tree};
pub use write::{Items, MakeItem, Task, to_descriptor, to_file};
