//! Converts the lists, branches and kinds of the TOML document into parts of the model.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_spanned::Spanned;
use toml::de::DeValue;

use super::{Table, Value, float, integer, listed, tags};
use crate::draw::Stream;
use crate::list::{List, find};
use crate::model::{Attribute, Branch, Condition, Count, Item, Kind, Named, Parent, Pick, Tag, Text};
use crate::problem::{Problem, suggestion};
use crate::tags::{KindFacts, Scope, SlotFacts, Slots, compile};
use crate::vocabulary::Learned;

type Lists = Vec<Arc<List>>;

/// Limits beyond which a template is refused: lists; total bytes of all lists; branches, kinds, and values or
/// attributes of a kind; texts of an attribute.
const MOST_LISTS: usize = 1_000;
const MOST_LIST_BYTES: usize = 256 << 20;
const MOST: usize = 4_000;
const MOST_TEXTS: usize = 10_000;

/// Reads the lists of values. Each list is a file beside the template, a shipped file, a TOML array, or a TOML table
/// with weights. The files are searched for in `directories`.
pub fn lists(root: &Table<'_, '_>, directories: &[PathBuf]) -> Result<Lists, Problem> {
    let Some(table) = root.table("lists")? else { return Ok(Vec::new()) };
    if table.entries.len() > MOST_LISTS {
        return Err(root.wrong("lists", format!("more than {MOST_LISTS} lists")));
    }
    let (mut lists, mut remaining) = (Vec::new(), MOST_LIST_BYTES);
    for (key, value) in table.entries {
        let name: &str = key.get_ref();
        let list = list(&table, name, value.get_ref(), directories)?;
        // An empty value needs memory too, so each value counts as one byte more.
        remaining = remaining
            .checked_sub(list.size() + list.count())
            .ok_or_else(|| table.wrong(name, format!("the lists have more than {MOST_LIST_BYTES} bytes together")))?;
        lists.push(Arc::new(list));
    }
    Ok(lists)
}

fn list(table: &Table<'_, '_>, name: &str, value: &DeValue<'_>, directories: &[PathBuf]) -> Result<List, Problem> {
    let list = match value {
        DeValue::String(file) => return from_file(table, name, file, directories),
        DeValue::Array(values) => {
            let texts: Option<Vec<_>> = values.iter().map(|value| Some((value.get_ref().as_str()?, None))).collect();
            texts.and_then(|texts| List::new(name, &texts))
        }
        DeValue::Table(values) => {
            let pairs = values.iter().map(|(text, weight)| {
                let weight = float(Spanned::get_ref(weight))?;
                Some((text.get_ref().as_ref(), Some(weight)))
            });
            let pairs: Option<Vec<(&str, Option<f64>)>> = pairs.collect();
            pairs.and_then(|pairs| List::new(name, &pairs))
        }
        _ => None,
    };
    let reason = "must be the name of a file, a list of texts, or a table of texts with weights above 0";
    list.ok_or_else(|| table.wrong(name, reason))
}

/// Reads a list from a file in one of the directories. An untrusted template must not read other files.
fn from_file(table: &Table<'_, '_>, name: &str, file: &str, directories: &[PathBuf]) -> Result<List, Problem> {
    let is_plain = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || file.is_empty() {
        return Err(table.wrong(name, format!("{file:?}: write a name beside the template")));
    }
    let path = find(file, directories)
        .ok_or_else(|| table.wrong(name, format!("no file {file} beside the template or among the shipped lists")))?;
    List::read(name, &path)
}

/// Reads the branches. If the first branch is not the suffix, adds the suffix before it.
pub fn branches(root: &Table<'_, '_>, lists: &Lists) -> Result<Vec<Branch>, Problem> {
    let spot = |value: &Value<'_>| root.document.spot(value.span().start);
    let plain = |spot, dn: &str| Branch { spot, dn: dn.to_owned(), attributes: Vec::new() };
    let mut branches = Vec::new();
    for value in bounded(root, "branches", root.all("branches"))? {
        if let DeValue::String(dn) = value.get_ref() {
            branches.push(plain(spot(value), dn));
            continue;
        }
        let table = Table::of(root.document, "a branch", value)?;
        table.only(&["dn", "attributes"])?;
        let learned = Learned::default();
        let reader = TextReader { lists, learned: &learned, kinds: &[], values: Slots::new() };
        branches.push(Branch {
            spot: table.spot(),
            dn: table.required("dn")?.to_owned(),
            attributes: reader.attributes(&table)?,
        });
    }
    if branches.first().is_none_or(|first| !first.dn.is_empty()) {
        branches.insert(0, plain(root.get("suffix").map_or_else(|| root.spot(), spot), ""));
    }
    Ok(branches)
}

