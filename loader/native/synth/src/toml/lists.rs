//! Lists to pick from: a file beside the template or among those shipped, values in the template itself, or values with
//! weights.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_spanned::Spanned;
use toml::de::DeValue;

use super::document::{Table, Value, float};
use crate::list::{List, find};
use crate::problem::Problem;

/// Lists of a template, at most.
const LISTS: usize = 1_000;
/// Bytes of all lists of a template, at most.
const ROOM: usize = 256 << 20;

pub fn read(root: &Table<'_, '_>, places: &[PathBuf]) -> Result<Vec<Arc<List>>, Problem> {
    let Some(table) = root.table("lists")? else { return Ok(Vec::new()) };
    if table.entries.len() > LISTS {
        return Err(root.wrong("lists", format!("more than {LISTS} lists")));
    }
    let mut found = Vec::new();
    let mut left = ROOM;
    for (key, value) in table.entries {
        let name: &str = key.get_ref();
        let list = one(&table, name, value, places)?;
        // An empty value takes room too.
        left = left.checked_sub(list.size() + list.count()).ok_or_else(|| {
            table.wrong(name, format!("the lists have more than {ROOM} bytes together"))
        })?;
        found.push(Arc::new(list));
    }
    Ok(found)
}

fn one(
    table: &Table<'_, '_>,
    name: &str,
    value: &Value<'_>,
    places: &[PathBuf],
) -> Result<List, Problem> {
    let found = match value.get_ref() {
        DeValue::String(file) => return from_file(table, name, file, places),
        DeValue::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(|one| text(one.get_ref())).collect();
            texts.and_then(|texts| List::of(name, &texts))
        }
        DeValue::Table(values) => {
            let pairs: Option<Vec<(&str, f64)>> = values
                .iter()
                .map(|(value, weight)| {
                    Some((value.get_ref().as_ref(), float(Spanned::get_ref(weight))?))
                })
                .collect();
            pairs.and_then(|pairs| List::weighted(name, &pairs))
        }
        _ => None,
    };
    let reason =
        "must be the name of a file, a list of texts, or a table of texts with weights above 0";
    found.ok_or_else(|| table.wrong(name, reason))
}

fn text<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    if let DeValue::String(text) = value { Some(text) } else { None }
}

/// Only files below the places: a template of strangers must not read any others.
fn from_file(
    table: &Table<'_, '_>,
    name: &str,
    file: &str,
    places: &[PathBuf],
) -> Result<List, Problem> {
    let is_plain = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || file.is_empty() {
        return Err(table.wrong(name, format!("{file:?}: write a name beside the template")));
    }
    let found = find(file, places).ok_or_else(|| {
        table.wrong(name, format!("no file {file} beside the template or among the shipped lists"))
    })?;
    List::read(name, &found)
}
