//! Sorts numbers by their digits, the most significant one first. One digit nearly does it for
//! hashed keys whose positions ascend already.

use super::item::{Item, POSITION};

/// Below it, comparing is faster than counting digits.
const FEW: usize = 256;
/// The widest digit whose counters stay in the fastest cache.
const WIDEST: u32 = 11;

/// Sorts the items of all slices into `sorted`; `spare` is overwritten.
pub(crate) fn sort<I: Item>(slices: &[&[I]], sorted: &mut Vec<I>, spare: &mut Vec<I>) {
    let count = slices.iter().map(|slice| slice.len()).sum();
    if count < FEW || slices.iter().copied().flatten().is_sorted() {
        sorted.clear();
        for slice in slices {
            sorted.extend_from_slice(slice);
        }
        sort_few(sorted);
        return;
    }
    sorted.resize(count, I::zeroed());
    spare.resize(count, I::zeroed());
    let ends = by_digit(slices, sorted);
    sort_groups(&ends, sorted, spare);
}

/// Whether there are so few `items`, or so well sorted ones, that they are sorted now.
fn sort_few<I: Item>(items: &mut [I]) -> bool {
    if items.len() < FEW {
        items.sort_unstable();
        return true;
    }
    items.is_sorted()
}

/// Sorts each group of items with the same digit. The depth is that of the digits of an item.
fn sort_groups<I: Item>(ends: &[usize], sorted: &mut [I], spare: &mut [I]) {
    let mut start = 0;
    for &end in ends {
        let (group, spare) = (&mut sorted[start..end], &mut spare[start..end]);
        if group.len() > 1 && !sort_few(group) {
            let ends = by_digit(&[group], spare);
            sort_groups(&ends, spare, group);
            group.copy_from_slice(spare);
        }
        start = end;
    }
}

/// Copies the items of all slices to `sorted` in the order of the first digit in which they differ, and otherwise
/// as they were. Returns where each digit ends.
#[allow(clippy::cast_possible_truncation)] // digits are small
fn by_digit<I: Item>(slices: &[&[I]], sorted: &mut [I]) -> Vec<usize> {
    let first = slices.iter().find_map(|slice| slice.first()).copied().unwrap_or(I::zeroed());
    let differ = |bits: I, item: &I| bits.or(item.xor(first));
    let differing = slices.iter().fold(I::zeroed(), |bits, slice| slice.iter().fold(bits, differ));
    let top = I::BITS - differing.leading_zeros();
    let digits = sorted.len().ilog2().min(WIDEST);
    // Positions of different keys are never compared.
    let least = if top > POSITION { POSITION } else { 0 };
    let bit = top.saturating_sub(digits).max(least);
    let mask = (1_usize << digits) - 1;
    let digit = |item: I| item.shift_right(bit).low() as usize & mask;

    let mut next = vec![0_usize; mask + 1];
    for slice in slices {
        slice.iter().for_each(|&item| next[digit(item)] += 1);
    }
    let mut start = 0;
    for place in &mut next {
        start += std::mem::replace(place, start);
    }
    for slice in slices {
        for &item in *slice {
            let place = &mut next[digit(item)];
            sorted[*place] = item;
            *place += 1;
        }
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

    fn check<I: Item>(items: &[I]) {
        let (mut sorted, mut spare) = (vec![items[0]; 3], vec![items[0]; 5]);
        let slices: Vec<&[I]> = items.chunks(7).collect();
        sort(&slices, &mut sorted, &mut spare);
        let mut expected = items.to_vec();
        expected.sort_unstable();
        assert_eq!(sorted, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn sorts_as_the_standard_library_does(keys in number(), positions in number(), len in 1..3000_usize) {
            let pairs = || keys.iter().zip(&positions).take(len);
            check(&pairs().map(|(&key, &position)| pack(key, position)).collect::<Vec<_>>());
            check(&pairs().map(|(&key, &position)| pack_long(u64::from(key) << 20, 8, position)).collect::<Vec<_>>());
        }
    }
}
