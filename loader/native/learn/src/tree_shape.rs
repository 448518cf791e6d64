//! Derives the shape of a tree: the branches, the kinds, and the parent of each kind.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::LEAST_SEEN;
use crate::position::{Position, above, length};
use crate::schemes::is_neutral;
use crate::statistics::{Key, Kind};

/// Maximum number of kinds in a template. The largest kinds are kept.
const MOST_KINDS: usize = 200;
/// The entries of a kind with more entries than this never become branches.
const MOST_BRANCHES: u64 = 24;

pub struct Outline<'g> {
    /// The branches' DNs relative to the suffix, parents first.
    pub branches: Vec<String>,
    /// The kinds by ascending depth. At equal depth, the kinds with more entries come first.
    pub kinds: Vec<PlacedKind<'g>>,
    /// Number of entries that are not branches and whose kind is not in the template.
    pub left_out: u64,
}

/// A kind with its key and its parent.
pub struct PlacedKind<'g> {
    pub key: &'g Key,
    pub kind: &'g Kind,
    pub below: ParentRule,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ParentRule {
    /// DN of the branch; empty for the suffix.
    Branch(String),
    /// Index of the kind in the outline.
    Kind { kind: usize, pick: String },
}

/// Maps the hash of each branch's DN in the source to the branch's relative DN in the template.
type Branches = FxHashMap<u64, String>;

pub fn outline(kinds: &FxHashMap<Key, Kind>) -> Outline<'_> {
    let mut sorted: Vec<(&Key, &Kind)> = kinds.iter().collect();
    sorted.sort_unstable_by(|one, other| {
        let depth = |key: &Key| length(&key.path);
        (depth(one.0), other.1.entries, one.0).cmp(&(depth(other.0), one.1.entries, other.0))
    });
    let (branch_keys, branch_entries) = branches(&sorted);
    let (names, branches) = name(&branch_entries);
    let mut candidates: Vec<_> = sorted.iter().filter(|(key, _)| !branch_keys.contains(key)).collect();
    // Every server requires an object class, so entries without one cannot be generated.
    candidates.retain(|(key, kind)| kind.entries >= LEAST_SEEN && !key.classes.is_empty());
    limit(&mut candidates);
    let all: u64 = sorted.iter().map(|(_, kind)| kind.entries).sum();
    let described: u64 = candidates.iter().map(|(_, kind)| kind.entries).sum();
    let left_out = (all - described).saturating_sub(names.len() as u64);
    let mut outline = Outline { branches, kinds: Vec::new(), left_out };
    for &&(key, kind) in &candidates {
        let below = below(key, kind, &outline.kinds, &names);
        outline.kinds.push(PlacedKind { key, kind, below });
    }
    outline
}

/// Keeps the largest kinds, without changing their order.
fn limit(kinds: &mut Vec<&(&Key, &Kind)>) {
    let mut sizes: Vec<u64> = kinds.iter().map(|(_, kind)| kind.entries).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes.get(MOST_KINDS).map_or(0, |size| size + 1);
    kinds.retain(|(_, kind)| kind.entries >= least);
}

