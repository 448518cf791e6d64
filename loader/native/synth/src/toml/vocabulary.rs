//! Tables that only learned templates have: `[words]`, `[shapes]`, `[letters]`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_spanned::Spanned;
use toml::de::DeValue;

use super::document::{Table, Value, float, integer, listed};
use super::{tags, text};
use crate::problem::{Problem, suggestion};
use crate::tags::SlotFacts;
use crate::vocabulary::letters::LATIN;
use crate::vocabulary::{Case, Learned, Letters, Ranks, Shape, Step, Vocabulary, Words};

/// Vocabularies or shapes, and texts or ranks of one, at most.
const MOST: usize = 20_000;
const MOST_PARTS: usize = 1_000;
/// Words that are kept in memory, at most.
const MOST_WORDS: u64 = 8_000_000;

type Tables = HashMap<String, Arc<Letters>>;

pub fn read(root: &Table<'_, '_>) -> Result<Learned, Problem> {
    let letters = letters(root)?;
    let (mut learned, mut listed_words) = (Learned::default(), 0);
    for (name, table) in tables(root, "words")? {
        let one = words(name, &table, &letters)?;
        listed_words += one.listed();
        if listed_words > MOST_WORDS {
            return Err(table.wrong("count", format!("more than {MOST_WORDS} words in all")));
        }
        learned.vocabularies.push(Arc::new(one));
    }
    let values = values(root);
    for (name, table) in tables(root, "shapes")? {
        learned.shapes.push(Arc::new(shape(name, &table, &values)?));
    }
    Ok(learned)
}

/// The tables in the table of that key, by their names.
fn tables<'t, 'd>(
    root: &Table<'t, 'd>,
    key: &str,
) -> Result<Vec<(&'t str, Table<'t, 'd>)>, Problem> {
    let Some(all) = root.table(key)? else { return Ok(Vec::new()) };
    if all.entries.len() > MOST {
        return Err(root.wrong(key, format!("more than {MOST}")));
    }
    let one = |(name, value): (&'t Spanned<_>, &'t Value<'d>)| {
        let name: &str = AsRef::<str>::as_ref(name.get_ref());
        Ok((name, Table::of(root.document, &format!("{key}.{name}"), value)?))
    };
    all.entries.iter().map(one).collect()
}

fn letters(root: &Table<'_, '_>) -> Result<Tables, Problem> {
    let mut found = Tables::new();
    if let Some(latin) = Letters::new(&LATIN) {
        found.insert("latin".to_owned(), Arc::new(latin));
    }
    for (name, table) in tables(root, "letters")? {
        table.only(&["rows"])?;
        let rows = table.all("rows").into_iter().map(|row| match row.get_ref() {
            DeValue::String(row) => Some(row.as_ref()),
            _ => None,
        });
        let rows: Option<Vec<&str>> = rows.collect();
        let made = rows.and_then(|rows| Letters::new(&rows));
        let made = made.ok_or_else(|| table.wrong("rows", "must be 29 texts of 28 digits"))?;
        found.insert(name.to_owned(), Arc::new(made));
    }
    Ok(found)
}

fn words(name: &str, table: &Table<'_, '_>, letters: &Tables) -> Result<Vocabulary, Problem> {
    table.only(&["count", "lengths", "ranks", "letters", "case", "ascii"])?;
    let lengths = format!("histogram:{}", table.required("lengths")?);
    let lengths = tags::distribution(&lengths).map_err(|reason| table.wrong("lengths", reason))?;
    let count = table.number("count")?.ok_or_else(|| table.wrong("count", "count is missing"))?;
    let case = match table.text("case")? {
        None | Some("lower") => Case::Lower,
        Some("capital") => Case::Capital,
        Some("upper") => Case::Upper,
        Some(_) => return Err(table.wrong("case", "write lower, capital or upper")),
    };
    let named = table.text("letters")?.unwrap_or("latin");
    let letters = match letters.get(named) {
        _ if named == "digits" => None,
        Some(found) => Some(found.clone()),
        None => {
            let hint = suggestion(named, letters.keys().map(String::as_str));
            return Err(table.wrong("letters", format!("there is no {named:?} in [letters]{hint}")));
        }
    };
    let name = name.to_owned();
    let ascii = match table.get("ascii").map(Spanned::get_ref) {
        None => false,
        Some(DeValue::Boolean(ascii)) => *ascii,
        Some(_) => return Err(table.wrong("ascii", "write true or false")),
    };
    let ranks = ranks(table, "ranks")?;
    let words = Words { name, count, lengths, ranks, letters, case, ascii };
    Vocabulary::new(words).map_err(|reason| table.wrong("count", reason))
}

/// Lists of the last rank of a step, its share, and the letters of its words.
fn ranks(table: &Table<'_, '_>, key: &str) -> Result<Ranks, Problem> {
    let wrong = |reason: String| table.wrong(key, reason);
    let steps = table.all(key);
    if steps.len() > MOST_PARTS {
        return Err(wrong(format!("more than {MOST_PARTS}")));
    }
    let steps: Option<Vec<Step>> = steps.into_iter().map(step).collect();
    let steps = steps.ok_or_else(|| wrong("must be lists of [rank, share, letters]".to_owned()))?;
    Ranks::new(steps).map_err(wrong)
}

fn step(value: &Value<'_>) -> Option<Step> {
    let parts = listed(value);
    let (to, share) = (integer(parts.first()?.get_ref())?, float(parts.get(1)?.get_ref())?);
    let letters = match parts.get(2) {
        Some(letters) => float(letters.get_ref())?,
        None => 0.0,
    };
    (parts.len() <= 3).then_some(Step { to, share, letters })
}

fn shape(
    name: &str,
    table: &Table<'_, '_>,
    values: &HashMap<String, SlotFacts>,
) -> Result<Shape, Problem> {
    table.only(&["texts", "ranks", "distinct"])?;
    let said = table.all("texts");
    if said.is_empty() || said.len() > MOST_PARTS {
        return Err(table.wrong("texts", format!("must be a list of 1 to {MOST_PARTS} texts")));
    }
    let mut texts = Vec::new();
    for value in said {
        let one = Table::of(table.document, "a text", value)?;
        one.only(&["text", "weight"])?;
        let (written, quotes) = (one.required("text")?, one.get("text"));
        let weight = one.get("weight").map_or(Some(1.0), |weight| float(weight.get_ref()));
        let weight = weight.filter(|weight| *weight > 0.0);
        let weight = weight.ok_or_else(|| one.wrong("weight", "must be above 0"))?;
        let parsed = text::parse(written, values, |_| Ok(())).map_err(|wrong| {
            let span = quotes.map_or(one.span.clone(), Spanned::span);
            let at = table.document.within(&span, written, wrong.at);
            table.document.wrong(at, wrong.message)
        })?;
        texts.push((parsed, weight));
    }
    let phrases = table.get("ranks").map(|_| ranks(table, "ranks")).transpose()?;
    Ok(Shape { name: name.to_owned(), texts, phrases })
}

/// Values of any kind, which texts may name; whether the entry has it is seen where the shape is used.
fn values(root: &Table<'_, '_>) -> HashMap<String, SlotFacts> {
    let mut found = HashMap::new();
    let facts = SlotFacts { at: 0, most: 0, printable: false };
    for kind in root.all("kinds") {
        let DeValue::Table(kind) = kind.get_ref() else { continue };
        let Some(DeValue::Table(values)) = kind.get("values").map(Spanned::get_ref) else {
            continue;
        };
        found.extend(values.keys().map(|name| (name.get_ref().to_string(), facts)));
    }
    found
}
