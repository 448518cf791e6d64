//! Decodes entries as back-mdb stores them in id2e.

use codec::id2e::{StoredEntry, numbers, read, renumber, write};

/// An entry that was decoded must be encoded to bytes that decode to the same entry. No decoder may panic.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let _ = (StoredEntry::read_whole(data), numbers(data).count());
    let _ = renumber(&mut data.to_vec(), || (), Ok);
    let Some(written) = read(data).map(|parts| write(&parts)) else { return };
    assert_eq!(written.len() % 8, 0);
    let again = read(&written).expect("what was written can be read");
    assert_eq!(write(&again), written);
    assert_eq!(Some(again), read(data));
}