/// Returns the kinds whose entries become branches, and the positions of these entries, parents first. Such a kind has
/// few entries, some of which have children; children of different entries belong to different kinds.
fn branches<'g>(kinds: &[(&'g Key, &'g Kind)]) -> (FxHashSet<&'g Key>, Vec<Position>) {
    let (mut branch_keys, mut branch_entries) = (FxHashSet::default(), Vec::new());
    let least = kinds.iter().map(|(key, _)| length(&key.path)).min().unwrap_or(0);
    let few: Vec<_> = kinds.iter().filter(|(_, kind)| kind.entries <= MOST_BRANCHES).collect();
    let positions: Vec<_> = few.iter().map(|(_, kind)| sampled_positions(kind)).collect();
    let hashes: FxHashSet<u64> = positions.iter().flatten().map(Position::hash).collect();
    let parents = kinds.iter().flat_map(|(_, kind)| kind.parents.keys());
    let parents: FxHashSet<u64> = parents.filter(|hash| hashes.contains(hash)).collect();
    let mut below: FxHashMap<&str, Vec<&Kind>> = FxHashMap::default();
    for (key, kind) in kinds {
        below.entry(above(&key.path)).or_default().push(kind);
    }
    for (&&(key, kind), entries) in few.iter().zip(positions) {
        let root = length(&key.path) == least && kind.entries == 1;
        let children = below.get(&*key.path).map_or(&[][..], Vec::as_slice);
        let has_children = entries.iter().any(|position| parents.contains(&position.hash()));
        if root || (has_children && !is_level(&entries, children)) {
            branch_keys.insert(key);
            branch_entries.extend(entries);
        }
    }
    let order = |position: &Position| (position.name.depth(), position.name.key().to_vec());
    branch_entries.sort_by_cached_key(order);
    (branch_keys, branch_entries)
}

/// Returns the positions of the sampled entries of a kind.
fn sampled_positions(kind: &Kind) -> Vec<Position> {
    let positions = kind.records.sorted().into_iter().filter_map(|(_, bytes)| {
        let record = ldif::Record { bytes, line: 1, closed: true, last: false };
        Some(Position::new(&record.entry().ok()?.dn))
    });
    positions.collect()
}

/// Whether several of the entries have children of the same kind, so that they form a kind rather than branches.
fn is_level(entries: &[Position], children: &[&Kind]) -> bool {
    children.iter().any(|kind| {
        let parents = entries.iter().filter(|position| kind.parents.get(position.hash()).is_some()).count();
        parents > 2 && parents * 2 > entries.len()
    })
}

/// Names the branches so that the names reveal nothing of the source. The first entry is the suffix. Returns a map of
/// the relative DNs by hash of the entry's DN, and the relative DNs without the suffix.
fn name(entries: &[Position]) -> (Branches, Vec<String>) {
    let (mut names, mut branches) = (Branches::default(), Vec::new());
    let mut used = FxHashSet::default();
    for (index, position) in entries.iter().enumerate() {
        let parent = names.get(&position.parent_hash()).cloned().unwrap_or_default();
        if index == 0 {
            names.insert(position.hash(), String::new());
            continue;
        }
        let mut name = rdn(position, branches.len() + 1);
        if !parent.is_empty() {
            name = format!("{name},{parent}");
        }
        if !used.insert(name.clone()) {
            let comma = if parent.is_empty() { "" } else { "," };
            name = format!("ou=unit-{}{comma}{parent}", branches.len() + 1);
        }
        names.insert(position.hash(), name.clone());
        branches.push(name);
    }
    (names, branches)
}

/// Returns the entry's own RDN if its value is neutral, otherwise an RDN with a number.
fn rdn(position: &Position, number: usize) -> String {
    let key = String::from_utf8_lossy(position.name.key());
    let first = key.split(',').next().unwrap_or_default();
    let (kind, value) = first.split_once('=').unwrap_or_default();
    let kind = if matches!(kind, "o" | "l" | "ou") { kind } else { "ou" };
    if is_neutral(value) { format!("{kind}={value}") } else { format!("{kind}=unit-{number}") }
}

