//! Writes the table dn2i: for each node its own record, then a record for each child.

use extsort::Spool;
use lmdbfile::{FileWriter, Table, TreeWriter};

use crate::Result;
use crate::gather::{SortedRecords, TempStorage};
use crate::names::{self, ABOVE, Name, SUFFIX};
use crate::numbering::{MISSING, Numbering};
use crate::subtrees::Subtrees;
use codec::{dn2i, tables};

/// IDs of parents by question number.
pub struct ParentIds<'a> {
    pub numbering: &'a Numbering,
    pub answers: &'a [u32],
}

impl ParentIds<'_> {
    /// Returns the ID of the parent that a question asks for; 0 for the root above the suffixes.
    #[allow(clippy::cast_possible_truncation, reason = "IDs are at most one more than positions")]
    fn of_question(&self, question: u32) -> u32 {
        match question {
            SUFFIX => 0,
            _ => match self.answers[question as usize] {
                // Entries with a missing parent were rejected.
                ABOVE | MISSING => 0,
                position => self.numbering.id(position).unwrap_or(0) as u32,
            },
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "IDs are at most one more than positions")]
    /// Returns the IDs of the entry and its parent; `None` if the database does not have the entry.
    fn ids(&self, name: &Name<'_>) -> Option<(u32, u32)> {
        let id = self.numbering.id(name.position)?;
        Some((id as u32, self.of_question(name.question)))
    }
}

/// The records of children by the ID of their parent, in the order of dn2i: by length and bytes of the normalised RDN.
pub struct Children(SortedRecords);

impl Children {
    /// `names`: in the order of IDs.
    pub fn sort(names: &Spool, parents: &ParentIds<'_>, temp: &TempStorage) -> Result<Self> {
        let subtrees = count(names, parents)?;
        let (mut sorter, mut record) = (temp.records(), Vec::new());
        names::each(names, |name, _| {
            let Some((id, parent)) = parents.ids(name) else { return Ok(()) };
            dn2i::child(&mut record, name.normal, name.pretty, u64::from(id), subtrees.count(id));
            sorter.push(prefix(parent, name.normal), &record)
        })?;
        Ok(Self(SortedRecords::new(sorter)?))
    }

    /// Returns true if the next child has this parent.
    fn is_next_below(&self, parent: u32) -> bool {
        self.0.next.as_ref().is_some_and(|(prefix, _)| prefix >> 96 == u128::from(parent))
    }

    /// Writes all children of `parent` and ends the key.
    fn write(&mut self, parent: u32, tree: &mut TreeWriter, file: &mut FileWriter) -> Result<()> {
        while let Some((_, record)) = self.0.next.as_ref().filter(|(prefix, _)| prefix >> 96 == u128::from(parent)) {
            tree.dup(file, record)?;
            self.0.step()?;
        }
        Ok(tree.end(file)?)
    }
}

/// Counts the entries of each subtree.
fn count(names: &Spool, parents: &ParentIds<'_>) -> Result<Subtrees> {
    let questions = 0..u32::try_from(parents.answers.len()).unwrap_or(u32::MAX);
    let mut subtrees = Subtrees::new(questions.map(|question| parents.of_question(question)).collect());
    // The last question, and the index of the parent that it asks for: most entries have the previous entry's parent.
    let mut last = (SUFFIX, None);
    names::each(names, |name, _| {
        let Some((id, parent)) = parents.ids(name) else { return Ok(()) };
        if name.question != last.0 {
            last = (name.question, if parent == 0 { None } else { subtrees.index(parent) });
        }
        subtrees.child(id, last.1);
        Ok(())
    })?;
    subtrees.sum();
    Ok(subtrees)
}

/// Returns the sort key of a child: the parent's ID, the length and the first 10 bytes of the normalised RDN. Children
/// with equal keys are sorted by the bytes of their records.
fn prefix(parent: u32, normal: &[u8]) -> u128 {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&parent.to_be_bytes());
    #[allow(clippy::cast_possible_truncation, reason = "a name has at most 1023 bytes")]
    start[4..6].copy_from_slice(&(normal.len() as u16).to_be_bytes());
    let fits = normal.len().min(10);
    start[6..6 + fits].copy_from_slice(&normal[..fits]);
    u128::from_be_bytes(start)
}

/// Writes the table. `names`: in the order of IDs.
pub fn write(file: &mut FileWriter, names: &Spool, parents: &ParentIds<'_>, mut children: Children) -> Result<Table> {
    let mut tree = tables::DN2I.writer(file.layout());
    tree.begin(&0u64.to_ne_bytes())?;
    tree.dup(file, &dn2i::ROOT)?;
    children.write(0, &mut tree, file)?;
    let mut record = Vec::new();
    names::each(names, |name, _| {
        let Some((id, parent)) = parents.ids(name) else { return Ok(()) };
        let key = u64::from(id).to_ne_bytes();
        dn2i::own(&mut record, name.normal, name.pretty, u64::from(parent));
        if !children.is_next_below(id) {
            return Ok(tree.put(file, &key, &record)?);
        }
        tree.begin(&key)?;
        tree.dup(file, &record)?;
        children.write(id, &mut tree, file)
    })?;
    Ok(tree.finish(file)?)
}
