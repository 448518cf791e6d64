//! The compiled values and attributes of an entry.

use rustc_hash::FxHashSet;

use crate::distribution::Sampler;
use crate::draw::Stream;
use crate::permute::Permutation;
use crate::tags::{CompiledTag, EntryContext, Slot};

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
    /// Whether an entry could have two equal values of the attribute.
    pub may_repeat: bool,
    /// The lines of the attribute, if they are the same in every entry.
    pub constant: Option<Vec<u8>>,
}

#[derive(Debug)]
pub struct Item {
    pub gate: Presence,
    /// The attribute description, `: `, and the literal text at the beginning of the value.
    pub lead: Vec<u8>,
    /// The rest of the value.
    pub text: Text,
    pub count: Option<Count>,
}

/// The number of values of an item.
#[derive(Debug)]
pub struct Count {
    pub stream: Stream,
    pub drawer: Sampler,
    /// If set, spreads the draws evenly over all entries of the kind, so that each number occurs as often as its
    /// probability says, even if it is rare.
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

/// Decides whether a value is present: by chance, and by conditions that must all hold.
#[derive(Debug, Default)]
pub struct Presence {
    /// The bits of the stream must be below this number.
    pub chance: Option<(Stream, u64)>,
    pub conditions: Vec<PresenceCondition>,
}

#[derive(Debug)]
pub enum PresenceCondition {
    /// The slot must have a value, which must equal `equals` if that is set. `unless` negates the condition.
    Slot { slot: usize, equals: Option<Vec<u8>>, unless: bool },
    /// The attribute with this index, which is earlier in the entry, must be present. `unless` negates the condition.
    Attribute { attribute: usize, unless: bool },
}

/// A compiled text.
#[derive(Debug, Default)]
pub struct Text {
    pub steps: Vec<Step>,
    /// Maximum length in bytes.
    pub most: u64,
    /// Whether the text has only characters from ` ` to `~`.
    pub printable: bool,
}

#[derive(Debug)]
pub enum Step {
    Literal(Box<[u8]>),
    Slot(usize),
    Tag(Stream, CompiledTag),
}

impl Body {
    /// Draws the value of a slot. The value may refer to values before it in `slots`; `at.slots` is ignored.
    pub fn fill(&self, slot: usize, at: EntryContext<'_>, slots: &mut [Slot]) {
        let value = &self.slots[slot];
        let mut text = std::mem::take(&mut slots[slot].text);
        text.clear();
        let mut at = EntryContext { slots, ..at };
        let is_present = value.gate.is_open(&at, &[]);
        if is_present {
            value.text.write(&mut at, &mut text);
        }
        slots[slot] = Slot { text, is_present };
    }
}

impl Attribute {
    pub fn new(description: &str, items: Vec<Item>) -> Self {
        let (head, may_repeat) = (format!("{description}: ").into_bytes(), may_repeat(&items));
        let mut attribute = Self { description: description.to_owned(), head, items, may_repeat, constant: None };
        for item in &mut attribute.items {
            item.lead.clone_from(&attribute.head);
            if let Some(Step::Literal(bytes)) = item.text.steps.first() {
                item.lead.extend_from_slice(bytes);
                item.text.steps.remove(0);
            }
        }
        attribute.constant = attribute.constant_lines();
        attribute
    }

    fn constant_lines(&self) -> Option<Vec<u8>> {
        let (mut lines, mut values) = (Vec::new(), FxHashSet::default());
        for item in &self.items {
            let is_constant = item.text.steps.is_empty() && item.count.is_none();
            if !is_constant || item.gate.chance.is_some() || !item.gate.conditions.is_empty() {
                return None;
            }
            let value = &item.lead[self.head.len()..];
            if !value.is_empty() && values.insert(value.to_ascii_lowercase()) {
                ldif::write::line(&mut lines, self.description.as_bytes(), value);
            }
        }
        Some(lines)
    }

    /// Makes the first value of the attribute equal to the value of the slot, which the RDN has too.
    pub fn name_by(&mut self, slot: usize) {
        if let Some(item) = self.items.first_mut() {
            item.lead.clone_from(&self.head);
            item.text.steps = vec![Step::Slot(slot)];
        }
        self.constant = None;
    }
}

fn may_repeat(items: &[Item]) -> bool {
    let mut texts = FxHashSet::default();
    let mut is_new = |text: Vec<u8>| texts.insert(text.to_ascii_lowercase());
    let all_differ = items.len() <= 1 || items.iter().all(|item| item.text.constant().is_some_and(&mut is_new));
    !all_differ || items.iter().any(|item| item.count.is_some())
}

impl Presence {
    /// `attributes` says for each earlier attribute of the entry whether it is present.
    pub fn is_open(&self, at: &EntryContext<'_>, attributes: &[bool]) -> bool {
        self.conditions.iter().all(|condition| condition.holds(at, attributes))
            && self.chance.is_none_or(|(stream, limit)| at.bits(stream) < limit)
    }
}

impl PresenceCondition {
    fn holds(&self, at: &EntryContext<'_>, attributes: &[bool]) -> bool {
        match self {
            Self::Slot { slot, equals, unless } => {
                let value = &at.slots[*slot];
                let equal = equals.as_ref().is_none_or(|text| *text == value.text);
                (value.is_present && equal) != *unless
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
    fn constant(&self) -> Option<Vec<u8>> {
        let literals = self.steps.iter().map(|step| match step {
            Step::Literal(bytes) => Some(&**bytes),
            Step::Slot(_) | Step::Tag(..) => None,
        });
        Some(literals.collect::<Option<Vec<&[u8]>>>()?.concat())
    }
}
