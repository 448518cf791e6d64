//! An entry in memory, changed as slapd's modify operation changes it (`servers/slapd/mods.c`).

use std::ops::{Deref, Range};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use schema::{AttributeId, Description, Schema, XOrdered};
use smallvec::SmallVec;

use crate::operation::{Change, Kind};

/// An attribute with more values than this gets a hash table of normal forms, in which values are looked up.
const MOST_SCANNED: usize = 16;

#[derive(Debug, Default)]
pub struct Entry {
    attributes: Vec<(Rc<Description>, Values)>,
}

/// The bytes of an attribute value.
#[derive(Debug, Clone)]
pub struct Value {
    /// The bytes of the whole entry in id2e, which all values of the entry share; for a new value, only its own bytes.
    bytes: Rc<[u8]>,
    range: Range<u32>,
}

impl Value {
    /// Returns the value `part`, which must be a slice of `bytes`. `bytes` must be shorter than 2^32 bytes.
    pub fn part(bytes: &Rc<[u8]>, part: &[u8]) -> Self {
        let start = part.as_ptr().addr() - bytes.as_ptr().addr();
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let range = position(start)..position(start + part.len());
        Self { bytes: Rc::clone(bytes), range }
    }
}

impl<T: Into<Rc<[u8]>>> From<T> for Value {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        Self::part(&bytes, &bytes)
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.range.start as usize..self.range.end as usize]
    }
}

impl Entry {
    pub fn push(&mut self, description: &Rc<Description>, values: impl Iterator<Item = Value>) {
        let list: SmallVec<_> = values.map(Some).collect();
        let live = list.len();
        self.attributes.push((Rc::clone(description), Values { list, live, positions: None }));
    }

