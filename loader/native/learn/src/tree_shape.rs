//! Derives the shape of a tree: the branches, the kinds, and the parent of each kind.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::place::{Place, above, length};
use crate::schemes::is_neutral;
use crate::shapes::LEAST_SEEN;
use crate::statistics::{Key, Kind};

/// Maximum number of kinds in a template; the largest are kept.
const MOST_KINDS: usize = 200;
/// A kind with more entries than this never becomes branches.
const MOST_BRANCHES: u64 = 24;
pub struct Outline<'g> {
    /// DNs of the branches relative to the suffix, parents first.
    pub branches: Vec<String>,
    /// The kinds in the order of depth, and by descending size within a depth.
    pub kinds: Vec<PlacedKind<'g>>,
    /// Number of entries that are neither branches nor of a kind in the template.
    pub left_out: u64,
}

/// A kind and its parent.
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
    Kind { place: usize, pick: String },
}

/// Maps the DN hash of each branch to its relative DN in the template.
type Branches = FxHashMap<u64, String>;

pub fn outline(kinds: &FxHashMap<Key, Kind>) -> Outline<'_> {
    let mut sorted: Vec<(&Key, &Kind)> = kinds.iter().collect();
    sorted.sort_unstable_by(|one, other| {
        let depth = |key: &Key| length(&key.path);
        (depth(one.0), other.1.entries, one.0).cmp(&(depth(other.0), one.1.entries, other.0))
    });
    let single = single(&sorted);
    let (names, branches) = name(&single);
    let mut candidates: Vec<_> = sorted.iter().filter(|(key, _)| !single.keys.contains(key)).collect();
    let all: u64 = sorted.iter().map(|(_, kind)| kind.entries).sum();
    // Every server requires an object class, so entries without one cannot be generated.
    candidates.retain(|(key, kind)| kind.entries >= LEAST_SEEN && !key.classes.is_empty());
    limit(&mut candidates);
    let to_text: u64 = candidates.iter().map(|(_, kind)| kind.entries).sum();
    let left_out = (all - to_text).saturating_sub(names.len() as u64);
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

struct Single<'g> {
    keys: FxHashSet<&'g Key>,
    /// DNs of the branch entries with their positions, parents first.
    entries: Vec<(String, Place)>,
}

/// Finds the kinds whose entries become branches: few entries, with children, and not all parents of the same kind.
fn single<'g>(kinds: &[(&'g Key, &'g Kind)]) -> Single<'g> {
    let mut found = Single { keys: FxHashSet::default(), entries: Vec::new() };
    let least = kinds.iter().map(|(key, _)| length(&key.path)).min().unwrap_or(0);
    let few: Vec<_> = kinds.iter().filter(|(_, kind)| kind.entries <= MOST_BRANCHES).collect();
    let named: Vec<_> = few.iter().map(|(_, kind)| named(kind)).collect();
    let hashes = named.iter().flatten().map(|(_, place)| place.own()).collect();
    let inner = inner(kinds, &hashes);
    let mut below: FxHashMap<&str, Vec<&Kind>> = FxHashMap::default();
    for (key, kind) in kinds {
        below.entry(above(&key.path)).or_default().push(kind);
    }
    for (&&(key, kind), entries) in few.iter().zip(named) {
        let root = length(&key.path) == least && kind.entries == 1;
        let children = below.get(&*key.path).map_or(&[][..], Vec::as_slice);
        let has_children = entries.iter().any(|(_, place)| inner.contains(&place.own()));
        if root || (has_children && !is_level(&entries, children)) {
            found.keys.insert(key);
            found.entries.extend(entries);
        }
    }
    found.entries.sort_by(|one, other| (one.1.depth(), one.1.key()).cmp(&(other.1.depth(), other.1.key())));
    found
}

/// Returns the DNs and positions of the sampled entries of a kind.
fn named(kind: &Kind) -> Vec<(String, Place)> {
    let records = kind.records.sorted();
    let names = records.iter().filter_map(|(_, record)| dn(record));
    names.map(|dn| (dn.clone(), Place::new(dn.as_bytes()))).collect()
}

