//! Sorts numbers by their digits, the most significant one first. One digit nearly does it for
//! hashed keys whose positions ascend already.

use super::item::{Item, POSITION};

/// Below it, comparing is faster than counting digits.
const FEW: usize = 256;
/// The widest digit whose counters stay in the fastest cache.
const WIDEST: u32 = 11;

/// Sorts `items`; `spare` is overwritten.
pub(crate) fn sort<I: Item>(items: &mut Vec<I>, spare: &mut Vec<I>) {
    spare.resize(items.len(), I::zeroed());
    if !sort_few(items) {
        sort_to(items, spare);
        std::mem::swap(items, spare);
    }
}

/// Whether there are so few `items`, or so well sorted ones, that they are sorted now.
fn sort_few<I: Item>(items: &mut [I]) -> bool {
    if items.len() < FEW {
        items.sort_unstable();
        return true;
    }
    items.is_sorted()
}

/// Sorts `items` into `sorted`. The depth is that of the digits of an item.
fn sort_to<I: Item>(items: &mut [I], sorted: &mut [I]) {
    let ends = by_digit(items, sorted);
    let mut start = 0;
    for end in ends {
        let (slot, spare) = (&mut sorted[start..end], &mut items[start..end]);
        if slot.len() > 1 && !sort_few(slot) {
            sort_to(slot, spare);
            slot.copy_from_slice(spare);
        }
        start = end;
    }
}

/// Copies `items` to `sorted` in the order of the first digit in which they differ, and otherwise
/// as they were. Returns where each digit ends.
#[allow(clippy::cast_possible_truncation)] // digits are small
fn by_digit<I: Item>(items: &[I], sorted: &mut [I]) -> Vec<usize> {
    let first = items[0];
    let differing = items.iter().fold(I::zeroed(), |bits, item| bits | (*item ^ first));
    let top = I::BITS - differing.leading_zeros();
    let digits = items.len().ilog2().min(WIDEST);
    // Positions of different keys are never compared.
    let least = if top > POSITION { POSITION } else { 0 };
    let bit = top.saturating_sub(digits).max(least);
    let mask = (1_usize << digits) - 1;
    let digit = |item: I| (item >> bit).low() as usize & mask;

    let mut next = vec![0_usize; mask + 1];
    for &item in items {
        next[digit(item)] += 1;
    }
    let mut start = 0;
    for place in &mut next {
        start += std::mem::replace(place, start);
    }
    for &item in items {
        let place = &mut next[digit(item)];
        sorted[*place] = item;
        *place += 1;
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::postings::item::{pack, pack_long};

    /// Numbers that differ in some bits only.
    fn number() -> impl Strategy<Value = Vec<u32>> {
        let mask = prop_oneof![Just(0), Just(1), Just(0xff), Just(0x8000_0000), any::<u32>()];
        (mask, prop::collection::vec(any::<u32>(), 3000))
            .prop_map(|(mask, numbers)| numbers.into_iter().map(|number| number & mask).collect())
    }

    fn check<I: Item>(mut items: Vec<I>) {
        let (mut expected, mut spare) = (items.clone(), vec![items[0]; 5]);
        expected.sort_unstable();
        sort(&mut items, &mut spare);
        assert_eq!(items, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn sorts_as_the_standard_library_does(keys in number(), positions in number(), len in 1..3000_usize) {
            let pairs = || keys.iter().zip(&positions).take(len);
            check(pairs().map(|(&key, &position)| pack(key, position)).collect());
            check(pairs().map(|(&key, &position)| pack_long(u64::from(key) << 20, 8, position)).collect());
        }
    }
}