pub fn kinds(
    root: &Table<'_, '_>,
    branches: &[Branch],
    lists: &Lists,
    learned: &Learned,
) -> Result<Vec<Kind>, Problem> {
    let tables = bounded(root, "kinds", root.all("kinds"))?.into_iter();
    let tables = tables.map(|value| Table::of(root.document, "a kind", value));
    let tables: Vec<Table<'_, '_>> = tables.collect::<Result<_, _>>()?;
    if tables.is_empty() {
        return Err(root.wrong("kinds", "there is no kind: write [[kinds]]"));
    }
    let facts = |table: &Table<'_, '_>| Ok(KindFacts { name: table.required("name")?.to_owned(), count: 1, dn: 0 });
    let kinds: Vec<KindFacts> = tables.iter().map(facts).collect::<Result<_, _>>()?;
    let kind = |table| kind(table, branches, TextReader { lists, learned, kinds: &kinds, values: Slots::new() });
    tables.iter().map(kind).collect()
}

fn bounded<T>(root: &Table<'_, '_>, key: &str, all: Vec<T>) -> Result<Vec<T>, Problem> {
    if all.len() > MOST { Err(root.wrong(key, format!("more than {MOST}"))) } else { Ok(all) }
}

fn kind(table: &Table<'_, '_>, branches: &[Branch], mut reader: TextReader<'_>) -> Result<Kind, Problem> {
    table.only(&["name", "count", "below", "rdn", "structural", "values", "attributes"])?;
    let name = table.required("name")?;
    let values = reader.values(table)?;
    let rdn = table.all("rdn").into_iter().map(|value| value.get_ref().as_str().map(str::to_owned));
    let rdn: Option<Vec<String>> = rdn.collect();
    let rdn = rdn.ok_or_else(|| table.wrong("rdn", "must be the name of an attribute, or a list of names"))?;
    if rdn.is_empty() {
        return Err(table.wrong("rdn", "rdn is missing"));
    }
    Ok(Kind {
        spot: table.spot(),
        name: name.to_owned(),
        count: count(table)?,
        parent: parent(table, name, branches)?,
        rdn,
        structural: table.text("structural")?.map(str::to_owned),
        values,
        attributes: reader.attributes(table)?,
    })
}

fn count(table: &Table<'_, '_>) -> Result<Count, Problem> {
    let reason = "write a number, \"1 per 200\" of the kind without a count, or \"3 each\"";
    let count = table.read("count", reason, |value| {
        let Some(text) = value.as_str() else { return integer(value).map(Count::Fixed) };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [ones, "per", of] => {
                let of = of.parse().ok().filter(|of| *of > 0)?;
                Some(Count::Share { ones: ones.parse().ok()?, of })
            }
            [each, "each"] => each.parse().ok().map(Count::Each),
            _ => None,
        }
    })?;
    Ok(count.unwrap_or(Count::Asked))
}

fn parent(table: &Table<'_, '_>, own: &str, branches: &[Branch]) -> Result<Parent, Problem> {
    let below = match table.get("below") {
        None => return branch_named(table, "below", "", branches).map(Parent::Branch),
        Some(value) => match value.get_ref().as_str() {
            Some(dn) => return branch_named(table, "below", dn, branches).map(Parent::Branch),
            None => Table::of(table.document, "below", value)?,
        },
    };
    below.only(&["kind", "pick", "under", "depth"])?;
    let name = below.required("kind")?;
    let pick = match below.text("pick")? {
        None => Pick::Each,
        Some(text) => {
            tags::pick(text).ok_or_else(|| below.wrong("pick", "write each, uniform, normal or zipf:EXPONENT"))?
        }
    };
    if name != own {
        if let Some(key) = ["under", "depth"].into_iter().find(|key| below.get(key).is_some()) {
            return Err(below.wrong(key, "only for a kind below itself"));
        }
        return Ok(Parent::Kind { name: name.to_owned(), pick });
    }
    let branch = branch_named(&below, "under", below.text("under")?.unwrap_or_default(), branches)?;
    let depth = below.number("depth")?.and_then(|depth| u32::try_from(depth).ok());
    let levels = depth.ok_or_else(|| below.wrong("depth", "depth is missing: how many levels"))?;
    Ok(Parent::Itself { branch, levels, pick })
}

fn branch_named(table: &Table<'_, '_>, key: &str, dn: &str, branches: &[Branch]) -> Result<usize, Problem> {
    branches.iter().position(|branch| branch.dn == dn).ok_or_else(|| {
        let known = branches.iter().map(|branch| branch.dn.as_str()).filter(|dn| !dn.is_empty());
        let hint = suggestion(dn, known);
        table.wrong(key, format!("{dn:?} is not one of the branches{hint}"))
    })
}

/// Reads the texts of one kind or branch. The fields have everything to which the texts may refer.
struct TextReader<'r> {
    lists: &'r Lists,
    learned: &'r Learned,
    kinds: &'r [KindFacts],
    values: Slots,
}

