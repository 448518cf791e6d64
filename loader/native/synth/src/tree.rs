//! A template made ready: which entries there are, in which order, and which lies below which.
//!
//! Entry 0 is the suffix, then come the branches, then kind by kind: a parent has always a smaller number.

use crate::body::Body;
use crate::operational::Clock;
use crate::parent::{Levels, ParentChooser};

#[derive(Debug)]
pub struct Tree {
    pub description: String,
    pub suffix: String,
    /// Of all that decides the bytes but the suffix, the seed and the numbers of entries.
    pub fingerprint: String,
    pub(crate) branches: Vec<Branch>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) clock: Option<Clock>,
    /// Bytes of the largest entry there can be.
    pub(crate) largest: u64,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub dn: Vec<u8>,
    pub body: Body,
    pub structural: Option<String>,
}

#[derive(Debug)]
pub struct Kind {
    pub name: String,
    /// The number of its first entry in the tree.
    pub start: u64,
    /// Its entries.
    pub count: u64,
    pub structural: Option<String>,
    /// Attribute and slot of each part of the RDN.
    pub(crate) rdn: Vec<(Vec<u8>, usize)>,
    /// The slots it takes to know the RDN, in the order in which they are filled.
    pub(crate) naming: Vec<usize>,
    pub(crate) above: ParentRule,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum ParentRule {
    Branch(usize),
    Kind { kind: usize, chooser: ParentChooser },
    Itself { branch: usize, levels: Levels },
}

/// An entry, known by what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRef {
    Branch(usize),
    /// A place in [`Tree::kinds`], and a number in that kind.
    Entry {
        kind: usize,
        index: u64,
    },
}

impl Kind {
    /// Attribute and slot of each part of the RDN; [`Maker::value`](crate::Maker::value) tells what stands in a slot.
    pub fn rdn(&self) -> &[(Vec<u8>, usize)] {
        &self.rdn
    }

    /// Bytes of a slot's longest text.
    pub fn longest(&self, slot: usize) -> u64 {
        self.body.slots[slot].text.most
    }
}

impl Tree {
    /// All, the suffix and the branches included.
    pub fn entries(&self) -> u64 {
        self.kinds.last().map_or(self.branches.len() as u64, |kind| kind.start + kind.count)
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Where the entry of this number stands; `number` is less than [`Self::entries`].
    pub fn place(&self, number: u64) -> EntryRef {
        match self.kinds.partition_point(|kind| kind.start <= number).checked_sub(1) {
            Some(kind) => EntryRef::Entry { kind, index: number - self.kinds[kind].start },
            None => EntryRef::Branch(usize::try_from(number).unwrap_or(0)),
        }
    }

    /// The number of an entry.
    pub fn number(&self, place: EntryRef) -> u64 {
        match place {
            EntryRef::Branch(branch) => branch as u64,
            EntryRef::Entry { kind, index } => self.kinds[kind].start + index,
        }
    }

    pub fn parent(&self, kind: usize, index: u64) -> EntryRef {
        match &self.kinds[kind].above {
            ParentRule::Branch(branch) => EntryRef::Branch(*branch),
            ParentRule::Kind { kind, chooser } => {
                EntryRef::Entry { kind: *kind, index: chooser.choose(index) }
            }
            ParentRule::Itself { branch, levels } => match levels.parent(index) {
                Some(index) => EntryRef::Entry { kind, index },
                None => EntryRef::Branch(*branch),
            },
        }
    }
}
