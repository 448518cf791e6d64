//! Who is whose parent: entries' DNs and the parents they name, brought together by hash.

use extsort::{TupleSorter, Tuples};

use crate::Result;
use crate::gather::ASKED;
use crate::names::ABOVE;
use crate::numbering::MISSING;

/// What the tuples said.
#[derive(Debug)]
pub struct ParentTable {
    /// Position of the parent by number of the question; [`ABOVE`], [`MISSING`].
    pub answers: Vec<u32>,
    /// Positions of entries whose DN an earlier one has, and that one's; in no order.
    pub duplicates: Vec<(u32, u32)>,
    /// Every parent that is there stands before its first child.
    pub in_order: bool,
}

/// `askers`: the first child's position by number of the question, [`ABOVE`] where the parent is the root.
pub fn join(tuples: TupleSorter<[u64; 3]>, askers: &[u32]) -> Result<ParentTable> {
    let answers =
        askers.iter().map(|&asker| if asker == ABOVE { ABOVE } else { MISSING }).collect();
    let mut joined = ParentTable { answers, duplicates: Vec::new(), in_order: true };
    joined.read(tuples.finish()?, askers)?;
    Ok(joined)
}

impl ParentTable {
    /// Each entry comes once, and after its parent.
    pub fn is_plain(&self) -> bool {
        self.in_order && self.duplicates.is_empty() && !self.answers.contains(&MISSING)
    }

    #[allow(clippy::cast_possible_truncation, reason = "positions and questions have 32 bits")]
    fn read(&mut self, tuples: Tuples<[u64; 3]>, askers: &[u32]) -> Result<()> {
        let mut entry: Option<([u64; 2], u32)> = None;
        for tuple in tuples {
            let [high, low, what] = tuple?;
            let known =
                entry.filter(|(hash, _)| *hash == [high, low]).map(|(_, position)| position);
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