/// Returns those of `hashes` whose entries are parents.
fn inner(kinds: &[(&Key, &Kind)], hashes: &FxHashSet<u64>) -> FxHashSet<u64> {
    let parents = kinds.iter().flat_map(|(_, kind)| kind.parents.keys());
    parents.filter(|hash| hashes.contains(hash)).collect()
}

/// Whether several of the entries have children of the same kind, so that they form a kind rather than branches.
fn is_level(entries: &[(String, Place)], children: &[&Kind]) -> bool {
    children.iter().any(|kind| {
        let is_parent = |place: &Place| kind.parents.get(place.own()).is_some();
        let parents = entries.iter().filter(|(_, place)| is_parent(place)).count();
        parents > 2 && parents * 2 > entries.len()
    })
}

fn dn(record: &[u8]) -> Option<String> {
    let record = ldif::Record { bytes: record, line: 1, closed: true, last: false };
    let entry = record.entry().ok()?;
    Some(String::from_utf8_lossy(&entry.dn).into_owned())
}

/// Assigns branches names that reveal nothing; the first branch is the suffix.
fn name(single: &Single<'_>) -> (Branches, Vec<String>) {
    let (mut names, mut branches) = (Branches::default(), Vec::new());
    let mut used = FxHashSet::default();
    for (at, (_, place)) in single.entries.iter().enumerate() {
        let parent = names.get(&place.parent()).cloned().unwrap_or_default();
        if at == 0 {
            names.insert(place.own(), String::new());
            continue;
        }
        let mut name = rdn(place, branches.len() + 1);
        if !parent.is_empty() {
            name = format!("{name},{parent}");
        }
        if !used.insert(name.clone()) {
            let behind = if parent.is_empty() { "" } else { "," };
            name = format!("ou=unit-{}{behind}{parent}", branches.len() + 1);
        }
        names.insert(place.own(), name.clone());
        branches.push(name);
    }
    (names, branches)
}

fn rdn(place: &Place, number: usize) -> String {
    let key = String::from_utf8_lossy(place.key());
    let first = key.split(',').next().unwrap_or_default();
    let (kind, value) = first.split_once('=').unwrap_or_default();
    let kind = if matches!(kind, "o" | "l" | "ou") { kind } else { "ou" };
    if is_neutral(value) { format!("{kind}={value}") } else { format!("{kind}=unit-{number}") }
}

/// Returns the parent of a kind: a branch if nearly all entries are below it, or the largest kind at the parent path.
fn below(key: &Key, kind: &Kind, before: &[PlacedKind<'_>], names: &Branches) -> ParentRule {
    let parents = kind.parents.sorted();
    let seen: u64 = parents.iter().map(|(_, count)| **count).sum();
    let mut branches: Vec<_> = parents.iter().filter_map(|(hash, count)| Some((**count, names.get(hash)?))).collect();
    branches.sort_unstable_by(|one, other| other.cmp(one));
    let below_branches: u64 = branches.iter().map(|(count, _)| count).sum();
    let above = above(&key.path);
    let candidates = before.iter().enumerate().filter(|(_, grown)| &*grown.key.path == above);
    let largest = candidates.max_by_key(|(_, grown)| grown.kind.entries);
    let branch = branches.first().map_or(String::new(), |(_, name)| (*name).clone());
    match largest {
        Some((place, parent)) if branches.is_empty() || below_branches * 2 < seen => {
            ParentRule::Kind { place, pick: pick(kind, parent.kind.entries) }
        }
        _ => ParentRule::Branch(branch),
    }
}

/// Returns how children are distributed over `parents` parents, including parents without children.
#[allow(clippy::cast_precision_loss, reason = "moments")]
pub fn pick(kind: &Kind, parents: u64) -> String {
    let counts = kind.parents.sorted();
    let scale = kind.parents.scale();
    let all = parents.max(1) as f64;
    let mean = kind.entries as f64 / all;
    let squares: f64 = counts.iter().map(|(_, count)| (**count as f64).powi(2)).sum::<f64>() * scale;
    // The variance divided by the square of the mean, less 1/mean, which is its value for a uniform choice.
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

/// Returns the same measure for weights 1/k^exponent.
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
        assert_eq!(rdn(&Place::new(b"OU=People,dc=x"), 3), "ou=people");
        assert_eq!(rdn(&Place::new(b"cn=Secret Labs,dc=x"), 3), "ou=unit-3");
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
