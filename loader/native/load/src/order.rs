//! Sorts deferred entries so that each is sent after its parent and after the entries that it names.

/// Collects entries and their dependencies. An entry takes 40 bytes of memory, and 8 bytes for each deferred entry that
/// it names.
#[derive(Debug, Default)]
pub struct SendOrder {
    /// Hashes of the DNs of all entries that will be pushed, in ascending order.
    all: Vec<u64>,
    /// For each pushed entry, the hashes of its DN and of its parent's DN.
    names: Vec<u64>,
    parents: Vec<u64>,
    /// For each pushed entry in turn, the hashes of the DNs that the entry names. `ends` has the end of each entry's
    /// part of the list.
    references: Vec<u64>,
    ends: Vec<usize>,
}

/// Shortens the hash of a DN. If two DNs share a short hash, an entry may wait for an entry that it does not name.
pub const fn short(name: u128) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    let short = name as u64;
    short
}

impl SendOrder {
    pub fn new(mut all: Vec<u64>) -> Self {
        all.sort_unstable();
        Self { all, ..Self::default() }
    }

    /// Adds an entry by the hashes of its DN, of its parent, and of the entries that it names.
    pub fn push(&mut self, name: u128, parent: u128, references: &[u128]) {
        self.names.push(short(name));
        self.parents.push(short(parent));
        let all = references.iter().map(|name| short(*name));
        self.references.extend(all.filter(|name| self.all.binary_search(name).is_ok()));
        self.ends.push(self.references.len());
    }

    /// Returns the numbers of the entries in the order in which to send them. Entries without dependencies keep their
    /// order.
    ///
    /// A pushed entry with pushed children does not wait for the entries that it names, so that a parent always comes
    /// before its children. If leaves name each other in a cycle, one of them is sent before an entry that it names.
    pub fn arranged(mut self) -> Vec<u32> {
        // Frees memory that is needed below.
        self.all = Vec::new();
        let count = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = (0..count).collect();
        let name = |number: u32| self.names[number as usize];
        by_name.sort_unstable_by_key(|&number| (name(number), number));
        let find = |wanted: u64| {
            let at = by_name.partition_point(|&number| name(number) < wanted);
            by_name.get(at).copied().filter(|&number| name(number) == wanted)
        };
        let mut has_children = vec![false; self.names.len()];
        for parent in self.parents.iter().filter_map(|parent| find(*parent)) {
            has_children[parent as usize] = true;
        }
        let mut begun = vec![false; self.names.len()];
        let (mut path, mut arranged) = (Vec::new(), Vec::with_capacity(self.names.len()));
        for first in 0..count {
            visit(first, &mut begun, &mut path);
            while let Some((number, step)) = path.last_mut() {
                let (number, at) = (*number, *step);
                *step += 1;
                let before = match at {
                    0 => Some(self.parents[number as usize]),
                    _ if has_children[number as usize] => None,
                    _ => self.named(number as usize).get(at - 1).copied(),
                };
                if let Some(name) = before {
                    if let Some(before) = find(name) {
                        visit(before, &mut begun, &mut path);
                    }
                } else {
                    arranged.push(number);
                    path.pop();
                }
            }
        }
        arranged
    }

    fn named(&self, number: usize) -> &[u64] {
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.references[begin..self.ends[number]]
    }
}

fn visit(number: u32, begun: &mut [bool], path: &mut Vec<(u32, usize)>) {
    if !std::mem::replace(&mut begun[number as usize], true) {
        path.push((number, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorts entries that are given by hash, parent and references.
    fn arranged(entries: &[(u128, u128, &[u128])]) -> Vec<u32> {
        let mut order = SendOrder::new(entries.iter().map(|one| short(one.0)).collect());
        for (name, parent, references) in entries {
            order.push(*name, *parent, references);
        }
        order.arranged()
    }

    #[test]
    fn entries_without_dependencies_keep_their_order() {
        assert_eq!(arranged(&[(7, 90, &[91]), (2, 90, &[]), (3, 7, &[7])]), [0, 1, 2]);
    }

    #[test]
    fn named_entries_come_first_in_a_long_chain() {
        let nested: &[(u128, u128, &[u128])] = &[(1, 90, &[2]), (2, 90, &[3, 4]), (3, 90, &[]), (4, 90, &[3])];
        assert_eq!(arranged(nested), [2, 3, 1, 0]);
        let chain: Vec<[u128; 1]> = (1..=100_000).map(|at| [at + 1]).collect();
        let entries: Vec<_> = chain.iter().map(|next| (next[0] - 1, 0, &next[..])).collect();
        assert!(arranged(&entries).into_iter().eq((0..100_000).rev()));
    }

    #[test]
    fn circles_are_broken_and_parents_come_first() {
        assert_eq!(arranged(&[(1, 90, &[2]), (2, 90, &[1])]), [1, 0]);
        // The containers 1 and 2 name each other's children, 3 and 4.
        let crossed: &[(u128, u128, &[u128])] = &[(1, 90, &[4]), (2, 90, &[3]), (3, 1, &[4]), (4, 2, &[3])];
        assert_eq!(arranged(crossed), [0, 1, 3, 2]);
    }
}
