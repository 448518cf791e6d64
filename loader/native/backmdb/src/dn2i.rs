//! Writes the table dn2i: for each node its own record, then one for each child.

use extsort::{RecordSorter, Records, Spool};
use lmdbfile::{FileWriter, Table, TreeWriter};

use crate::Result;
use crate::gather::TempStorage;
use crate::names::{self, ABOVE, Name, SUFFIX};
use crate::numbering::{MISSING, Numbering};
use crate::subtrees::Subtrees;
use codec::{dn2i, tables};

/// IDs of parents by question number.
pub struct ParentIds<'a> {
    numbering: &'a Numbering,
    answers: &'a [u32],
}

impl<'a> ParentIds<'a> {
    pub const fn new(numbering: &'a Numbering, answers: &'a [u32]) -> Self {
        Self { numbering, answers }
    }

    /// Returns the ID of the parent; 0 above the suffixes.
    #[allow(clippy::cast_possible_truncation, reason = "IDs are at most one more than positions")]
    fn of_question(&self, question: u32) -> u32 {
        match question {
            SUFFIX => 0,
            _ => match self.answers[question as usize] {
                // Entries whose parent is missing were rejected.
                ABOVE | MISSING => 0,
                position => self.numbering.id(position).unwrap_or(0) as u32,
            },
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "as above")]
    /// Returns the IDs of the entry and its parent; `None` for an entry superseded by a newer copy.
    fn ids(&self, name: &Name<'_>) -> Option<(u32, u32)> {
        let id = self.numbering.id(name.position)?;
        Some((id as u32, self.of_question(name.question)))
    }
}

/// Children by parent, sorted by length and bytes of the normalised RDN, which is dn2i's order.
pub struct Children(Records);

impl Children {
    /// `names`: in the order of IDs.
    pub fn sort(names: &Spool, parents: &ParentIds<'_>, temp: &TempStorage) -> Result<Self> {
        let trees = count(names, parents)?;
        let mut sorter = RecordSorter::new(temp.memory / 4, temp.threads, &temp.scratch, &temp.stop);
        let (mut reader, mut record) = (names.reader(), Vec::new());
        while let Some(text) = reader.next()? {
            let name = names::read(text);
            let Some((id, parent)) = parents.ids(&name) else { continue };
            dn2i::child(&mut record, name.normal, name.pretty, u64::from(id), trees.count(id));
            sorter.push(prefix(parent, name.normal), &record)?;
        }
        Ok(Self(sorter.finish()?))
    }
}

fn count(names: &Spool, parents: &ParentIds<'_>) -> Result<Subtrees> {
    let questions = 0..u32::try_from(parents.answers.len()).unwrap_or(u32::MAX);
    let mut trees = Subtrees::new(questions.map(|question| parents.of_question(question)).collect());
    let mut reader = names.reader();
    let mut last = (SUFFIX, None);
    while let Some(record) = reader.next()? {
        let name = names::read(record);
        let Some((id, parent)) = parents.ids(&name) else { continue };
        if name.question != last.0 {
            last = (name.question, if parent == 0 { None } else { trees.index(parent) });
        }
        trees.child(id, last.1);
    }
    trees.sum();
    Ok(trees)
}

/// Returns parent, length, and start of the name as sort key; the record itself decides ties.
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
pub fn write(file: &mut FileWriter, names: &Spool, parents: &ParentIds<'_>, children: Children) -> Result<Table> {
    let mut tree = tables::DN2I.writer(file.layout());
    let mut under = SortedChildren { records: children.0, waiting: None };
    under.next()?;
    tree.begin(&0u64.to_ne_bytes())?;
    tree.dup(file, &dn2i::ROOT)?;
    under.write(0, &mut tree, file)?;
    let (mut reader, mut record) = (names.reader(), Vec::new());
    while let Some(text) = reader.next()? {
        let name = names::read(text);
        let Some((id, parent)) = parents.ids(&name) else { continue };
        let key = u64::from(id).to_ne_bytes();
        dn2i::own(&mut record, name.normal, name.pretty, u64::from(parent));
        if !under.is_next(id) {
            tree.put(file, &key, &record)?;
            continue;
        }
        tree.begin(&key)?;
        tree.dup(file, &record)?;
        under.write(id, &mut tree, file)?;
    }
    Ok(tree.finish(file)?)
}

/// The sorted children; the next one is read ahead.
struct SortedChildren {
    records: Records,
    waiting: Option<(u32, Vec<u8>)>,
}

impl SortedChildren {
    #[allow(clippy::cast_possible_truncation, reason = "the prefix begins with 32 bits of ID")]
    fn next(&mut self) -> Result<()> {
        let mut kept = self.waiting.take().map(|(_, record)| record).unwrap_or_default();
        if let Some((prefix, record)) = self.records.next()? {
            kept.clear();
            kept.extend_from_slice(record);
            self.waiting = Some(((prefix >> 96) as u32, kept));
        }
        Ok(())
    }

    /// Returns true if the next child has that parent.
    fn is_next(&self, parent: u32) -> bool {
        self.waiting.as_ref().is_some_and(|(of, _)| *of == parent)
    }

    fn write(&mut self, parent: u32, tree: &mut TreeWriter, file: &mut FileWriter) -> Result<()> {
        while let Some((_, record)) = self.waiting.as_ref().filter(|(of, _)| *of == parent) {
            tree.dup(file, record)?;
            self.next()?;
        }
        Ok(tree.end(file)?)
    }
}
