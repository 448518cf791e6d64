//! A set of page numbers, kept as runs: few of them, however many pages.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds `count` numbers from `start` on: false, with nothing added, when one is there already.
    pub fn add(&mut self, start: u64, count: u64) -> bool {
        let mut end = start.saturating_add(count);
        if self.0.range(..end).next_back().is_some_and(|(_, &before)| before > start) {
            return false;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        match self.0.range_mut(..start).next_back() {
            Some((_, before)) if *before == start => *before = end,
            _ => {
                self.0.insert(start, end);
            }
        }
        true
    }

    /// All numbers, the greatest first.
    pub fn descending(&self) -> impl Iterator<Item = u64> {
        self.0.iter().rev().flat_map(|(&start, &end)| (start..end).rev())
    }

    /// The runs of numbers below `end` that are not in the set.
    pub fn gaps(&self, end: u64) -> Vec<Range<u64>> {
        let ends = std::iter::once(0).chain(self.0.values().copied());
        let starts = self.0.keys().copied().chain(std::iter::once(end));
        ends.zip(starts).map(|(from, to)| from..to.min(end)).filter(|gap| !gap.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set(adds in proptest::collection::vec((0u64..60, 1u64..6), 0..40)) {
            let (mut runs, mut model) = (Runs::default(), [false; 70]);
            for (start, count) in adds {
                let range = usize::try_from(start).unwrap()..usize::try_from(start + count).unwrap();
                let free = !model[range.clone()].contains(&true);
                prop_assert_eq!(runs.add(start, count), free);
                if free {
                    model[range].fill(true);
                }
            }
            let gaps = runs.gaps(70);
            for (number, used) in (0..70).zip(model) {
                prop_assert_eq!(gaps.iter().any(|gap| gap.contains(&number)), !used);
            }
            let members = (0u32..70).zip(model).rev().filter(|(_, used)| *used);
            prop_assert!(runs.descending().eq(members.map(|(number, _)| number.into())));
            prop_assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
