//! Positions of entries and numbers of questions for parents. They have 32 bits, and their last values are special.

use crate::numbering::NOTHING;
use crate::{Code, Error, Result};

/// Maximum number of entries in a build: an entry's position is less than [`NOTHING`], [`crate::names::ABOVE`] and
/// [`crate::numbering::MISSING`].
pub const MOST_ENTRIES: u64 = NOTHING as u64;

/// Assigns positions to the next `records` entries, and adds them to `count`. Returns the first position.
pub fn take(count: &mut u64, records: u64) -> Result<u32> {
    let first = *count;
    *count = first.saturating_add(records);
    within(first, *count, "entries")
}

/// Assigns numbers to the next `more` questions, after `count` questions. Returns the first number.
pub fn question(count: usize, more: usize) -> Result<u32> {
    let (first, more) = (count as u64, more as u64);
    within(first, first.saturating_add(more), "parents, each counted once for a chunk of the input")
}

fn within(first: u64, after: u64, what: &str) -> Result<u32> {
    let refused = || Error::new(Code::TooMany, format!("more than {} {what}", grouped(MOST_ENTRIES)));
    if after > MOST_ENTRIES {
        return Err(refused());
    }
    u32::try_from(first).map_err(|_| refused())
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ABOVE, SUFFIX};
    use crate::numbering::{DROPPED, MISSING, Numbering};

    #[test]
    fn the_last_position_is_no_special_value() {
        let mut taken = MOST_ENTRIES - 3;
        let first = take(&mut taken, 3).unwrap();
        assert_eq!((first, taken), (u32::MAX - 5, MOST_ENTRIES));
        assert_eq!(take(&mut taken, 0).unwrap(), NOTHING);
        let last = first + 2;
        assert!(last < [NOTHING, ABOVE, MISSING, SUFFIX].into_iter().min().unwrap());
        let id = Numbering::plain().id(last).unwrap();
        assert!(id < u64::from(DROPPED));
    }

    #[test]
    fn one_entry_too_many_is_refused_wherever_its_chunk_begins() {
        for (mut taken, records) in [
            (MOST_ENTRIES, 1),
            (MOST_ENTRIES - 3, 4),
            (MOST_ENTRIES - 1, u64::from(u32::MAX) + 2),
            (u64::from(u32::MAX) + 5, 0),
            (u64::MAX, 1),
        ] {
            let refused = take(&mut taken, records).unwrap_err();
            assert_eq!(refused.code, Code::TooMany);
            assert_eq!(refused.message, "more than 4,294,967,293 entries");
        }
    }

    #[test]
    fn question_numbers_end_before_the_special_values() {
        let most = usize::try_from(MOST_ENTRIES).unwrap();
        assert_eq!(question(most - 2, 2).unwrap(), u32::MAX - 4);
        let refused = question(most - 2, 3).unwrap_err();
        assert_eq!(refused.code, Code::TooMany);
        assert!(refused.message.starts_with("more than 4,294,967,293 parents"), "{refused}");
    }
}
