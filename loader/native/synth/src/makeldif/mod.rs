//! Templates of OpenDJ's makeldif, read as they are: text in, a model out.
//!
//! What the language means was read from its manual and found by asking makeldif 4.9.3 itself. Entries come in another
//! order (parents first, kind by kind), but what is counted is counted in its order: [`order`].

mod blocks;
mod branch;
mod counting;
mod defines;
mod dn;
mod entry;
mod expand;
mod facts;
mod files;
mod format;
mod kinds;
mod lines;
mod names;
mod order;
pub mod own;
mod random;
pub mod render;
mod syntax;
mod tag;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod wrong;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::model::{Operational, Template};
use crate::problem::Problem;
use crate::toml::text_of;

/// Whether the template of that path is one of these: any that is no TOML by its name or by how it begins.
pub fn is_one(path: &Path) -> Result<bool, Problem> {
    let is_toml = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    Ok(!is_toml && blocks::looks_like(&text_of(path)?))
}

/// Reads the template of a file. `lists`: where lists are that do not lie beside it.
pub fn read(
    path: &Path,
    lists: &[PathBuf],
    defines: &BTreeMap<String, String>,
) -> Result<Template, Problem> {
    parse(path, &text_of(path)?, lists, defines)
}

/// Makes a template out of its text; `path` is for messages and for what lies beside it.
pub fn parse(
    path: &Path,
    text: &str,
    lists: &[PathBuf],
    defines: &BTreeMap<String, String>,
) -> Result<Template, Problem> {
    let told = |wrong: wrong::Wrong| Problem::new(path, wrong.spot, wrong.message);
    let file = blocks::parse(text, defines::Defines::given(defines)).map_err(told)?;
    let mut lists = files::Lists::new(path, lists);
    let made = kinds::make(&file, &mut lists).map_err(told)?;
    Ok(Template {
        path: path.to_path_buf(),
        description: String::new(),
        suffix: made.suffix,
        lists: lists.found,
        branches: made.branches,
        kinds: made.kinds,
        operational: Operational::default(),
    })
}
