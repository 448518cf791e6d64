//! Reads the tables `[words]`, `[shapes]` and `[letters]` of learned templates.

use std::collections::HashMap;
use std::sync::Arc;

use serde_spanned::Spanned;
use toml::de::DeValue;

use super::{Table, Value, float, integer, listed, tags};
use crate::problem::{Problem, suggestion};
use crate::tags::{SlotFacts, Slots};
use crate::vocabulary::letters::LATIN;
use crate::vocabulary::{Case, Learned, Letters, Ranks, Shape, Step, Vocabulary, Words};

/// Maximum number of vocabularies, shapes or tables of letters in a template; more are an error.
const MOST: usize = 20_000;
/// Maximum number of steps of ranks, or of texts of a shape; more are an error.
const MOST_PARTS: usize = 1_000;
/// Maximum number of words that all vocabularies together keep in memory; more are an error.
const MOST_WORDS: u64 = 8_000_000;

/// Tables of letters by name.
type Tables = HashMap<String, Arc<Letters>>;

pub fn read(root: &Table<'_, '_>) -> Result<Learned, Problem> {
    let letters = letters(root)?;
    let (mut learned, mut listed_words) = (Learned::default(), 0);
    for (name, table) in tables(root, "words")? {
        let vocabulary = words(name, &table, &letters)?;
        listed_words += vocabulary.listed();
        if listed_words > MOST_WORDS {
            return Err(table.wrong("count", format!("more than {MOST_WORDS} words in all")));
        }
        learned.vocabularies.push(Arc::new(vocabulary));
    }
    let values = values(root);
    for (name, table) in tables(root, "shapes")? {
        learned.shapes.push(Arc::new(shape(name, &table, &values)?));
    }
    Ok(learned)
}

/// Returns the subtables of the table at `key`, with their names.
fn tables<'t, 'd>(root: &Table<'t, 'd>, key: &str) -> Result<Vec<(&'t str, Table<'t, 'd>)>, Problem> {
    let Some(all) = root.table(key)? else { return Ok(Vec::new()) };
    if all.entries.len() > MOST {
        return Err(root.wrong(key, format!("more than {MOST}")));
    }
    let subtable = |(name, value): (&'t Spanned<_>, &'t Value<'d>)| {
        let name: &str = AsRef::<str>::as_ref(name.get_ref());
        Ok((name, Table::of(root.document, &format!("{key}.{name}"), value)?))
    };
    all.entries.iter().map(subtable).collect()
}

fn letters(root: &Table<'_, '_>) -> Result<Tables, Problem> {
    let latin = Letters::new(&LATIN).map(|latin| ("latin".to_owned(), Arc::new(latin)));
    let mut all: Tables = latin.into_iter().collect();
    for (name, table) in tables(root, "letters")? {
        table.only(&["rows"])?;
        let rows: Option<Vec<&str>> = table.all("rows").into_iter().map(|row| row.get_ref().as_str()).collect();
        let letters = rows.and_then(|rows| Letters::new(&rows));
        let letters = letters.ok_or_else(|| table.wrong("rows", "must be 29 texts of 28 digits"))?;
        all.insert(name.to_owned(), Arc::new(letters));
    }
    Ok(all)
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
    let choice = table.text("letters")?.unwrap_or("latin");
    let letters = match letters.get(choice) {
        _ if choice == "digits" => None,
        Some(letters) => Some(letters.clone()),
        None => {
            let hint = suggestion(choice, letters.keys().map(String::as_str));
            return Err(table.wrong("letters", format!("there is no {choice:?} in [letters]{hint}")));
        }
    };
    let ascii = table.read("ascii", "write true or false", DeValue::as_bool)?.unwrap_or(false);
    let (name, ranks) = (name.to_owned(), ranks(table)?);
    let words = Words { name, count, lengths, ranks, letters, case, ascii };
    Vocabulary::new(words).map_err(|reason| table.wrong("count", reason))
}

/// Parses the steps of ranks. A step is an array: the end of its ranks, its share of all draws, and (optional) the mean
/// length of its words in letters.
fn ranks(table: &Table<'_, '_>) -> Result<Ranks, Problem> {
    let wrong = |reason: String| table.wrong("ranks", reason);
    let steps = table.all("ranks");
    if steps.len() > MOST_PARTS {
        return Err(wrong(format!("more than {MOST_PARTS}")));
    }
    let steps: Option<Vec<Step>> = steps.into_iter().map(step).collect();
    let steps = steps.ok_or_else(|| wrong("must be lists of [rank, share, letters]".to_owned()))?;
    Ranks::new(steps).map_err(wrong)
}

fn step(value: &Value<'_>) -> Option<Step> {
    let (to, share, letters) = match listed(value)[..] {
        [to, share] => (to, share, 0.0),
        [to, share, letters] => (to, share, float(letters.get_ref())?),
        _ => return None,
    };
    Some(Step { to: integer(to.get_ref())?, share: float(share.get_ref())?, letters })
}

fn shape(name: &str, table: &Table<'_, '_>, values: &Slots) -> Result<Shape, Problem> {
    table.only(&["texts", "ranks", "distinct"])?;
    let listed = table.all("texts");
    if listed.is_empty() || listed.len() > MOST_PARTS {
        return Err(table.wrong("texts", format!("must be a list of 1 to {MOST_PARTS} texts")));
    }
    let text = |value| {
        let table = Table::of(table.document, "a text", value)?;
        table.only(&["text", "weight"])?;
        let (written, quotes) = (table.required("text")?, table.get("text"));
        let above_0 = |weight| float(weight).filter(|weight| *weight > 0.0);
        let weight = table.read("weight", "must be above 0", above_0)?.unwrap_or(1.0);
        let parsed = tags::parse(written, values, |_| Ok(())).map_err(|wrong| {
            let span = quotes.map_or(table.span.clone(), Spanned::span);
            table.document.wrong_within(&span, written, wrong)
        })?;
        Ok((parsed, weight))
    };
    let texts = listed.into_iter().map(text).collect::<Result<_, _>>()?;
    let phrases = table.get("ranks").map(|_| ranks(table)).transpose()?;
    Ok(Shape { name: name.to_owned(), texts, phrases })
}

/// Returns the names of the values of all kinds. Whether an entry has a value is checked where the shape is used.
fn values(root: &Table<'_, '_>) -> Slots {
    let kinds = root.all("kinds").into_iter().filter_map(|kind| kind.get_ref().as_table());
    let values = kinds.filter_map(|kind| kind.get("values")?.get_ref().as_table());
    let names = values.flat_map(|values| values.keys());
    names.map(|name| (name.get_ref().to_string(), SlotFacts::default())).collect()
}
