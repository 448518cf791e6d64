//! Synthetic trees. A template, in whatever syntax, becomes a [`model`]; the model, a seed and a number of entries become
//! a [`Tree`]; the tree makes the LDIF of any entry by its number. A value follows from the seed, its kind, the entry's
//! number in that kind and its place in the template, and from nothing else: no state goes from entry to entry.

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
