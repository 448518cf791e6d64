//! Synthetic trees. A template, in whatever syntax, becomes a [`model`]; the model, a seed and a number of entries become
//! a [`Tree`]; the tree makes the LDIF of any entry by its number. A value follows from the seed, its kind, the entry's
//! number in that kind and its place in the template, and from nothing else: no state goes from entry to entry.

pub mod alias;
pub mod distribution;
pub mod draw;
pub mod list;
pub mod makeldif;
pub mod model;
pub mod operations;
mod permute;
pub mod problem;
pub mod tags;
pub mod toml;
pub mod vocabulary;

mod body;
mod branch;
mod compile;
mod maker;
mod names;
mod operational;
mod parent;
mod tree;
mod write;

pub use branch::is_description;
pub use compile::{Options, compile};
pub use maker::Maker;
pub use problem::{Problem, Spot};
pub use tree::{Place, Tree};
pub use write::{Items, Making, Task, to_descriptor, to_file};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads a template, whatever its syntax. Its lists are looked for beside it, then in `lists`. `suffix` instead of the
/// template's, where the template tells of it.
pub fn read(
    path: &Path,
    lists: &[PathBuf],
    defines: &BTreeMap<String, String>,
    suffix: Option<&str>,
) -> Result<model::Template, Problem> {
    if makeldif::is_one(path)? {
        return makeldif::read(path, lists, defines, suffix);
    }
    if let Some(name) = defines.keys().next() {
        let message = format!("--define {name}: only makeldif templates have defines");
        return Err(Problem::asked(path, message));
    }
    toml::read(path, lists)
}