impl TextReader<'_> {
    fn values(&mut self, table: &Table<'_, '_>) -> Result<Vec<Named>, Problem> {
        let Some(table) = table.table("values")? else { return Ok(Vec::new()) };
        let mut values = Vec::new();
        for (key, value) in bounded(&table, "values", table.entries.iter().collect())? {
            let name: &str = key.get_ref();
            let wrong = |reason: String| table.document.wrong(key.span().start, reason);
            if tags::is_tag(name) {
                return Err(wrong(format!("{name} is the name of a tag; choose another")));
            }
            let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(wrong(format!("{name:?}: a name has letters, digits, - and _")));
            }
            let item = self.item(&table, name, value)?;
            if item.count.is_some() {
                return Err(table.wrong(name, "a value that is drawn once has no count"));
            }
            let facts = SlotFacts { slot: values.len(), ..SlotFacts::default() };
            self.values.insert(name.to_owned(), facts);
            values.push(Named { name: name.to_owned(), item });
        }
        Ok(values)
    }

    fn attributes(&self, table: &Table<'_, '_>) -> Result<Vec<Attribute>, Problem> {
        let missing = || table.wrong("attributes", "attributes are missing");
        let table = table.table("attributes")?.ok_or_else(missing)?;
        let entries = bounded(&table, "attributes", table.entries.iter().collect())?;
        let attribute = |(key, value): (&Spanned<_>, &Value<'_>)| {
            let name: &str = AsRef::<str>::as_ref(key.get_ref());
            let items = listed(value);
            if items.len() > MOST_TEXTS {
                let reason = format!("{name}: more than {MOST_TEXTS} texts; count makes more values");
                return Err(table.document.wrong(value.span().start, reason));
            }
            let items = items.into_iter().map(|value| self.item(&table, name, value));
            Ok(Attribute {
                spot: table.document.spot(key.span().start),
                description: name.to_owned(),
                items: items.collect::<Result<_, _>>()?,
            })
        };
        entries.into_iter().map(attribute).collect()
    }

    /// Reads an item: a text, or a table with the text, its chance, its conditions and its count.
    fn item(&self, table: &Table<'_, '_>, name: &str, value: &Value<'_>) -> Result<Item, Problem> {
        let (document, at) = (table.document, value.span().start);
        if let DeValue::String(text) = value.get_ref() {
            return Ok(Item::always(document.spot(at), self.text(table, value, text)?));
        }
        let Ok(table) = Table::of(document, name, value) else {
            let reason = "must be a text in quotes, a table with one, or a list of these";
            return Err(document.wrong(at, format!("{name}: {reason}")));
        };
        table.only(&["text", "chance", "when", "unless", "count"])?;
        let text = table.required("text")?;
        let mut conditions = Vec::new();
        for (key, unless) in [("when", false), ("unless", true)] {
            for value in table.all(key) {
                conditions.push(condition(&table, key, unless, value)?);
            }
        }
        Ok(Item {
            spot: document.spot(at),
            text: self.text(&table, table.get("text").unwrap_or(value), text)?,
            chance: table.share("chance")?.unwrap_or(1.0),
            conditions,
            count: count_of_values(&table)?,
        })
    }

    fn text(&self, table: &Table<'_, '_>, value: &Value<'_>, text: &str) -> Result<Text, Problem> {
        let parsed = tags::parse(text, &self.values, |tag| self.check(tag));
        parsed.map_err(|wrong| table.document.wrong_within(&value.span(), text, wrong))
    }

    /// Checks a tag as far as that is possible without the numbers of entries, so that the error has the location of
    /// the tag.
    fn check(&self, tag: &Tag) -> Result<(), String> {
        let scope = Scope {
            stream: Stream::new(0, &[]),
            suffix: "",
            lists: self.lists,
            learned: self.learned,
            slots: &self.values,
            kinds: self.kinds,
            kind: None,
            in_shape: false,
        };
        compile(tag, &scope).map(|_| ())
    }
}

fn condition(table: &Table<'_, '_>, key: &str, unless: bool, value: &Value<'_>) -> Result<Condition, Problem> {
    let Some(text) = value.get_ref().as_str() else {
        return Err(table.wrong(key, "must be a name, or NAME=TEXT, or a list of these"));
    };
    let (name, equals) = match text.split_once('=') {
        Some((name, text)) => (name.trim(), Some(text.trim().as_bytes().to_vec())),
        None => (text.trim(), None),
    };
    Ok(Condition { name: name.to_owned(), equals, unless })
}

fn count_of_values(table: &Table<'_, '_>) -> Result<Option<crate::distribution::Distribution>, Problem> {
    let text = match table.get("count").map(Spanned::get_ref) {
        None => return Ok(None),
        Some(DeValue::String(text)) => text.to_string(),
        Some(value) => integer(value).map(|number| number.to_string()).unwrap_or_default(),
    };
    tags::distribution(&text).map(Some).map_err(|reason| table.wrong("count", reason))
}
