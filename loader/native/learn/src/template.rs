//! Writes the template: its branches, its kinds, and the vocabularies of the kinds.

use std::fmt::Write as _;

use common::{Code, Error, Result};
use synth::vocabulary::{Case, Step};

use crate::describe::{Created, DescribeContext, Described, Item, Line, describe};
use crate::letters::{LEAST_WORDS, Letters};
use crate::position::length;
use crate::schemes::structural;
use crate::statistics::Statistics;
use crate::tree_shape::{Outline, ParentRule, PlacedKind, outline};
use crate::vocabulary::{Curve, Vocabulary};
use crate::{LEAST_SEEN, Learned};

/// A kind with fewer entries than this gets a fixed count instead of a share of the main kind.
const LEAST_SHARED: u64 = 20;

pub fn write(statistics: &Statistics) -> Result<Learned> {
    let outline = outline(&statistics.kinds);
    let names = names(&outline);
    let mut by_size: Vec<usize> = (0..outline.kinds.len()).collect();
    by_size.sort_by_key(|&kind| std::cmp::Reverse(outline.kinds[kind].kind.entries));
    let Some(&first) = by_size.first() else {
        let few = format!("no {LEAST_SEEN} entries of the source are alike: too few to learn from");
        return Err(Error::new(Code::Empty, few));
    };
    let main = outline.kinds[first].kind.entries;
    let path_and_name = |&kind: &usize| (outline.kinds[kind].key.path.to_string(), names[kind].clone());
    let kinds: Vec<_> = by_size.iter().map(path_and_name).collect();
    let mut registry = Registry::default();
    let root = statistics.kinds.keys().min_by_key(|key| (length(&key.path), &key.path));
    let root = root.map_or(String::new(), |key| key.path.to_string());
    let mut context = DescribeContext { root, kinds: &kinds, registry: &mut registry };
    let (mut kinds_text, mut created) = (String::new(), None);
    for (index, placed) in outline.kinds.iter().enumerate() {
        let described = describe(placed, &names[index], &mut context)?;
        let count = (index != first).then(|| count(placed.kind.entries, main));
        if index == first {
            created = described.created;
        }
        write_kind(&mut kinds_text, placed, &names, index, count, &described);
    }
    let left_out = outline.left_out + statistics.uncounted;
    let mut out = head(statistics.entries, left_out, &outline.branches);
    write_created(&mut out, created);
    out.push_str(&kinds_text);
    write_registry(&mut out, &registry);
    let kinds = outline.kinds.len();
    Ok(Learned { template: out, entries: statistics.entries, main, kinds, left_out })
}

fn head(entries: u64, left_out: u64, branches: &[String]) -> String {
    let mut out = String::from(
        "# Learned by `ditseed generate learn`. It contains no value of the source: all words are made up.\n",
    );
    if left_out > 0 {
        let _ = writeln!(out, "# Omitted: entries with too few similar ones ({}).", rough(left_out));
    }
    let _ = writeln!(out, "\ndescription = \"learned from a tree of about {} entries\"", rough(entries));
    let _ = writeln!(out, "suffix = \"dc=example,dc=com\"");
    let branches: Vec<String> = branches.iter().map(|name| quoted(name)).collect();
    let _ = writeln!(out, "branches = [{}]", branches.join(", "));
    out
}

/// Writes the period of creation in whole years, for `--operational`.
fn write_created(out: &mut String, created: Option<Created>) {
    let Some(Created { first, last, at_once }) = created else { return };
    let _ = writeln!(out, "\n[operational]\nfrom = {first}-01-01");
    if !at_once {
        let _ = writeln!(out, "to = {}-01-01", last + 1);
    }
}

/// Rounds a number to two significant digits.
fn rough(number: u64) -> u64 {
    let digits = number.max(1).ilog10().saturating_sub(1);
    let unit = 10_u64.pow(digits);
    (number + unit / 2) / unit * unit
}

/// Returns a name for each kind, derived from its object classes.
fn names(outline: &Outline<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for placed in &outline.kinds {
        let classes: Vec<&str> = placed.key.classes.split(' ').collect();
        let longest = || classes.iter().copied().max_by_key(|class| class.len());
        let name = structural(&classes).map(|(name, _)| name).or_else(longest).filter(|name| !name.is_empty());
        let name = name.unwrap_or("entry").replace('.', "-");
        let count = names.iter().filter(|other| **other == name || is_numbered(other, &name)).count();
        names.push(if count == 0 { name } else { format!("{name}-{}", count + 1) });
    }
    names
}

