//! Tags that only this language has, as the model holds them.

use synth::model::Tag;
use synth::tags::{self, Dialect, Render, Scope};

use crate::format::Format;
use crate::order::Order;
use crate::render;

#[derive(Clone, Debug, PartialEq)]
pub enum MakeldifTag {
    /// The first of these values that is there, or so many characters of it; all of it when that is 0.
    Cut {
        names: Vec<String>,
        characters: usize,
    },
    /// Parts of a DN: the first ones, or with a number below 0 the last ones, or with 0 all.
    Path {
        whose: DnOf,
        parts: i32,
        separator: u8,
    },
    /// The lines of a list, one after another.
    Line {
        list: String,
        order: Order,
    },
    Name(PersonName),
    Characters {
        of: String,
        least: usize,
        most: usize,
    },
    Number {
        low: i64,
        high: i64,
        format: Option<Format>,
    },
    /// Consecutive numbers.
    Sequence {
        start: i64,
        order: Order,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnOf {
    Entry,
    Parent,
}

/// A first or a last name. Both are taken from their lists one after another, in such a way that no pair comes twice.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonName {
    pub firsts: String,
    pub lasts: String,
    pub is_last: bool,
    /// Once all pairs were used they are used again, with a number behind the last name. makeldif then numbers a few of
    /// the pairs only, which is enough for its own lists of more than a hundred million.
    pub all_again: bool,
    pub order: Order,
}

impl tags::Own for MakeldifTag {
    fn compile(&self, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
        render::compile(self, scope)
    }

    fn named(&self) -> &[String] {
        match self {
            Self::Cut { names, .. } => names,
            _ => &[],
        }
    }

    /// Names that tell of other names would have no end.
    fn may_name(&self) -> bool {
        !matches!(self, Self::Path { .. })
    }

    fn is_numbering(&self) -> bool {
        matches!(self, Self::Sequence { start, .. } if *start >= 0)
    }
}

impl From<MakeldifTag> for Tag {
    fn from(own: MakeldifTag) -> Self {
        Self::Makeldif(Dialect::new(own))
    }
}
