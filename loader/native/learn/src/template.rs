//! The template: the outline of the tree, its kinds, and the vocabularies they use.

use std::fmt::Write as _;

use common::{Code, Error, Result};

use crate::describe::{Created, Described, Item, Line, Means, describe};
use crate::place::length;
use crate::registry::{Registry, write_registry};
use crate::schemes::structural_name;
use crate::statistics::Statistics;
use crate::tree_shape::{Outline, ParentRule, PlacedKind, outline};
use crate::{Learned, shapes::LEAST_SEEN};

/// Fewer than this are a number of their own, however many entries there are.
const FEW: u64 = 20;

pub fn write(gathered: &Statistics) -> Result<Learned> {
    let outline = outline(&gathered.kinds);
    let names = names(&outline);
    let mut by_size: Vec<usize> = (0..outline.kinds.len()).collect();
    by_size.sort_by_key(|&at| std::cmp::Reverse(outline.kinds[at].kind.entries));
    let Some(&first) = by_size.first() else {
        let few = format!("no {LEAST_SEEN} entries of the source are alike: too few to learn from");
        return Err(Error::new(Code::Empty, few));
    };
    let main = outline.kinds[first].kind.entries;
    let kind_at = |&at: &usize| (outline.kinds[at].key.path.to_string(), names[at].clone());
    let kinds: Vec<_> = by_size.iter().map(kind_at).collect();
    let mut registry = Registry::default();
    let root = gathered.kinds.keys().min_by_key(|key| (length(&key.path), &key.path));
    let root = root.map_or(String::new(), |key| key.path.to_string());
    let mut means = Means { root, kinds: &kinds, registry: &mut registry };
    let (mut kinds_text, mut created) = (String::new(), None);
    for (at, grown) in outline.kinds.iter().enumerate() {
        let described = describe(grown, &names[at], &mut means)?;
        let count = (at != first).then(|| count(grown.kind.entries, main));
        if at == first {
            created = described.created;
        }
        write_kind(&mut kinds_text, grown, &names, at, count, &described);
    }
    let left_out = outline.left_out + gathered.uncounted;
    let mut out = head(gathered.entries, left_out, &outline.branches);
    write_created(&mut out, created);
    out.push_str(&kinds_text);
    write_registry(&mut out, &registry);
    let kinds = outline.kinds.len();
    Ok(Learned { template: out, entries: gathered.entries, main, kinds, left_out })
}

fn head(entries: u64, left_out: u64, branches: &[String]) -> String {
    let mut out = String::from(
        "# Learned by `ditseed generate learn`. It holds no value of the source: words are made up.\n",
    );
    if left_out > 0 {
        let about = rough(left_out);
        let _ =
            writeln!(out, "# Left out: entries of which there were hardly any alike ({about}).");
    }
    let size = rough(entries);
    let _ = writeln!(out, "\ndescription = \"learned from a tree of about {size} entries\"");
    let _ = writeln!(out, "suffix = \"dc=example,dc=com\"");
    let branches: Vec<String> = branches.iter().map(|name| quoted(name)).collect();
    let _ = writeln!(out, "branches = [{}]", branches.join(", "));
    out
}

/// For `--operational`, by whole years.
fn write_created(out: &mut String, created: Option<Created>) {
    let Some(Created { first, last, at_once }) = created else { return };
    let _ = writeln!(out, "\n[operational]\nfrom = {first}-01-01");
    if !at_once {
        let _ = writeln!(out, "to = {}-01-01", last + 1);
    }
}

/// Two digits of a number.
fn rough(number: u64) -> u64 {
    let digits = number.max(1).ilog10().saturating_sub(1);
    let unit = 10_u64.pow(digits);
    (number + unit / 2) / unit * unit
}

/// Names that kinds have by their object classes.
fn names(outline: &Outline<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for grown in &outline.kinds {
        let classes: Vec<&str> = grown.key.classes.split(' ').collect();
        let longest = || classes.iter().copied().max_by_key(|class| class.len());
        let name = structural_name(&classes).or_else(longest).filter(|name| !name.is_empty());
        let name = name.unwrap_or("entry").replace('.', "-");
        let same =
            |taken: &&String| **taken == name || taken.strip_prefix(&name).is_some_and(is_number);
        let taken = names.iter().filter(same).count();
        names.push(if taken == 0 { name } else { format!("{name}-{}", taken + 1) });
    }
    names
}

fn is_number(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn write_kind(
    out: &mut String,
    grown: &PlacedKind<'_>,
    names: &[String],
    at: usize,
    count: Option<String>,
    described: &Described,
) {
    let _ = writeln!(out, "\n[[kinds]]\nname = {}", quoted(&names[at]));
    if let Some(count) = count {
        let _ = writeln!(out, "count = {count}");
    }
    match &grown.below {
        ParentRule::Branch(name) if name.is_empty() => {}
        ParentRule::Branch(name) => {
            let _ = writeln!(out, "below = {}", quoted(name));
        }
        ParentRule::Kind { place, pick } => {
            let _ =
                writeln!(out, "below = {{ kind = {}, pick = \"{pick}\" }}", quoted(&names[*place]));
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

/// A list of values; one alone stands for itself.
fn listed(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    if let [value] = &values[..] { value.clone() } else { format!("[{}]", values.join(", ")) }
}

/// So many for each of the main kind, within a half of a hundredth.
fn count(entries: u64, main: u64) -> String {
    if entries < FEW {
        return entries.to_string();
    }
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    let one_in = main as f64 / entries as f64;
    let scale = [1.0, 10.0, 100.0, 1000.0].into_iter().find(|scale| one_in * scale >= 100.0);
    let scale = scale.unwrap_or(1000.0);
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

/// A key, quoted unless it is bare by itself.
pub fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// A basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            one if one.is_control() => {
                let _ = write!(out, "\\u{:04X}", one as u32);
            }
            one => out.push(one),
        }
    }
    out.push('"');
    out
}

/// A number with so many digits behind the point, without zeros at its end.
pub fn decimal(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shares() {
        assert_eq!(count(12, 1000), "12");
        assert_eq!(count(500, 100_000), "\"1 per 200\"");
        assert_eq!(count(33_333, 100_000), "\"100 per 300\"");
        assert_eq!((rough(123_456), rough(7)), (120_000, 7));
    }

    #[test]
    fn strings_and_numbers() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(
            (decimal(0.5, 3), decimal(10.0, 1), decimal(100.0, 0)),
            ("0.5".into(), "10".into(), "100".into())
        );
    }
}
