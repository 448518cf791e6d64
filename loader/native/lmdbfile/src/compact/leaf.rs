//! A leaf with all that points from it to other pages.

use std::cmp::Reverse;

use super::branches::Siblings;
use crate::reader::{Pointer, TreeRules, View, Within};
use crate::source::PageSource;
use crate::{Result, Table};

#[derive(Debug)]
pub(super) struct Leaf {
    pub number: u64,
    pub view: View,
    /// Values on it, those of a tree counted as one.
    pub entries: u64,
    /// Each with the place of its node among the others; tables first, the largest before all.
    pub pointers: Vec<(u16, Pointer)>,
}

impl Pointer {
    /// Leaves of a table.
    fn table_pages(&self) -> u64 {
        if let Self::Table(record) = self { record.leaf_pages } else { 0 }
    }

    pub fn tree(&self) -> Option<&Table> {
        match self {
            Self::Values(record) | Self::Table(record) => Some(record),
            Self::Large(_) => None,
        }
    }
}

/// The only branch of a tree, if it has one: it points to all leaves.
pub(super) fn only_branch(record: &Table) -> Option<u64> {
    (record.depth == 2).then_some(record.root)
}

/// Reads leaves and checks them.
pub(super) fn leaves(
    pages: &PageSource,
    siblings: &Siblings,
    rules: &TreeRules,
) -> Result<Vec<Leaf>> {
    pages.want_many(&siblings.numbers);
    let views = pages.views(&siblings.numbers)?.into_iter().enumerate();
    views
        .map(|(at, view)| Leaf::new(siblings.numbers[at], view, rules, siblings.within(at)))
        .collect()
}

impl Leaf {
    pub fn new(number: u64, view: View, rules: &TreeRules, within: Within<&[u8]>) -> Result<Self> {
        let leaf = rules.leaf(number, &view, within)?;
        let mut pointers = leaf.others.map_or_else(Vec::new, |others| others.pointers);
        // The largest table lies all over a file that was not written at once: with it all else comes into memory.
        pointers.sort_by_key(|(_, pointer)| Reverse(pointer.table_pages()));
        Ok(Self { number, view, entries: leaf.entries, pointers })
    }
}
