//! Counts the entries of each subtree. Takes memory only for nodes that have children.

/// The nodes that have children, by ascending ID.
pub struct Subtrees {
    ids: Vec<u32>,
    /// The number of children; after [`Self::sum`], the number of entries in the subtree.
    counts: Vec<u64>,
    /// Index of the parent, or [`ROOT`].
    parents: Vec<u32>,
    /// Index of the next node that [`Self::child`] expects.
    next: usize,
}

/// Instead of an index: the root above the suffixes.
const ROOT: u32 = u32::MAX;

impl Subtrees {
    /// `ids`: the IDs of all nodes that have children, in any order; an ID may be repeated.
    pub fn new(mut ids: Vec<u32>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let counts = vec![0; ids.len()];
        let parents = vec![ROOT; ids.len()];
        Self { ids, counts, parents, next: 0 }
    }

    /// Returns the index of a node that has children.
    pub fn index(&self, id: u32) -> Option<u32> {
        self.ids.binary_search(&id).ok().and_then(|at| u32::try_from(at).ok())
    }

    /// Counts an entry. IDs must ascend. `parent`: the index of its parent; `None` for the entry of a suffix.
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

    /// Sums up the subtrees after all calls of [`Self::child`]. Each node is added to its parent when its own subtree
    /// is complete, because a parent's ID may be greater than a child's.
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

    /// Returns the number of entries in the subtree of `id`, including its root. Call it after [`Self::sum`].
    pub fn count(&self, id: u32) -> u64 {
        self.index(id).map_or(1, |at| self.counts[at as usize])
    }
}
