//! Templates of OpenDJ's makeldif, read as they are: text in, a model out.
//!
//! What the language means was read from its manual and found by asking makeldif 4.9.3 itself. Entries come in another
//! order (parents first, kind by kind), but what is counted is counted in its order: [`order`].

mod attributes;
mod blocks;
mod branch;
mod counting;
mod defines;
mod dn;
mod entry;
mod error;
mod expand;
mod facts;
mod files;
mod format;
mod kinds;
mod lines;
mod names;
mod order;
mod random;
mod render;
mod syntax;
mod tag;
mod tags;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use blocks::SUFFIX;
use defines::Defines;
use files::Lists;
use syntax::File;
use synth::model::{Operational, Template};
use synth::problem::Problem;
use synth::toml::text_of;

/// Whether the template of that path is one of these: any that is no TOML by its name or by how it begins.
pub fn is_one(path: &Path) -> Result<bool, Problem> {
    let is_toml = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    Ok(!is_toml && blocks::looks_like(&text_of(path)?))
}

/// Reads the template of a file. `lists`: where lists are that do not lie beside it. `suffix` is what its define of
/// that name is to be.
pub fn read(
    path: &Path,
    lists: &[PathBuf],
    defines: &BTreeMap<String, String>,
    suffix: Option<&str>,
) -> Result<Template, Problem> {
    let mut defines = defines.clone();
    if let Some(suffix) = suffix {
        defines.insert(SUFFIX.to_owned(), suffix.to_owned());
    }
    let file = file(path, &text_of(path)?, &defines)?;
    if suffix.is_some() && file.suffix.is_none() {
        let message = "--suffix: the template has no define named suffix; --define sets others";
        return Err(Problem::asked(path, message));
    }
    template(path, &file, lists)
}

/// Makes a template out of its text; `path` is for messages and for what lies beside it.
pub fn parse(
    path: &Path,
    text: &str,
    lists: &[PathBuf],
    defines: &BTreeMap<String, String>,
) -> Result<Template, Problem> {
    template(path, &file(path, text, defines)?, lists)
}

fn file(path: &Path, text: &str, defines: &BTreeMap<String, String>) -> Result<File, Problem> {
    blocks::parse(text, Defines::given(defines)).map_err(|wrong| wrong.in_file(path))
}

fn template(path: &Path, file: &File, lists: &[PathBuf]) -> Result<Template, Problem> {
    let mut lists = Lists::new(path, lists);
    let made = kinds::make(file, &mut lists).map_err(|wrong| wrong.in_file(path))?;
    Ok(Template {
        path: path.to_path_buf(),
        description: String::new(),
        suffix: made.suffix,
        learned: synth::vocabulary::Learned::default(),
        lists: lists.found,
        branches: made.branches,
        kinds: made.kinds,
        operational: Operational::default(),
    })
}
