//! Whether all nodes and counts of a tree fit, without memory for it: what fits vanishes from these sums.

use xxhash_rust::xxh3::xxh3_128;

use codec::dn2i;

/// Sums that are 0 when all nodes and counts fit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NodeChecksums {
    names: u128,
    counts: u128,
}

impl NodeChecksums {
    pub fn add(self, other: Self) -> Self {
        Self {
            names: self.names.wrapping_add(other.names),
            counts: self.counts.wrapping_add(other.counts),
        }
    }

    pub fn own(&mut self, id: u64, node: &dn2i::Node<'_>) {
        self.names = self.names.wrapping_add(name_hash(id, node.id, node));
    }

    pub fn listed(&mut self, parent: u64, node: &dn2i::Node<'_>) {
        self.names = self.names.wrapping_sub(name_hash(node.id, parent, node));
    }

    pub fn held(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_add(count_hash(id, entries));
    }

    pub fn add_count(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_sub(count_hash(id, entries));
    }
}

/// What a node is called and where it hangs.
pub fn name_hash(id: u64, parent: u64, node: &dn2i::Node<'_>) -> u128 {
    let parts = [&id.to_le_bytes()[..], &parent.to_le_bytes(), node.normal, b"\0", node.pretty];
    xxh3_128(&parts.concat())
}

fn count_hash(id: u64, entries: u64) -> u128 {
    xxh3_128([id.to_le_bytes(), entries.to_le_bytes()].as_flattened())
}
