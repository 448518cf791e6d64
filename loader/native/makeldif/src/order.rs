//! Numbers in the order in which makeldif makes entries: an entry, then all below it, then the next one.
//!
//! Counts below an entry are fixed, so the number follows from the entry's own by arithmetic.

/// From the number of an entry in its kind to its number among the entries that are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Of the first entry of the kind.
    first: u64,
    /// From the entry's own level up: how many there are below one parent, and how far each is from the next.
    levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Without meaning on the topmost level.
    pub count: u64,
    pub step: u64,
}

impl Order {
    /// `levels` from the entry's own up. None when numbers do not fit 64 bits.
    pub fn new(first: u64, levels: &[Level]) -> Self {
        let mut kept: Vec<Level> = Vec::new();
        for &level in levels {
            match kept.last_mut() {
                // Where the steps fit into one another, two levels are one.
                Some(last) if last.count.checked_mul(last.step) == Some(level.step) => {
                    last.count = last.count.saturating_mul(level.count);
                }
                _ => kept.push(level),
            }
        }
        Self { first, levels: kept }
    }

    pub fn of(&self, index: u64) -> u64 {
        let Some((top, below)) = self.levels.split_last() else { return self.first };
        let (mut number, mut rest) = (self.first, index);
        for level in below {
            number = number.wrapping_add((rest % level.count.max(1)).wrapping_mul(level.step));
            rest /= level.count.max(1);
        }
        number.wrapping_add(rest.wrapping_mul(top.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn level(count: u64, step: u64) -> Level {
        Level { count, step }
    }

    #[test]
    fn steps_that_fit_are_one_level() {
        let order = Order::new(5, &[level(3, 1), level(4, 3), level(2, 12)]);
        assert_eq!(order.levels, [level(24, 1)]);
        assert_eq!(order.of(7), 12);
    }

    #[test]
    fn others_are_counted_level_by_level() {
        // Two groups of three people, with a person more behind each group.
        let order = Order::new(0, &[level(3, 1), level(2, 4)]);
        assert_eq!((0..6).map(|index| order.of(index)).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6]);
    }
}