fn write_kind(
    out: &mut String,
    placed: &PlacedKind<'_>,
    names: &[String],
    index: usize,
    count: Option<String>,
    described: &Described,
) {
    let _ = writeln!(out, "\n[[kinds]]\nname = {}", quoted(&names[index]));
    if let Some(count) = count {
        let _ = writeln!(out, "count = {count}");
    }
    match &placed.below {
        ParentRule::Branch(name) if name.is_empty() => {}
        ParentRule::Branch(name) => {
            let _ = writeln!(out, "below = {}", quoted(name));
        }
        ParentRule::Kind { kind, pick } => {
            let _ = writeln!(out, "below = {{ kind = {}, pick = \"{pick}\" }}", quoted(&names[*kind]));
        }
    }
    let _ = writeln!(out, "rdn = {}", listed(described.rdn.iter().map(|name| quoted(name))));
    if let Some(class) = &described.structural {
        let _ = writeln!(out, "structural = {}", quoted(class));
    }
    if !described.values.is_empty() {
        out.push_str("\n[kinds.values]\n");
        for (name, text) in &described.values {
            let _ = writeln!(out, "{} = {}", key(name), quoted(text));
        }
    }
    out.push_str("\n[kinds.attributes]\n");
    for Line { name, texts, note } in &described.attributes {
        let note = if note.is_empty() { String::new() } else { format!("  # {note}") };
        let _ = writeln!(out, "{} = {}{note}", key(name), listed(texts.iter().map(item)));
    }
}

/// Formats values as a TOML list; a single value has no brackets.
fn listed(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    if let [value] = &values[..] { value.clone() } else { format!("[{}]", values.join(", ")) }
}

/// Returns the number of entries as a share of the main kind, accurate to half a percent, or a small number itself.
fn count(entries: u64, main: u64) -> String {
    if entries < LEAST_SHARED {
        return entries.to_string();
    }
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    let one_in = main as f64 / entries as f64;
    let scale = [1.0, 10.0, 100.0].into_iter().find(|scale| one_in * scale >= 100.0).unwrap_or(1000.0);
    format!("\"{scale} per {}\"", decimal((one_in * scale).round(), 0))
}

fn item(item: &Item) -> String {
    let always = item.chance >= 0.9995;
    if always && item.count.is_empty() {
        return quoted(&item.text);
    }
    let mut parts = vec![format!("text = {}", quoted(&item.text))];
    if !always {
        parts.push(format!("chance = {}", decimal(item.chance.max(0.0001), 4)));
    }
    if !item.count.is_empty() {
        parts.push(format!("count = \"histogram:{}\"", item.count));
    }
    format!("{{ {} }}", parts.join(", "))
}

