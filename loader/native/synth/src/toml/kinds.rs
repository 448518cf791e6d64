//! Branches and kinds: tables of the template become parts of the model.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_spanned::Spanned;
use toml::de::DeValue;

use super::document::{Table, Value, integer, listed};
use super::{tags, text};
use crate::draw::Stream;
use crate::list::List;
use crate::model::{
    Attribute, Branch, Condition, Count, Item, Kind, Named, Parent, Pick, Tag, Text,
};
use crate::problem::{Problem, suggestion};
use crate::tags::{KindFacts, Scope, SlotFacts, compile};
use crate::vocabulary::Learned;

type Lists = Vec<Arc<List>>;

/// Branches, kinds, and values or attributes of one, at most.
const MOST: usize = 4_000;
/// Texts of one attribute, at most.
const ITEMS: usize = 10_000;

/// The suffix first, unless it is described.
pub fn branches(root: &Table<'_, '_>, lists: &Lists) -> Result<Vec<Branch>, Problem> {
    let mut found = Vec::new();
    let values = bounded(root, "branches", root.all("branches"))?;
    for value in values {
        found.push(match value.get_ref() {
            DeValue::String(dn) => Branch {
                spot: root.document.spot(value.span().start),
                dn: dn.to_string(),
                attributes: Vec::new(),
            },
            _ => branch(&Table::of(root.document, "a branch", value)?, lists)?,
        });
    }
    if found.first().is_none_or(|first| !first.dn.is_empty()) {
        let spot = root
            .get("suffix")
            .map_or_else(|| root.spot(), |value| root.document.spot(value.span().start));
        let suffix = Branch { spot, dn: String::new(), attributes: Vec::new() };
        found.insert(0, suffix);
    }
    Ok(found)
}

fn branch(table: &Table<'_, '_>, lists: &Lists) -> Result<Branch, Problem> {
    table.only(&["dn", "attributes"])?;
    let reading = Reading { lists, learned: &NOTHING, kinds: &[], values: HashMap::new() };
    Ok(Branch {
        spot: table.spot(),
        dn: table.required("dn")?.to_owned(),
        attributes: reading.attributes(table)?,
    })
}

pub fn read(
    root: &Table<'_, '_>,
    branches: &[Branch],
    lists: &Lists,
    learned: &Learned,
) -> Result<Vec<Kind>, Problem> {
    let mut tables = Vec::new();
    for value in bounded(root, "kinds", root.all("kinds"))? {
        tables.push(Table::of(root.document, "a kind", value)?);
    }
    if tables.is_empty() {
        return Err(root.wrong("kinds", "there is no kind: write [[kinds]]"));
    }
    let names = tables.iter().map(|table| table.required("name"));
    let names: Vec<&str> = names.collect::<Result<_, _>>()?;
    let facts = |name: &&str| KindFacts { name: (*name).to_owned(), count: 1, dn: 0 };
    let facts: Vec<KindFacts> = names.iter().map(facts).collect();
    tables.iter().map(|table| kind(table, branches, (lists, learned), &facts)).collect()
}

fn bounded<T>(root: &Table<'_, '_>, key: &str, found: Vec<T>) -> Result<Vec<T>, Problem> {
    if found.len() > MOST { Err(root.wrong(key, format!("more than {MOST}"))) } else { Ok(found) }
}

fn kind(
    table: &Table<'_, '_>,
    branches: &[Branch],
    (lists, learned): (&Lists, &Learned),
    kinds: &[KindFacts],
) -> Result<Kind, Problem> {
    table.only(&["name", "count", "below", "rdn", "structural", "values", "attributes"])?;
    let name = table.required("name")?;
    let mut reading = Reading { lists, learned, kinds, values: HashMap::new() };
    let values = reading.values(table)?;
    let rdn = table.all("rdn").into_iter().map(|value| match value.get_ref() {
        DeValue::String(name) => Ok(name.to_string()),
        _ => Err(table.wrong("rdn", "must be the name of an attribute, or a list of such")),
    });
    let rdn: Vec<String> = rdn.collect::<Result<_, _>>()?;
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
        attributes: reading.attributes(table)?,
    })
}

fn count(table: &Table<'_, '_>) -> Result<Count, Problem> {
    let said = match table.get("count").map(Spanned::get_ref) {
        None => return Ok(Count::Asked),
        Some(DeValue::String(text)) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                [ones, "per", of] => share(ones, of),
                [each, "each"] => each.parse().ok().map(Count::Each),
                _ => None,
            }
        }
        Some(value) => integer(value).map(Count::Fixed),
    };
    said.ok_or_else(|| {
        table.wrong(
            "count",
            "write a number, \"1 per 200\" of the kind without a count, or \"3 each\"",
        )
    })
}

fn share(ones: &str, of: &str) -> Option<Count> {
    let of = of.parse().ok().filter(|of| *of > 0)?;
    Some(Count::Share { ones: ones.parse().ok()?, of })
}

