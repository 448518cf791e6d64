//! Joins entries with their parents, by the hashes of their DNs.

use extsort::TupleSorter;

use crate::Result;
use crate::gather::ASKED;
use crate::names::ABOVE;
use crate::numbering::MISSING;

/// The result of the join.
pub struct ParentTable {
    /// By question number: the position of the parent, or [`ABOVE`], [`MISSING`].
    pub answers: Vec<u32>,
    /// For each entry with a duplicate DN: its position, and the position of the first entry with this DN. Unordered.
    pub duplicates: Vec<(u32, u32)>,
    /// Every existing parent comes before its first child.
    pub in_order: bool,
}

/// Answers all questions for parents. `askers`: by question number the first child's position, or [`ABOVE`] if the
/// parent is the root.
#[allow(clippy::cast_possible_truncation, reason = "positions and questions have 32 bits")]
pub fn join(tuples: TupleSorter<[u64; 3]>, askers: &[u32]) -> Result<ParentTable> {
    let answers = askers.iter().map(|&asker| if asker == ABOVE { ABOVE } else { MISSING }).collect();
    let mut table = ParentTable { answers, duplicates: Vec::new(), in_order: true };
    // Hash and position of the last entry. Among tuples with the same hash, entries come before questions.
    let mut last: Option<([u64; 2], u32)> = None;
    for tuple in tuples.finish()? {
        let [high, low, number] = tuple?;
        let first = last.filter(|(hash, _)| *hash == [high, low]).map(|(_, position)| position);
        match first {
            None if number & ASKED == 0 => last = Some(([high, low], number as u32)),
            None => {}
            Some(first) if number & ASKED == 0 => table.duplicates.push((number as u32, first)),
            Some(parent) => {
                let question = (number & !ASKED) as usize;
                table.answers[question] = parent;
                table.in_order &= parent < askers[question];
            }
        }
    }
    Ok(table)
}

impl ParentTable {
    /// Returns true if there are no duplicates and each entry comes after its parent.
    pub fn is_plain(&self) -> bool {
        self.in_order && self.duplicates.is_empty() && !self.answers.contains(&MISSING)
    }

    pub fn is_missing(&self, question: u32) -> bool {
        self.answers.get(question as usize) == Some(&MISSING)
    }
}