/// Formats a TOML key, in quotes if necessary.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// Formats a TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(out, "\\u{:04X}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Formats a number with up to this many decimal places, without trailing zeros.
pub fn decimal(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A new vocabulary is compared with at most this many earlier vocabularies.
const MOST_COMPARED: usize = 400;

/// The vocabularies and shapes of the template by their names.
#[derive(Default)]
pub struct Registry {
    pub words: Vec<(String, Vocabulary)>,
    pub shapes: Vec<(String, Choice)>,
}

/// A set of texts, one of which is chosen at random.
pub struct Choice {
    /// Texts with their weights.
    pub texts: Vec<(String, u64)>,
    /// The number of distinct values and their frequencies. None if every draw generates a new value.
    pub phrases: Option<Curve>,
}

impl Registry {
    /// Adds a vocabulary, or joins it with an earlier vocabulary that has the same words. Returns the name of the
    /// vocabulary. A new name consists of `stem` and a number.
    pub fn add_words(&mut self, stem: &str, vocabulary: Vocabulary) -> String {
        let mut earlier = self.words.iter_mut().rev().take(MOST_COMPARED);
        if let Some((name, same)) = earlier.find(|(_, earlier)| earlier.is_like(&vocabulary)) {
            same.join(vocabulary);
            return name.clone();
        }
        let number = self.words.iter().filter(|(name, _)| is_numbered(name, stem)).count() + 1;
        let name = format!("{stem}-{number}");
        self.words.push((name.clone(), vocabulary));
        name
    }

    pub fn add_shapes(&mut self, stem: &str, choice: Choice) -> String {
        self.shapes.push((stem.to_owned(), choice));
        stem.to_owned()
    }
}

/// Whether the name consists of `stem`, a hyphen and a number.
fn is_numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// At most this many vocabularies, those with the most draws, have their own table of letters.
const MOST_TABLES: usize = 24;
/// The table that the other vocabularies share, and the table to use if they have too few words.
const COMMON: &str = "common";
const BUILT_IN: &str = "latin";

fn write_registry(out: &mut String, registry: &Registry) {
    for (name, choice) in &registry.shapes {
        write_choice(out, name, choice);
    }
    let tables = Tables::new(registry);
    for (index, (name, vocabulary)) in registry.words.iter().enumerate() {
        let letters = if vocabulary.digits { "digits" } else { tables.of(index, name) };
        write_words(out, name, vocabulary, letters);
    }
    tables.write(out, registry);
}

fn write_choice(out: &mut String, name: &str, choice: &Choice) {
    let _ = writeln!(out, "\n[shapes.{}]", key(name));
    if let Some(curve) = &choice.phrases {
        let _ = writeln!(out, "distinct = {}\nranks = {}", curve.words, ranks(curve, false));
    }
    out.push_str("texts = [\n");
    for (text, weight) in &choice.texts {
        let _ = writeln!(out, "    {{ text = {}, weight = {weight} }},", quoted(text));
    }
    out.push_str("]\n");
}

fn write_words(out: &mut String, name: &str, vocabulary: &Vocabulary, letters: &str) {
    let case = match vocabulary.case {
        Case::Lower => "lower",
        Case::Capital => "capital",
        Case::Upper => "upper",
    };
    let _ = writeln!(out, "\n[words.{}]\ncount = {}", key(name), vocabulary.curve.words.max(1));
    let _ = writeln!(out, "lengths = {}", quoted(&vocabulary.lengths.to_text()));
    let _ = writeln!(out, "ranks = {}", ranks(&vocabulary.curve, true));
    let _ = writeln!(out, "letters = {}\ncase = \"{case}\"", quoted(letters));
    if vocabulary.ascii && !vocabulary.digits {
        out.push_str("ascii = true\n");
    }
}

/// Formats the steps of ranks. Each has its last rank, its share of draws and, with `letters`, the mean word length.
fn ranks(curve: &Curve, letters: bool) -> String {
    let step = |step: &Step| {
        let share = decimal(step.share.max(0.000_000_1), 7);
        if letters {
            format!("[{}, {share}, {}]", step.to, decimal(step.letters, 2))
        } else {
            format!("[{}, {share}]", step.to)
        }
    };
    format!("[{}]", curve.steps.iter().map(step).collect::<Vec<_>>().join(", "))
}

struct Tables {
    /// Indexes of the vocabularies that have their own table of letters.
    own: Vec<usize>,
    /// The letters of all vocabularies.
    common: Letters,
}

impl Tables {
    fn new(registry: &Registry) -> Self {
        let (mut own, mut common) = (Vec::new(), Letters::default());
        for (index, (_, Vocabulary { letters, digits, .. })) in registry.words.iter().enumerate() {
            if *digits {
                continue;
            }
            if letters.words >= LEAST_WORDS {
                own.push(index);
            }
            common.merge(letters);
        }
        own.sort_by_key(|&index| std::cmp::Reverse(registry.words[index].1.draws));
        own.truncate(MOST_TABLES);
        Self { own, common }
    }

    /// Returns the name of a vocabulary's table of letters. `index` and `name` are those of the vocabulary.
    fn of<'n>(&self, index: usize, name: &'n str) -> &'n str {
        if self.own.contains(&index) {
            name
        } else if self.common.words >= LEAST_WORDS {
            COMMON
        } else {
            BUILT_IN
        }
    }

    fn write(&self, out: &mut String, registry: &Registry) {
        out.push_str(
            "\n# Which letter follows which: a row for the head of a word and for each of a to z, letters of two bytes\n\
             # and of three; in it a digit for each that follows, 9 the most frequent, one less half of it.\n",
        );
        for &index in &self.own {
            let (name, vocabulary) = &registry.words[index];
            write_letters(out, name, &vocabulary.letters);
        }
        if self.common.words >= LEAST_WORDS {
            write_letters(out, COMMON, &self.common);
        }
    }
}

fn write_letters(out: &mut String, name: &str, letters: &Letters) {
    let _ = writeln!(out, "\n[letters.{}]\nrows = [", key(name));
    for row in letters.rows() {
        let _ = writeln!(out, "    \"{row}\",");
    }
    out.push_str("]\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_shares() {
        assert_eq!(count(12, 1000), "12");
        assert_eq!(count(500, 100_000), "\"1 per 200\"");
        assert_eq!(count(33_333, 100_000), "\"100 per 300\"");
        assert_eq!((rough(123_456), rough(7)), (120_000, 7));
    }

    #[test]
    fn strings_and_numbers_are_valid_toml() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!((decimal(0.5, 3), decimal(10.0, 1), decimal(100.0, 0)), ("0.5".into(), "10".into(), "100".into()));
    }
}