fn parent(table: &Table<'_, '_>, own: &str, branches: &[Branch]) -> Result<Parent, Problem> {
    let below = match table.get("below").map(Spanned::get_ref) {
        None => return branch_named(table, "below", "", branches).map(Parent::Branch),
        Some(DeValue::String(dn)) => {
            return branch_named(table, "below", dn, branches).map(Parent::Branch);
        }
        Some(_) => table.table("below")?,
    };
    let Some(below) = below else { return Ok(Parent::Branch(0)) };
    below.only(&["kind", "pick", "under", "depth"])?;
    let name = below.required("kind")?;
    let pick = match below.text("pick")? {
        None => Pick::Each,
        Some(text) => tags::pick(text)
            .ok_or_else(|| below.wrong("pick", "write each, uniform, normal or zipf:EXPONENT"))?,
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

fn branch_named(
    table: &Table<'_, '_>,
    key: &str,
    dn: &str,
    branches: &[Branch],
) -> Result<usize, Problem> {
    branches.iter().position(|branch| branch.dn == dn).ok_or_else(|| {
        let known = branches.iter().map(|branch| branch.dn.as_str()).filter(|dn| !dn.is_empty());
        let hint = suggestion(dn, known);
        table.wrong(key, format!("{dn:?} is not one of the branches{hint}"))
    })
}

/// What texts of one kind may speak of.
struct Reading<'r> {
    lists: &'r Lists,
    learned: &'r Learned,
    kinds: &'r [KindFacts],
    /// Values so far.
    values: tags::Values,
}

impl Reading<'_> {
    fn values(&mut self, table: &Table<'_, '_>) -> Result<Vec<Named>, Problem> {
        let Some(values) = table.table("values")? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (key, value) in bounded(&values, "values", values.entries.iter().collect())? {
            let name: &str = key.get_ref();
            if tags::NAMES.contains(&name) {
                let reason = format!("{name} is the name of a tag; choose another");
                return Err(values.document.wrong(key.span().start, reason));
            }
            let is_word =
                |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(is_word) {
                let reason = format!("{name:?}: a name has letters, digits, - and _");
                return Err(values.document.wrong(key.span().start, reason));
            }
            let item = self.item(&values, name, value)?;
            if item.count.is_some() {
                return Err(values.wrong(name, "a value that is drawn once has no count"));
            }
            let facts = SlotFacts { at: found.len(), most: 0, printable: false };
            self.values.insert(name.to_owned(), facts);
            found.push(Named { name: name.to_owned(), item });
        }
        Ok(found)
    }

    fn attributes(&self, table: &Table<'_, '_>) -> Result<Vec<Attribute>, Problem> {
        let attributes = table.table("attributes")?;
        let attributes =
            attributes.ok_or_else(|| table.wrong("attributes", "attributes are missing"))?;
        let mut found = Vec::new();
        for (key, value) in bounded(&attributes, "attributes", attributes.entries.iter().collect())?
        {
            let name: &str = key.get_ref();
            let items = listed(value);
            if items.len() > ITEMS {
                let reason = format!("{name}: more than {ITEMS} texts; count makes more values");
                return Err(attributes.document.wrong(value.span().start, reason));
            }
            let items = items.into_iter().map(|value| self.item(&attributes, name, value));
            found.push(Attribute {
                spot: attributes.document.spot(key.span().start),
                description: name.to_owned(),
                items: items.collect::<Result<_, _>>()?,
            });
        }
        Ok(found)
    }

    /// A text, or a table that says when it is there, and how often.
    fn item(&self, table: &Table<'_, '_>, name: &str, value: &Value<'_>) -> Result<Item, Problem> {
        let document = table.document;
        let spot = document.spot(value.span().start);
        if let DeValue::String(text) = value.get_ref() {
            return Ok(Item::always(spot, self.text(table, value, text)?));
        }
        let DeValue::Table(_) = value.get_ref() else {
            let reason =
                format!("{name}: must be a text in quotes, a table with one, or a list of these");
            return Err(document.wrong(value.span().start, reason));
        };
        let table = Table::of(document, name, value)?;
        table.only(&["text", "chance", "when", "unless", "count"])?;
        let text = table.required("text")?;
        let Some(said) = table.get("text") else { return Err(table.wrong("text", "is missing")) };
        let mut conditions = Vec::new();
        for (key, unless) in [("when", false), ("unless", true)] {
            for value in table.all(key) {
                conditions.push(condition(&table, key, unless, value)?);
            }
        }
        Ok(Item {
            spot,
            text: self.text(&table, said, text)?,
            chance: table.share("chance")?.unwrap_or(1.0),
            conditions,
            count: count_of_values(&table)?,
        })
    }

    fn text(&self, table: &Table<'_, '_>, value: &Value<'_>, text: &str) -> Result<Text, Problem> {
        let parsed = text::parse(text, &self.values, |tag| self.check(tag));
        parsed.map_err(|wrong| {
            let at = table.document.within(&value.span(), text, wrong.at);
            table.document.wrong(at, wrong.message)
        })
    }

    /// Whatever can be said of a tag before the numbers of entries are known, so that it is told at its own place.
    fn check(&self, tag: &Tag) -> Result<(), String> {
        let scope = Scope {
            stream: *NOWHERE,
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

static NOTHING: LazyLock<Learned> = LazyLock::new(Learned::default);
static NOWHERE: LazyLock<Stream> = LazyLock::new(|| Stream::new(0, &[]));

fn condition(
    table: &Table<'_, '_>,
    key: &str,
    unless: bool,
    value: &Value<'_>,
) -> Result<Condition, Problem> {
    let DeValue::String(text) = value.get_ref() else {
        return Err(table.wrong(key, "must be a name, or NAME=TEXT, or a list of such"));
    };
    let (name, equals) = match text.split_once('=') {
        Some((name, text)) => (name.trim(), Some(text.trim().as_bytes().to_vec())),
        None => (text.trim(), None),
    };
    Ok(Condition { name: name.to_owned(), equals, unless })
}

fn count_of_values(
    table: &Table<'_, '_>,
) -> Result<Option<crate::distribution::Distribution>, Problem> {
    let text = match table.get("count").map(Spanned::get_ref) {
        None => return Ok(None),
        Some(DeValue::String(text)) => text.to_string(),
        Some(value) => integer(value).map(|number| number.to_string()).unwrap_or_default(),
    };
    tags::distribution(&text).map(Some).map_err(|reason| table.wrong("count", reason))
}
