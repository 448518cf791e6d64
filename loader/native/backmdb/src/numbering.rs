//! Assigns entry IDs as slapadd does: in the order of the input, but parents first.
//!
//! If an entry comes before its parent, slapadd first assigns IDs to all ancestors that have not come, the topmost
//! first, and then to the entry. So IDs follow from the order of the input and from the parents, and a parent's ID is
//! always less than its children's. In a build from a live server, IDs follow from the order of the input alone: slapd,
//! too, may leave a child with a lower ID than its parent when it moves an entry.

/// Instead of a parent's position: the parent is missing from the input.
pub const MISSING: u32 = u32::MAX;
/// Instead of a parent's position: the entry was rejected.
pub const NOTHING: u32 = u32::MAX - 2;
/// Instead of a parent's position: the parent is the root above the suffixes.
pub use crate::names::ABOVE;

/// Instead of an ID: the database does not have the entry.
pub const DROPPED: u32 = u32::MAX;

/// An entry that came after one of its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateParent {
    pub position: u32,
    /// Position of the first descendant in the input.
    pub descendant: u32,
    /// Number of levels from this entry down to that descendant.
    pub levels: usize,
}

#[allow(clippy::cast_possible_truncation, reason = "positions have 32 bits")]
const fn small(position: usize) -> u32 {
    position as u32
}

/// The IDs of all entries by position.
#[derive(Debug, Default)]
pub struct Numbering {
    /// IDs by position; `None` if each ID is one more than the position.
    ids: Option<Vec<u32>>,
}

impl Numbering {
    /// Returns the numbering for an input in which each entry comes after its parent and no entry is rejected.
    pub const fn plain() -> Self {
        Self { ids: None }
    }

    pub const fn is_plain(&self) -> bool {
        self.ids.is_none()
    }

    /// Numbers entries in the order of positions. `vacant`: ascending positions without an entry, which get no ID.
    /// `stale`: ascending positions of dropped entries, whose IDs stay unused.
    pub fn without(vacant: &[u32], stale: &[u32], records: u64) -> Self {
        if vacant.is_empty() && stale.is_empty() {
            return Self::plain();
        }
        let mut ids = Vec::with_capacity(usize::try_from(records).unwrap_or(0));
        let (mut vacant, mut stale) = (vacant.iter().peekable(), stale.iter().peekable());
        let mut next = 1;
        for position in 0..u32::try_from(records).unwrap_or(u32::MAX) {
            if vacant.next_if_eq(&&position).is_some() {
                ids.push(DROPPED);
                continue;
            }
            ids.push(if stale.next_if_eq(&&position).is_some() { DROPPED } else { next });
            next += 1;
        }
        Self { ids: Some(ids) }
    }

    /// Numbers entries by the positions of their parents, which may be [`ABOVE`], [`MISSING`] or [`NOTHING`]. Entries
    /// without a path to the root are dropped. Also returns the late parents.
    pub fn of_parents(parents: &[u32]) -> (Self, Vec<LateParent>) {
        let mut ids = vec![0; parents.len()];
        let (mut next, mut path, mut late) = (1, Vec::new(), Vec::new());
        for position in 0..parents.len() {
            let lost = !climb(parents, &ids, position, &mut path);
            for (levels, node) in path.drain(..).enumerate().rev() {
                ids[node] = if lost { DROPPED } else { next };
                next += u32::from(!lost);
                if levels > 0 && !lost {
                    late.push(LateParent { position: small(node), descendant: small(position), levels });
                }
            }
        }
        (Self { ids: Some(ids) }, late)
    }

    /// Returns the entry's ID; `None` if the entry is not in the database.
    #[inline]
    pub fn id(&self, position: u32) -> Option<u64> {
        match &self.ids {
            None => Some(u64::from(position) + 1),
            Some(ids) => Some(ids[position as usize]).filter(|id| *id != DROPPED).map(u64::from),
        }
    }
}

/// Fills `path` with the nodes from `start` up to the first node with an ID. Returns false if `start` has no path to
/// the root.
fn climb(parents: &[u32], ids: &[u32], start: usize, path: &mut Vec<usize>) -> bool {
    let mut node = start;
    loop {
        match ids[node] {
            0 => path.push(node),
            id => return id != DROPPED,
        }
        match parents[node] {
            ABOVE => return true,
            MISSING | NOTHING => return false,
            parent => node = parent as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_leave_a_gap() {
        let numbering = Numbering::without(&[1], &[2], 4);
        let ids: Vec<_> = (0..4).map(|position| numbering.id(position)).collect();
        assert_eq!(ids, [Some(1), None, None, Some(3)]);
        assert!(Numbering::without(&[], &[], 4).is_plain());
        assert_eq!(Numbering::plain().id(7), Some(8));
    }
}
