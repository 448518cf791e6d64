//! How many entries each subtree has, with memory for nodes that have children only.

/// The nodes with children, by ascending ID.
#[derive(Debug)]
pub struct Subtrees {
    ids: Vec<u32>,
    /// Children, then entries of the whole subtree.
    counts: Vec<u64>,
    /// Index of the parent, if that is not the root.
    parents: Vec<u32>,
    /// The next node that [`Self::child`] waits for.
    next: usize,
}

const ROOT: u32 = u32::MAX;

impl Subtrees {
    /// `ids` of all nodes that have children, in any order, any number of times.
    pub fn new(mut ids: Vec<u32>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let counts = vec![0; ids.len()];
        let parents = vec![ROOT; ids.len()];
        Self { ids, counts, parents, next: 0 }
    }

    /// Where a node with children stands here.
    pub fn index(&self, id: u32) -> Option<u32> {
        self.ids.binary_search(&id).ok().and_then(|at| u32::try_from(at).ok())
    }

    /// All entries but the suffixes', by ascending ID, with the index of their parent.
    pub fn child(&mut self, id: u32, parent: Option<u32>) {
        if let Some(parent) = parent {
            self.counts[parent as usize] += 1;
        }
        while self.ids.get(self.next).is_some_and(|next| *next < id) {
            self.next += 1;
        }
        if self.ids.get(self.next) == Some(&id) {
            self.parents[self.next] = parent.unwrap_or(ROOT);
        }
    }

    /// All children are told: each node adds its subtree to its parent's as soon as its own is complete. A parent's ID
    /// may be greater than a child's.
    #[allow(clippy::cast_possible_truncation, reason = "IDs have 32 bits")]
    pub fn sum(&mut self) {
        let mut incomplete = vec![0u32; self.ids.len()];
        for parent in self.parents.iter().filter(|parent| **parent != ROOT) {
            incomplete[*parent as usize] += 1;
        }
        let is_leaf = |at: &u32| incomplete[*at as usize] == 0;
        let mut complete: Vec<u32> = (0..self.ids.len() as u32).filter(is_leaf).collect();
        while let Some(at) = complete.pop() {
            let below = self.counts[at as usize];
            self.counts[at as usize] += 1;
            let parent = self.parents[at as usize];
            if parent != ROOT {
                self.counts[parent as usize] += below;
                incomplete[parent as usize] -= 1;
                complete.extend((incomplete[parent as usize] == 0).then_some(parent));
            }
        }
    }

    /// Entries of the subtree at `id`, itself included. Ask by any order, after [`Self::sum`].
    pub fn count(&self, id: u32) -> u64 {
        self.index(id).map_or(1, |at| self.counts[at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_counts_itself_and_all_below_also_a_parent_that_comes_late() {
        // 1 over 2 and 3; 3 over 4, 5; 5 over 6. Then 3 over 1 over 4; 3 over 2.
        let early = [(2, 1), (3, 1), (4, 3), (5, 3), (6, 5)];
        for (parents, nodes, expected) in [
            (vec![3, 1, 5, 1, 3], &early[..], &[6, 1, 4, 1, 2, 1][..]),
            (vec![3, 1], &[(1, 3), (2, 3), (4, 1)], &[2, 1, 4, 1]),
        ] {
            let mut trees = Subtrees::new(parents);
            for (id, parent) in nodes {
                let parent = trees.index(*parent);
                trees.child(*id, parent);
            }
            trees.sum();
            assert!((1..).zip(expected).all(|(id, count)| trees.count(id) == *count));
        }
    }
}
