//! The kind of each operation. A plan consists of rounds, in each of which every kind has exactly its share, in random
//! order. So the index of an operation among those of its kind can be computed from its number alone.

use synth::draw::Stream;
use synth::permute::Permutation;
use synth::problem::suggestion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Search,
    Bind,
    Modify,
    Add,
    Delete,
    Rename,
}

const NAMES: [(&str, Action); 6] = [
    ("search", Action::Search),
    ("bind", Action::Bind),
    ("modify", Action::Modify),
    ("add", Action::Add),
    ("delete", Action::Delete),
    ("modrdn", Action::Rename),
];

impl Action {
    pub fn named(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, action)| *action);
        let known = NAMES.map(|(known, _)| known);
        found.ok_or_else(|| format!("there is no operation {name}{}", suggestion(name, known)))
    }
}

/// The upper limit of the sum of all shares.
const LONGEST: u64 = 1_000_000;

#[derive(Debug)]
pub struct Schedule {
    /// What it is, how many of a round, and the place of the first.
    shares: Vec<(Action, u64, u64)>,
    sum: u64,
    round: Permutation,
    stream: Stream,
}

impl Schedule {
    pub fn new(shares: &[(Action, u64)], stream: Stream) -> Result<Self, String> {
        let mut sum = 0_u64;
        let mut placed = Vec::new();
        for &(action, share) in shares.iter().filter(|(_, share)| *share > 0) {
            placed.push((action, share, sum));
            sum = sum.saturating_add(share);
        }
        if placed.is_empty() || sum > LONGEST {
            return Err(format!("shares must be more than 0, and {LONGEST} at most together"));
        }
        Ok(Self { shares: placed, sum, round: Permutation::new(sum), stream })
    }

    /// The kind of operation `number`, and its index among the operations of this kind.
    pub fn at(&self, number: u64) -> (Action, u64) {
        let (round, place) = (number / self.sum, number % self.sum);
        let place = self.round.place(self.stream.at(round), place);
        let found = self.shares.iter().rev().find(|(_, _, first)| *first <= place);
        let &(action, share, first) = found.unwrap_or(&self.shares[0]);
        (action, round * share + place - first)
    }

    /// An upper bound, exclusive, of the index that [`Self::at`] returns for any of the first `operations` operations.
    pub fn most(&self, action: Action, operations: u64) -> u64 {
        let share = self.shares.iter().find(|(known, ..)| *known == action);
        operations.div_ceil(self.sum) * share.map_or(0, |(_, share, _)| *share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_each_its_share_and_no_number_twice() {
        let shares =
            [(Action::Search, 7), (Action::Delete, 2), (Action::Bind, 0), (Action::Add, 1)];
        let schedule = Schedule::new(&shares, Stream::new(1, &["mix"])).unwrap();
        let mut deletes: Vec<u64> = (0..1000)
            .map(|number| schedule.at(number))
            .filter(|(action, _)| *action == Action::Delete)
            .map(|(_, ordinal)| ordinal)
            .collect();
        assert_eq!(schedule.most(Action::Delete, 1000), 200);
        assert_eq!(schedule.most(Action::Bind, 1000), 0);
        deletes.sort_unstable();
        assert_eq!(deletes, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_no_mix() {
        let stream = Stream::new(1, &[]);
        assert!(Schedule::new(&[(Action::Bind, 0)], stream).is_err());
        assert!(Schedule::new(&[(Action::Bind, u64::MAX), (Action::Add, 9)], stream).is_err());
    }

    #[test]
    fn operations_have_names() {
        assert_eq!(Action::named("modrdn"), Ok(Action::Rename));
        assert!(Action::named("serach").unwrap_err().contains("did you mean search"));
    }
}
