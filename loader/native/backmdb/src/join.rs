//! Joins entries with their parents, by the hashes of their DNs.

use extsort::{TupleSorter, Tuples};

use crate::Result;
use crate::gather::ASKED;
use crate::names::ABOVE;
use crate::numbering::MISSING;

/// The result of the join.
pub struct ParentTable {
    /// Position of the parent by question number, or [`ABOVE`], [`MISSING`].
    pub answers: Vec<u32>,
    /// Position of an entry with a duplicate DN, and of the first entry with that DN; unordered.
    pub duplicates: Vec<(u32, u32)>,
    /// Every existing parent comes before its first child.
    pub in_order: bool,
}

/// `askers`: by question number the first child's position, or [`ABOVE`] if the parent is the root.
pub fn join(tuples: TupleSorter<[u64; 3]>, askers: &[u32]) -> Result<ParentTable> {
    let answers = askers.iter().map(|&asker| if asker == ABOVE { ABOVE } else { MISSING }).collect();
    let mut joined = ParentTable { answers, duplicates: Vec::new(), in_order: true };
    joined.read(tuples.finish()?, askers)?;
    Ok(joined)
}

impl ParentTable {
    /// Returns true if there are no duplicates and each entry comes after its parent.
    pub fn is_plain(&self) -> bool {
        self.in_order && self.duplicates.is_empty() && !self.answers.contains(&MISSING)
    }

    #[allow(clippy::cast_possible_truncation, reason = "positions and questions have 32 bits")]
    fn read(&mut self, tuples: Tuples<[u64; 3]>, askers: &[u32]) -> Result<()> {
        let mut entry: Option<([u64; 2], u32)> = None;
        for tuple in tuples {
            let [high, low, what] = tuple?;
            let known = entry.filter(|(hash, _)| *hash == [high, low]).map(|(_, position)| position);
            match known {
                None if what & ASKED == 0 => entry = Some(([high, low], what as u32)),
                None => {}
                Some(first) if what & ASKED == 0 => self.duplicates.push((what as u32, first)),
                Some(parent) => {
                    let question = (what & !ASKED) as usize;
                    self.answers[question] = parent;
                    self.in_order &= parent < askers[question];
                }
            }
        }
        Ok(())
    }
}
