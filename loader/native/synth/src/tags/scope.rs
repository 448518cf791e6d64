//! What a text may speak of.

use std::collections::HashMap;
use std::sync::Arc;

use crate::draw::Stream;
use crate::list::List;
use crate::problem::suggestion;

/// The place of a tag, and the template around it.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The randomness of this place alone.
    pub stream: Stream,
    pub suffix: &'a str,
    pub lists: &'a [Arc<List>],
    /// Values that stand before.
    pub slots: &'a HashMap<String, SlotFacts>,
    pub kinds: &'a [KindFacts],
    /// The place of the kind among them; None for branches, which have one entry each.
    pub kind: Option<usize>,
    /// Bytes of the longest DN of a parent.
    pub parent_dn: u64,
}

/// A value of the entry.
#[derive(Debug, Clone, Copy)]
pub struct SlotFacts {
    /// Its place among the slots.
    pub at: usize,
    pub most: u64,
    pub printable: bool,
}

#[derive(Debug, Clone)]
pub struct KindFacts {
    pub name: String,
    pub count: u64,
    /// Bytes of the longest DN.
    pub dn: u64,
}

impl<'a> Scope<'a> {
    /// Entries of the kind.
    pub fn count(&self) -> u64 {
        self.kind.map_or(1, |kind| self.kinds[kind].count)
    }

    pub fn slot(&self, name: &str) -> Result<SlotFacts, String> {
        self.slots.get(name).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.slots.keys().map(String::as_str).collect();
            known.sort_unstable();
            format!("there is no value {name:?} before it{}", suggestion(name, known))
        })
    }

    pub fn list(&self, name: &str) -> Result<&'a Arc<List>, String> {
        self.lists.iter().find(|list| list.name == name).ok_or_else(|| {
            let known = self.lists.iter().map(|list| list.name.as_str());
            format!("there is no list {name:?}{}", suggestion(name, known))
        })
    }

    pub fn kind_named(&self, name: &str) -> Result<usize, String> {
        self.kinds.iter().position(|kind| kind.name == name).ok_or_else(|| {
            let known = self.kinds.iter().map(|kind| kind.name.as_str());
            format!("there is no kind {name:?}{}", suggestion(name, known))
        })
    }
}
