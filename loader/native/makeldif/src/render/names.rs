//! First and last names of people.

use std::sync::Arc;

use crate::tags::PersonName;
use synth::list::List;
use synth::tags::number::decimal;
use synth::tags::{EntryContext, Render, Scope};

use super::sequence::{at_turn, longest};

#[derive(Debug)]
struct Name {
    said: PersonName,
    pairs: Pairs,
    list: Arc<List>,
}

pub fn name(said: &PersonName, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let (firsts, lasts) = (scope.list(&said.firsts)?, scope.list(&said.lasts)?);
    let pairs = Pairs {
        firsts: firsts.count() as u64,
        lasts: lasts.count() as u64,
        all_again: said.all_again,
    };
    let list = if said.is_last { lasts } else { firsts };
    Ok(Box::new(Name { said: said.clone(), pairs, list: list.clone() }))
}

impl Render for Name {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let pair = self.pairs.of(self.said.order.of(at.index));
        if !self.said.is_last {
            out.extend_from_slice(at_turn(&self.list, pair.first));
            return;
        }
        out.extend_from_slice(at_turn(&self.list, pair.last));
        if pair.round > 1 {
            decimal(out, pair.round, 0);
        }
    }

    fn most(&self) -> u64 {
        longest(&self.list) + 20
    }

    fn is_printable(&self) -> bool {
        self.list.values().all(ldif::write::is_printable)
    }
}

/// How two lists are walked side by side: when the longer one is through, the shorter one begins a name further on.
#[derive(Debug)]
struct Pairs {
    firsts: u64,
    lasts: u64,
    all_again: bool,
}

#[derive(Debug, PartialEq)]
struct Pair {
    first: u64,
    last: u64,
    round: u64,
}

impl Pairs {
    fn of(&self, turn: u64) -> Pair {
        let (short, long) = (self.firsts.min(self.lasts), self.firsts.max(self.lasts));
        let (walk, place) = (turn / long, turn % long);
        let (shift, round) = self.shift(walk, short, short == long);
        let other = (place + shift) % short;
        if self.firsts < self.lasts {
            Pair { first: other, last: place, round }
        } else {
            Pair { first: place, last: other, round }
        }
    }

    /// Where a walk begins in the shorter list, and the number behind its last names.
    const fn shift(&self, walk: u64, short: u64, is_even: bool) -> (u64, u64) {
        if self.all_again || walk < short {
            let shift = if is_even && !self.all_again { 0 } else { walk % short };
            return (shift, walk / short + 1);
        }
        // Lists of one length: makeldif begins both anew, and all is as before.
        (0, if is_even { 1 } else { walk - short + 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What makeldif does, entry by entry.
    struct Walk {
        sizes: [u64; 2],
        at: [u64; 2],
        loops: u64,
        round: u64,
    }

    impl Walk {
        fn next(&mut self) -> Pair {
            let found = Pair { first: self.at[0], last: self.at[1], round: self.round };
            self.at[0] += 1;
            self.at[1] += 1;
            for (own, other) in [(0, 1), (1, 0)] {
                if self.at[own] >= self.sizes[own] {
                    self.at[own] = 0;
                    if self.sizes[own] > self.sizes[other] {
                        self.loops += 1;
                        self.at[other] = self.loops;
                        if self.loops >= self.sizes[other] {
                            self.at[other] = 0;
                            self.round += 1;
                        }
                    }
                }
            }
            found
        }
    }

    #[test]
    fn lists_are_walked_as_makeldif_does() {
        for sizes in [[3, 4], [4, 3], [2, 7], [5, 5], [1, 3], [3, 1], [1, 1]] {
            let pairs = Pairs { firsts: sizes[0], lasts: sizes[1], all_again: false };
            let mut walk = Walk { sizes, at: [0, 0], loops: 0, round: 1 };
            for turn in 0..200 {
                assert_eq!(pairs.of(turn), walk.next(), "{sizes:?} {turn}");
            }
        }
    }

    #[test]
    fn no_pair_comes_twice() {
        for sizes in [[3, 4], [4, 3], [5, 5], [6, 4], [1, 1]] {
            let pairs = Pairs { firsts: sizes[0], lasts: sizes[1], all_again: true };
            let mut found: Vec<_> = (0..500).map(|turn| pairs.of(turn)).collect();
            found.sort_by_key(|pair| (pair.first, pair.last, pair.round));
            found.dedup();
            assert_eq!(found.len(), 500, "{sizes:?}");
            let rounds = 500_u64.div_ceil(sizes[0] * sizes[1]);
            assert_eq!(found.iter().map(|pair| pair.round).max(), Some(rounds));
        }
    }
}
