//! The values and attributes of an entry, compiled for writing LDIF.

use rustc_hash::FxHashSet;

use crate::distribution::Sampler;
use crate::draw::Stream;
use crate::permute::Permutation;
use crate::tags::{EntryContext, Made, Slot};

#[derive(Debug, Default)]
pub struct Body {
    pub slots: Vec<SlotValue>,
    pub attributes: Vec<Attribute>,
}

/// A value that is drawn once per entry.
#[derive(Debug)]
pub struct SlotValue {
    pub gate: Presence,
    pub text: Text,
}

#[derive(Debug)]
pub struct Attribute {
    pub description: String,
    /// The attribute description followed by `: `.
    pub head: Vec<u8>,
    pub items: Vec<Item>,
    /// Whether two values of the attribute could be equal.
    pub may_repeat: bool,
    /// All lines of the attribute, if they are the same in every entry.
    pub constant: Option<Vec<u8>>,
}

#[derive(Debug)]
pub struct Item {
    pub gate: Presence,
    /// The attribute description, `: `, and the literal text that begins the value.
    pub lead: Vec<u8>,
    /// The value after that literal text.
    pub text: Text,
    pub count: Option<Count>,
}

/// The number of values of an item.
#[derive(Debug)]
pub struct Count {
    pub stream: Stream,
    pub drawer: Sampler,
    /// If set, spreads the draws evenly over all entries of the kind, so that rare large numbers occur exactly as often
    /// as their probability says.
    pub spread: Option<Permutation>,
}

impl Count {
    pub fn draw(&self, index: u64) -> u64 {
        let bits = self.stream.at(index);
        self.drawer.draw(match self.spread {
            None => bits,
            Some(spread) => spread.bits(self.stream, index, bits),
        })
    }
}

/// Decides whether a value is present.
#[derive(Debug, Default)]
pub struct Presence {
    /// The value is present if the random bits are below this number.
    pub chance: Option<(Stream, u64)>,
    pub checks: Vec<PresenceCondition>,
}

#[derive(Debug)]
pub enum PresenceCondition {
    Slot {
        slot: usize,
        equals: Option<Vec<u8>>,
        unless: bool,
    },
    /// Index of an earlier attribute of the same entry.
    Attribute {
        attribute: usize,
        unless: bool,
    },
}

/// A compiled text.
#[derive(Debug, Default)]
pub struct Text {
    pub steps: Vec<Step>,
    pub most: u64,
    /// Whether the text has only characters from ` ` to `~`.
    pub printable: bool,
}

#[derive(Debug)]
pub enum Step {
    Literal(Box<[u8]>),
    Slot(usize),
    Tag(Stream, Made),
}

impl Body {
    /// Draws the value of one slot from those before it in `slots`; `at.slots` is ignored.
    pub fn fill(&self, slot: usize, at: EntryContext<'_>, slots: &mut [Slot]) {
        let drawn = &self.slots[slot];
        let mut text = std::mem::take(&mut slots[slot].text);
        text.clear();
        let mut at = EntryContext { slots, ..at };
        let there = drawn.gate.is_open(&at, &[]);
        if there {
            drawn.text.write(&mut at, &mut text);
        }
        slots[slot] = Slot { text, there };
    }
}

impl Attribute {
    pub fn new(description: &str, items: Vec<Item>, may_repeat: bool) -> Self {
        let head = format!("{description}: ").into_bytes();
        let mut attribute = Self { description: description.to_owned(), head, items, may_repeat, constant: None };
        for item in &mut attribute.items {
            item.lead.clone_from(&attribute.head);
            if let Some(Step::Literal(bytes)) = item.text.steps.first() {
                item.lead.extend_from_slice(bytes);
                item.text.steps.remove(0);
            }
        }
        attribute.constant = attribute.lines();
        attribute
    }

    /// Returns the attribute's lines, if they are the same in every entry.
    fn lines(&self) -> Option<Vec<u8>> {
        let (mut lines, mut values) = (Vec::new(), FxHashSet::default());
        for item in &self.items {
            let is_bound = item.text.steps.is_empty() && item.count.is_none();
            if !is_bound || item.gate.chance.is_some() || !item.gate.checks.is_empty() {
                return None;
            }
            let value = &item.lead[self.head.len()..];
            if !value.is_empty() && values.insert(value.to_ascii_lowercase()) {
                ldif::write::line(&mut lines, self.description.as_bytes(), value);
            }
        }
        Some(lines)
    }

    /// Makes the slot the source of the first value, so that the attribute equals the RDN.
    pub fn name_by(&mut self, slot: usize) {
        if let Some(item) = self.items.first_mut() {
            item.lead.clone_from(&self.head);
            item.text.steps = vec![Step::Slot(slot)];
        }
        self.constant = None;
    }
}

impl Presence {
    pub fn is_open(&self, at: &EntryContext<'_>, attributes: &[bool]) -> bool {
        self.checks.iter().all(|check| check.holds(at, attributes))
            && self.chance.is_none_or(|(stream, limit)| at.bits(stream) < limit)
    }
}

impl PresenceCondition {
    fn holds(&self, at: &EntryContext<'_>, attributes: &[bool]) -> bool {
        match self {
            Self::Slot { slot, equals, unless } => {
                let found = &at.slots[*slot];
                let equal = equals.as_ref().is_none_or(|text| *text == found.text);
                (found.there && equal) != *unless
            }
            Self::Attribute { attribute, unless } => attributes.get(*attribute).copied().unwrap_or(false) != *unless,
        }
    }
}

impl Text {
    pub fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        for step in &self.steps {
            match step {
                Step::Literal(bytes) => out.extend_from_slice(bytes),
                Step::Slot(slot) => out.extend_from_slice(&at.slots[*slot].text),
                Step::Tag(stream, tag) => tag.write(*stream, at, out),
            }
        }
    }

    /// Returns the text, if it is the same in every entry.
    pub fn constant(&self) -> Option<Vec<u8>> {
        let literals = self.steps.iter().map(|step| match step {
            Step::Literal(bytes) => Some(&**bytes),
            Step::Slot(_) | Step::Tag(..) => None,
        });
        Some(literals.collect::<Option<Vec<&[u8]>>>()?.concat())
    }
}
