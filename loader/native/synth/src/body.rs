//! The values and attributes of an entry, ready to be written as LDIF.

use crate::distribution::Drawer;
use crate::draw::Stream;
use crate::tags::{At, Render, Slot};

#[derive(Debug, Default)]
pub struct Body {
    pub slots: Vec<Drawn>,
    pub attributes: Vec<Attribute>,
}

/// A value drawn once an entry.
#[derive(Debug)]
pub struct Drawn {
    pub gate: Gate,
    pub text: Text,
}

#[derive(Debug)]
pub struct Attribute {
    pub description: String,
    /// The description with `: ` behind it.
    pub head: Vec<u8>,
    pub items: Vec<Item>,
    /// Whether two values could be the same.
    pub may_repeat: bool,
}

#[derive(Debug)]
pub struct Item {
    pub gate: Gate,
    pub text: Text,
    pub count: Option<(Stream, Drawer)>,
}

/// Whether something is there.
#[derive(Debug, Default)]
pub struct Gate {
    /// There when the bits are below.
    pub chance: Option<(Stream, u64)>,
    pub checks: Vec<Check>,
}

#[derive(Debug)]
pub enum Check {
    Slot {
        slot: usize,
        equals: Option<Vec<u8>>,
        unless: bool,
    },
    /// A place among the attributes of the entry, before this one.
    Attribute {
        attribute: usize,
        unless: bool,
    },
}

/// A text, ready to be written.
#[derive(Debug, Default)]
pub struct Text {
    pub steps: Vec<Step>,
    pub most: u64,
    /// All of it is ` ` to `~`.
    pub printable: bool,
}

#[derive(Debug)]
pub enum Step {
    Literal(Box<[u8]>),
    Slot(usize),
    Tag(Box<dyn Render>),
}

impl Body {
    /// Draws one value; `at.slots` is not looked at, for those before it stand in `slots`.
    pub fn fill(&self, slot: usize, at: At<'_>, slots: &mut [Slot]) {
        let drawn = &self.slots[slot];
        let mut text = std::mem::take(&mut slots[slot].text);
        text.clear();
        let mut at = At { slots, ..at };
        let there = drawn.gate.is_open(&at, &[]);
        if there {
            drawn.text.write(&mut at, &mut text);
        }
        slots[slot] = Slot { text, there };
    }
}

impl Gate {
    pub fn is_open(&self, at: &At<'_>, attributes: &[bool]) -> bool {
        self.checks.iter().all(|check| check.holds(at, attributes))
            && self.chance.is_none_or(|(stream, limit)| at.bits(stream) < limit)
    }
}

impl Check {
    fn holds(&self, at: &At<'_>, attributes: &[bool]) -> bool {
        match self {
            Self::Slot { slot, equals, unless } => {
                let found = &at.slots[*slot];
                let equal = equals.as_ref().is_none_or(|text| *text == found.text);
                (found.there && equal) != *unless
            }
            Self::Attribute { attribute, unless } => {
                attributes.get(*attribute).copied().unwrap_or(false) != *unless
            }
        }
    }
}

impl Text {
    pub fn write(&self, at: &mut At<'_>, out: &mut Vec<u8>) {
        for step in &self.steps {
            match step {
                Step::Literal(bytes) => out.extend_from_slice(bytes),
                Step::Slot(slot) => out.extend_from_slice(&at.slots[*slot].text),
                Step::Tag(tag) => tag.write(at, out),
            }
        }
    }

    /// The same in every entry.
    pub fn is_constant(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Literal(_)))
    }
}
