//! DNs of other entries.

use super::{EntryContext, Render, Scope};
use crate::model::Pick;
use crate::parent::ParentChooser;
use crate::tree::EntryRef;

#[derive(Debug)]
struct Dn {
    kind: usize,
    chooser: ParentChooser,
    most: u64,
}

pub fn dn(kind: &str, pick: Pick, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let kind = scope.kind_named(kind)?;
    let facts = &scope.kinds[kind];
    if facts.count == 0 {
        return Err(format!("there are no entries of kind {:?}", facts.name));
    }
    let chooser = ParentChooser::new(pick, scope.stream, scope.count(), facts.count)?;
    Ok(Box::new(Dn { kind, chooser, most: facts.dn }))
}

impl Render for Dn {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let index = self.chooser.choose_another(at.index, at.occurrence);
        at.names.dn(at.tree, EntryRef::Entry { kind: self.kind, index }, out);
    }

    fn most(&self) -> u64 {
        self.most
    }

    fn is_printable(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Parent {
    is_entry: bool,
    most: u64,
}

/// Of the entry itself there is none above a branch that is known.
pub fn parent(scope: &Scope<'_>) -> Box<dyn Render> {
    Box::new(Parent { is_entry: scope.kind.is_some(), most: scope.parent_dn })
}

impl Render for Parent {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        if self.is_entry {
            let above = at.tree.parent(at.kind, at.index);
            at.names.dn(at.tree, above, out);
        }
    }

    fn most(&self) -> u64 {
        self.most
    }

    fn is_printable(&self) -> bool {
        false
    }
}
