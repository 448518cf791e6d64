//! Templates in our own syntax: TOML, whose texts hold tags in braces. `docs/generate.md` is its manual.
//!
//! A template is hostile until it is checked: whatever is wrong is a [`Problem`] with line and column.

mod document;
mod kinds;
mod lists;
mod tags;
mod text;
mod vocabulary;

use std::path::{Path, PathBuf};

use crate::model::{self, Template};
use crate::problem::{Problem, read_text};
use document::{Document, Lines, Table};

pub use tags::NAMES as TAGS;

/// Bytes of a template, at most.
pub const LARGEST: u64 = 16 << 20;
pub const SUFFIX: &str = "dc=example,dc=com";

/// Reads the template of a file, or `text` that was converted from it. Its lists are looked for beside the file, then in
/// `lists`.
pub fn read(path: &Path, text: Option<String>, lists: &[PathBuf]) -> Result<Template, Problem> {
    let text = text.map_or_else(|| read_text(path, LARGEST, "a template"), Ok)?;
    let beside = path.parent().map(Path::to_path_buf);
    let places: Vec<PathBuf> = beside.into_iter().chain(lists.iter().cloned()).collect();
    parse(path, &text, &places)
}

/// Reads a template from its text; `path` is for messages, and lists are looked for in `places`.
pub fn parse(path: &Path, text: &str, places: &[PathBuf]) -> Result<Template, Problem> {
    let lines = Lines::of(text);
    let document = Document { path, text, lines: &lines };
    let whole = document.parse()?;
    let root = Table::new(document, "the template", &whole);
    root.only(&[
        "description",
        "suffix",
        "branches",
        "lists",
        "kinds",
        "operational",
        "words",
        "shapes",
        "letters",
    ])?;
    let lists = lists::read(&root, places)?;
    let branches = kinds::branches(&root, &lists)?;
    let learned = vocabulary::read(&root)?;
    let kinds = kinds::read(&root, &branches, &lists, &learned)?;
    Ok(Template {
        path: path.to_path_buf(),
        description: root.text("description")?.unwrap_or_default().to_owned(),
        suffix: root.text("suffix")?.unwrap_or(SUFFIX).to_owned(),
        operational: operational(&root)?,
        lists,
        branches,
        kinds,
        learned,
    })
}

fn operational(root: &Table<'_, '_>) -> Result<model::Operational, Problem> {
    let Some(table) = root.table("operational")? else { return Ok(model::Operational::default()) };
    table.only(&["from", "to"])?;
    let (from, to) = (table.time("from")?, table.time("to")?);
    match (from, to) {
        (Some(from), None) => Ok(model::Operational::Load { from }),
        (Some(from), Some(to)) if from <= to => Ok(model::Operational::Years { from, to }),
        (Some(_), Some(_)) => Err(table.wrong("to", "must not be before from")),
        (None, _) => Err(table.wrong("from", "from is missing")),
    }
}