    /// Calls `see` with each attribute description and value.
    pub fn each<'a>(&'a self, mut see: impl FnMut(&'a [u8], &'a [u8])) {
        for (description, values) in &self.attributes {
            values.live().for_each(|value| see(description.text.as_bytes(), value));
        }
    }

    /// Returns the first value of an attribute without options.
    pub fn first(&self, name: &str) -> Option<&[u8]> {
        let is_named = |(description, _): &&(Rc<Description>, Values)| description.text == name;
        self.attributes.iter().find(is_named)?.1.live().next()
    }

    fn position(&self, description: &Description) -> Option<usize> {
        self.attributes.iter().position(|(own, _)| own.text == description.text)
    }

    fn values(&mut self, description: &Description) -> &mut Values {
        let at = self.position(description).unwrap_or_else(|| {
            self.attributes.push((Rc::new(description.clone()), Values::default()));
            self.attributes.len() - 1
        });
        &mut self.attributes[at].1
    }

    fn remove(&mut self, description: &Description) -> bool {
        self.position(description).map(|at| self.attributes.remove(at)).is_some()
    }

    /// Applies a change of one attribute. Returns an error with the reason if the change does not fit the entry. If
    /// `soft`, values to add may exist, and values to delete may be missing. If `is_new`, the entry is being added, and
    /// X-ORDERED values stay as sent.
    pub fn apply(&mut self, schema: &Schema, change: &Change, soft: bool, is_new: bool) -> Result<(), String> {
        let description = schema.describe(&change.description).map_err(|error| error.to_string())?;
        let ordered = schema.get(description.attribute).ordered == Some(XOrdered::Values) && !is_new;
        let outcome = match change.kind {
            Kind::IfAbsent if self.position(&description).is_some() => Ok(()),
            Kind::Replace => {
                self.drop_below_glue(schema, &description);
                self.remove(&description);
                self.add(schema, &description, &change.values, ordered, soft)
            }
            Kind::Add | Kind::IfAbsent => self.add(schema, &description, &change.values, ordered, soft),
            Kind::Delete if change.values.is_empty() => {
                let existed = self.remove(&description);
                if existed || soft { Ok(()) } else { Err("the attribute to delete is missing") }
            }
            Kind::Delete => self.delete(schema, &description, &change.values, ordered, soft),
            Kind::Increment => self.increment(&description, &change.values, soft),
        };
        outcome.map_err(|reason| format!("{reason}: {}", description.text))
    }

    /// Replacing the structural class of a glue entry first removes its user attributes (`mdb_modify_internal`).
    fn drop_below_glue(&mut self, schema: &Schema, description: &Description) {
        let is_glue = || self.first("structuralObjectClass") == Some(b"glue");
        if description.text == "structuralObjectClass" && is_glue() {
            self.attributes.retain(|(own, _)| schema.get(own.attribute).operational());
        }
    }

    fn add(
        &mut self,
        schema: &Schema,
        description: &Description,
        added: &[Box<[u8]>],
        ordered: bool,
        soft: bool,
    ) -> Result<(), &'static str> {
        if added.is_empty() {
            return Ok(());
        }
        let (id, values) = (description.attribute, self.values(description));
        let mut absent = Vec::with_capacity(added.len());
        for value in added {
            if values.find(schema, id, value).is_none() {
                absent.push(value);
            } else if !soft {
                return Err("the value to add exists");
            }
        }
        if ordered {
            values.sort();
        }
        for value in absent {
            let new = Value::from(&**value);
            match index_of(value).filter(|at| ordered && *at <= values.live) {
                Some(at) => values.insert(at, new),
                None => values.append(schema, id, new),
            }
        }
        if ordered {
            values.renumber();
        }
        Ok(())
    }

    fn delete(
        &mut self,
        schema: &Schema,
        description: &Description,
        deleted: &[Box<[u8]>],
        ordered: bool,
        soft: bool,
    ) -> Result<(), &'static str> {
        let (id, values) = (description.attribute, self.values(description));
        let positions: Vec<_> = deleted.iter().filter_map(|value| values.find(schema, id, value)).collect();
        let missing = positions.len() < deleted.len();
        for at in positions {
            values.remove(schema, id, at); // `{0}` and the value that has this number may both be deleted
        }
        if values.live == 0 {
            self.remove(description);
        } else if ordered && values.sort() {
            values.renumber();
        }
        if missing && !soft { Err("the value to delete is missing") } else { Ok(()) }
    }

    /// Adds an increment to every value. Sums wrap, like the C `long` in slapd.
    fn increment(&mut self, description: &Description, by: &[Box<[u8]>], soft: bool) -> Result<(), &'static str> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.trim().parse::<i64>().ok();
        let step = by.first().and_then(|text| number(text)).ok_or("an increment is no integer")?;
        let Some(at) = self.position(description) else {
            if !soft {
                return Err("the attribute to increment is missing");
            }
            self.push(&Rc::new(description.clone()), std::iter::once(Value::from(step.to_string().into_bytes())));
            return Ok(());
        };
        let values = &mut self.attributes[at].1;
        values.compact();
        for value in values.list.iter_mut().flatten() {
            let sum = number(value).ok_or("a value to increment is no integer")?.wrapping_add(step);
            *value = Value::from(sum.to_string().into_bytes());
        }
        Ok(())
    }
}

/// The values of an attribute in their order. A deleted value leaves an empty slot, so that `positions` stays valid.
#[derive(Debug, Default)]
struct Values {
    list: SmallVec<[Option<Value>; 1]>,
    live: usize,
    /// Maps normal forms to positions in `list`. Built when a list longer than [`MOST_SCANNED`] is searched.
    positions: Option<FxHashMap<Box<[u8]>, usize>>,
}

impl Values {
    fn live(&self) -> impl Iterator<Item = &[u8]> {
        self.list.iter().flatten().map(|value| &**value)
    }

    /// Returns the position of the value that equals `value` by the equality rule.
    fn find(&mut self, schema: &Schema, id: AttributeId, value: &[u8]) -> Option<usize> {
        if schema.get(id).ordered.is_some() {
            return self.find_ordered(schema, id, value);
        }
        let wanted = normal(schema, id, value);
        if self.live <= MOST_SCANNED {
            let is_equal = |own: &Option<Value>| own.as_ref().is_some_and(|own| normal(schema, id, own) == wanted);
            return self.list.iter().position(is_equal);
        }
        let list = &self.list;
        let index = |(at, value): (usize, &Option<Value>)| value.as_ref().map(|value| (normal(schema, id, value), at));
        let positions = self.positions.get_or_insert_with(|| list.iter().enumerate().filter_map(index).collect());
        positions.get(&wanted).copied()
    }

