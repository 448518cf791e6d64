//! Which page of an earlier backup stood where each page of the new one stands.
//!
//! A page more or less at the beginning moves all others, so pages are not found by their numbers: those between two pages
//! that are known stood between these.

use crate::known::Known;
use crate::page::{FIRST, PageId, Place};

#[derive(Debug, Clone, Copy)]
pub enum Nearest {
    /// It is known, by that number.
    Same(u32),
    /// It is new; what can be its base, counted from the page that is known before it and from the one behind it.
    Former([Option<Place>; 2]),
}

/// Of consecutive pages, the first of that number.
pub fn nearest<'a>(
    known: &Known,
    ids: impl Iterator<Item = &'a PageId>,
    first: u64,
) -> Vec<Nearest> {
    let mut before = first.checked_sub(FIRST).and_then(|number| u32::try_from(number).ok());
    let mut found: Vec<_> = ids
        .map(|id| {
            let same = known.find(id, before);
            let place = same.or(before);
            before = place.and_then(|place| place.checked_add(1));
            match same {
                Some(number) => Nearest::Same(number),
                None => Nearest::Former([place.and_then(|place| known.base(place)), None]),
            }
        })
        .collect();
    let mut behind: Option<u32> = None;
    for one in found.iter_mut().rev() {
        match one {
            Nearest::Same(number) => behind = number.checked_sub(1),
            Nearest::Former([front, back]) => {
                *back =
                    behind.and_then(|place| known.base(place)).filter(|back| Some(*back) != *front);
                behind = behind.and_then(|place| place.checked_sub(1));
            }
        }
    }
    found
}