/// Returns the parent of a kind. If less than half of the entries are below branches, the parent is the largest kind
/// with the path of their parents; otherwise, the branch with the most children.
fn below(key: &Key, kind: &Kind, before: &[PlacedKind<'_>], names: &Branches) -> ParentRule {
    let parents = kind.parents.sorted();
    let seen: u64 = parents.iter().map(|(_, count)| **count).sum();
    let mut branches: Vec<_> = parents.iter().filter_map(|(hash, count)| Some((**count, names.get(hash)?))).collect();
    branches.sort_unstable_by(|one, other| other.cmp(one));
    let below_branches: u64 = branches.iter().map(|(count, _)| count).sum();
    let above = above(&key.path);
    let candidates = before.iter().enumerate().filter(|(_, placed)| &*placed.key.path == above);
    let largest = candidates.max_by_key(|(_, placed)| placed.kind.entries);
    let branch = branches.first().map_or(String::new(), |(_, name)| (*name).clone());
    match largest {
        Some((index, parent)) if branches.is_empty() || below_branches * 2 < seen => {
            ParentRule::Kind { kind: index, pick: pick(kind, parent.kind.entries) }
        }
        _ => ParentRule::Branch(branch),
    }
}

/// Returns the distribution of the children over the parents. `parents` also counts parents without children.
#[allow(clippy::cast_precision_loss, reason = "moments")]
fn pick(kind: &Kind, parents: u64) -> String {
    let counts = kind.parents.sorted();
    let scale = kind.parents.scale();
    let all = parents.max(1) as f64;
    let mean = kind.entries as f64 / all;
    let squares: f64 = counts.iter().map(|(_, count)| (**count as f64).powi(2)).sum::<f64>() * scale;
    // The variance divided by the square of the mean; for a uniform choice, it is 1/mean.
    let spread = (squares / all / (mean * mean) - 1.0).max(0.0);
    if spread < 0.5 / mean {
        return "each".to_owned();
    }
    if spread < 1.5 / mean + 0.02 {
        return "uniform".to_owned();
    }
    let excess = spread - 1.0 / mean;
    let exponents = (1..=30).map(|tenths| f64::from(tenths) / 10.0);
    let off = |exponent: f64| (zipf_spread(parents, exponent).ln() - excess.ln()).abs();
    let best = exponents.min_by(|one, other| off(*one).total_cmp(&off(*other)));
    format!("zipf:{:.1}", best.unwrap_or(1.0))
}

/// Returns the variance divided by the square of the mean, for weights 1/k^exponent.
#[allow(clippy::cast_precision_loss, reason = "moments")]
fn zipf_spread(count: u64, exponent: f64) -> f64 {
    const EXACT: u64 = 10_000;
    let sum = |exponent: f64| {
        let exact: f64 = (1..=count.min(EXACT)).map(|rank| (rank as f64).powf(-exponent)).sum();
        let (from, to) = (EXACT as f64 + 0.5, count as f64 + 0.5);
        if count <= EXACT {
            exact
        } else if (exponent - 1.0).abs() < 1e-6 {
            exact + (to / from).ln()
        } else {
            exact + (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent)
        }
    };
    (count as f64 * sum(2.0 * exponent) / sum(exponent).powi(2) - 1.0).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_branch_names_are_kept() {
        assert_eq!(rdn(&Position::new(b"OU=People,dc=x"), 3), "ou=people");
        assert_eq!(rdn(&Position::new(b"cn=Secret Labs,dc=x"), 3), "ou=unit-3");
    }

    #[test]
    fn the_spread_decides_the_distribution() {
        assert!(zipf_spread(1000, 0.1) < zipf_spread(1000, 1.0));
        let (near, far) = (zipf_spread(9_999, 1.2), zipf_spread(10_001, 1.2));
        assert!((near / far - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_distribution_of_children_is_kept() {
        let kind_of = |counts: &[u64]| {
            let mut kind = Kind { entries: counts.iter().sum(), ..Kind::default() };
            for (parent, &count) in counts.iter().enumerate() {
                let hash = xxhash_rust::xxh3::xxh3_64(&parent.to_le_bytes());
                (0..count).for_each(|_| kind.parents.count(hash));
            }
            kind
        };
        assert_eq!(pick(&kind_of(&[10; 100]), 100), "each");
        let skewed: Vec<u64> = (1..=100).map(|rank| 1000 / rank).collect();
        assert_eq!(pick(&kind_of(&skewed), 100), "zipf:1.0");
    }
}