    /// Compares numbers only if both values have one, and nothing else if `value` is only a number
    /// (`ordered_value_match`).
    fn find_ordered(&self, schema: &Schema, id: AttributeId, value: &[u8]) -> Option<usize> {
        let parts = |value| {
            let is_number =
                |number: &&[u8]| !number.is_empty() && number.iter().all(|b| matches!(b, b'0'..=b'9' | b' '));
            let split = split_number(value).filter(|(number, _)| is_number(number));
            split.map_or((None, value), |(number, rest)| (Some(number), rest))
        };
        let (number, rest) = parts(value);
        let wanted = normal(schema, id, rest);
        self.list.iter().position(|own| {
            own.as_deref().is_some_and(|own| {
                let (own_number, own) = parts(own);
                let both = number.zip(own_number);
                let is_only_number = both.is_some() && rest.is_empty();
                both.is_none_or(|(wanted, own)| wanted == own) && (is_only_number || normal(schema, id, own) == wanted)
            })
        })
    }

    fn append(&mut self, schema: &Schema, id: AttributeId, value: Value) {
        if let Some(positions) = &mut self.positions {
            positions.insert(normal(schema, id, &value), self.list.len());
        }
        self.live += 1;
        self.list.push(Some(value));
    }

    fn insert(&mut self, at: usize, value: Value) {
        self.compact();
        self.live += 1;
        self.list.insert(at, Some(value));
    }

    fn remove(&mut self, schema: &Schema, id: AttributeId, at: usize) {
        let value = self.list[at].take();
        self.live -= usize::from(value.is_some());
        if let (Some(positions), Some(value)) = (&mut self.positions, value) {
            positions.remove(&normal(schema, id, &value));
        }
    }

    fn compact(&mut self) {
        self.list.retain(|value| value.is_some());
        self.positions = None;
    }

    /// Sorts the values of an X-ORDERED attribute by their numbers, unless a value has none. Returns whether slapd then
    /// numbers them anew after a deletion (`ordered_value_sort`).
    fn sort(&mut self) -> bool {
        self.compact();
        let is_numbered = |value: &Option<Value>| value.as_ref().is_some_and(|value| value.starts_with(b"{"));
        if !self.list.iter().all(is_numbered) {
            return !self.list.iter().any(is_numbered);
        }
        let number = |value: &Option<Value>| value.as_deref().and_then(index_of);
        self.list.sort_by_key(number);
        self.list.first().and_then(number) != Some(0) || self.list.last().and_then(number) != Some(self.live - 1)
    }

    /// Sets the `{n}` of each value of an X-ORDERED attribute to the value's position.
    fn renumber(&mut self) {
        self.compact();
        for (at, value) in self.list.iter_mut().flatten().enumerate() {
            *value = Value::from([format!("{{{at}}}").as_bytes(), unnumbered(value)].concat());
        }
    }
}

/// Returns the normal form of a value. Equal values have the same normal form.
fn normal(schema: &Schema, id: AttributeId, value: &[u8]) -> Box<[u8]> {
    let mut out = Vec::new();
    match schema.normalise(id, value, &mut out) {
        Ok(true) => out.into(),
        _ => value.into(),
    }
}

/// Splits `{n}` from an X-ORDERED value. Returns n, which may be any text, and the rest.
fn split_number(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = value.strip_prefix(b"{")?;
    let end = inner.iter().position(|byte| *byte == b'}')?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// Returns the position that the `{n}` of a value to add names. Reads n as slapd does, with strtol(3) and base 0.
fn index_of(value: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(split_number(value)?.0).ok()?.trim_start();
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => i64::from_str_radix(text, if text.starts_with('0') { 8 } else { 10 }),
    };
    usize::try_from(number.ok()?).ok()
}

fn unnumbered(value: &[u8]) -> &[u8] {
    split_number(value).map_or(value, |(_, rest)| rest)
}
