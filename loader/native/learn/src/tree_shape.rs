//! The outline of a tree: which entries are branches of their own, which kinds there are, and what lies below what.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kind::{Key, Kind};
use crate::parent_counts::pick;
use crate::place::{Place, above, length};
use crate::shapes::LEAST_SEEN;

/// Kinds told in a template.
const MOST_KINDS: usize = 200;
/// Inner entries of one kind that are told one by one.
const MOST_BRANCHES: u64 = 24;
/// Names of branches that say nothing of their owner.
const NEUTRAL: &[&str] = &[
    "accounts",
    "admins",
    "aliases",
    "applications",
    "apps",
    "automount",
    "clients",
    "computers",
    "configuration",
    "contacts",
    "customers",
    "departments",
    "devices",
    "dns",
    "domains",
    "employees",
    "external",
    "groups",
    "hosts",
    "internal",
    "kerberos",
    "locations",
    "machines",
    "mail",
    "members",
    "netgroups",
    "networks",
    "organizations",
    "partners",
    "people",
    "persons",
    "policies",
    "printers",
    "protocols",
    "roles",
    "rpc",
    "servers",
    "services",
    "sites",
    "staff",
    "students",
    "subscribers",
    "sudoers",
    "suppliers",
    "system",
    "teams",
    "units",
    "users",
];

#[derive(Debug)]
pub struct Outline<'g> {
    /// Relative names of single entries, parents first.
    pub branches: Vec<String>,
    /// Parents first, the largest first among those of one depth.
    pub kinds: Vec<PlacedKind<'g>>,
    /// Entries that are in no kind of the template and no branches.
    pub left_out: u64,
    /// Entries of the branches, the suffix among them.
    pub single: u64,
}

/// A kind and where it stands.
#[derive(Debug)]
pub struct PlacedKind<'g> {
    pub key: &'g Key,
    pub kind: &'g Kind,
    pub below: ParentRule,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ParentRule {
    /// Empty for the suffix.
    Branch(String),
    /// A kind by its place in the outline.
    Kind { place: usize, pick: String },
}

/// Single entries by the hash of their name: the relative name each has in the template.
type Branches = FxHashMap<u64, String>;

pub fn outline(kinds: &FxHashMap<Key, Kind>) -> Outline<'_> {
    let mut sorted: Vec<(&Key, &Kind)> = kinds.iter().collect();
    sorted.sort_unstable_by(|one, other| {
        let depth = |key: &Key| length(&key.path);
        (depth(one.0), other.1.entries, one.0).cmp(&(depth(other.0), one.1.entries, other.0))
    });
    let single = single(&sorted);
    let (names, branches) = name(&single);
    let mut rest: Vec<_> = sorted.iter().filter(|(key, _)| !single.keys.contains(key)).collect();
    let all: u64 = sorted.iter().map(|(_, kind)| kind.entries).sum();
    // Entries without an object class, which no server has, are none that could be made.
    rest.retain(|(key, kind)| kind.entries >= LEAST_SEEN && !key.classes.is_empty());
    limit(&mut rest);
    let told: u64 = rest.iter().map(|(_, kind)| kind.entries).sum();
    let mut outline =
        Outline { branches, kinds: Vec::new(), left_out: 0, single: names.len() as u64 };
    outline.left_out = all - told - outline.single.min(all - told);
    for &&(key, kind) in &rest {
        let below = below(key, kind, &outline.kinds, &names);
        outline.kinds.push(PlacedKind { key, kind, below });
    }
    outline
}

/// The largest ones, in the order they had.
fn limit(kinds: &mut Vec<&(&Key, &Kind)>) {
    let mut sizes: Vec<u64> = kinds.iter().map(|(_, kind)| kind.entries).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes.get(MOST_KINDS).map_or(0, |size| size + 1);
    kinds.retain(|(_, kind)| kind.entries >= least);
}

struct Single<'g> {
    keys: FxHashSet<&'g Key>,
    /// DNs of the entries with their places, parents first.
    entries: Vec<(String, Place)>,
}

/// The kinds whose entries are told one by one: few that have children, and not as one kind has parents.
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
    found
        .entries
        .sort_by(|one, other| (one.1.depth(), one.1.key()).cmp(&(other.1.depth(), other.1.key())));
    found
}

/// The entries that are kept of a kind.
fn named(kind: &Kind) -> Vec<(String, Place)> {
    let records = kind.records.sorted();
    let names = records.iter().filter_map(|(_, record)| dn(record));
    names.map(|dn| (dn.clone(), Place::new(dn.as_bytes()))).collect()
}

/// Those of the hashes that are of parents.
fn inner(kinds: &[(&Key, &Kind)], hashes: &FxHashSet<u64>) -> FxHashSet<u64> {
    let parents = kinds.iter().flat_map(|(_, kind)| kind.parents.keys());
    parents.filter(|hash| hashes.contains(hash)).collect()
}

/// Several of the entries have children of the same kind: they are parents among others.
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

/// Names for single entries that do not tell theirs; the first one is the suffix.
fn name(single: &Single<'_>) -> (Branches, Vec<String>) {
    let (mut names, mut branches) = (Branches::default(), Vec::new());
    let mut taken = FxHashSet::default();
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
        if !taken.insert(name.clone()) {
            name = format!(
                "ou=unit-{}{}",
                branches.len() + 1,
                if parent.is_empty() { String::new() } else { format!(",{parent}") }
            );
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
    match NEUTRAL.binary_search(&value) {
        Ok(_) => format!("{kind}={value}"),
        Err(_) => format!("{kind}=unit-{number}"),
    }
}

/// Where the entries of a kind stand: below a branch when nearly all do, else below the largest kind of that place.
fn below(key: &Key, kind: &Kind, before: &[PlacedKind<'_>], names: &Branches) -> ParentRule {
    let parents = kind.parents.sorted();
    let seen: u64 = parents.iter().map(|(_, count)| **count).sum();
    let mut branches: Vec<_> =
        parents.iter().filter_map(|(hash, count)| Some((**count, names.get(hash)?))).collect();
    branches.sort_unstable_by(|one, other| other.cmp(one));
    let below_branches: u64 = branches.iter().map(|(count, _)| count).sum();
    let above = above(&key.path);
    let candidates = before.iter().enumerate().filter(|(_, grown)| &*grown.key.path == above);
    let largest = candidates.max_by_key(|(_, grown)| grown.kind.entries);
    match (largest, branches.first()) {
        (Some((place, parent)), _) if below_branches * 2 < seen => {
            ParentRule::Kind { place, pick: pick(kind, parent.kind.entries) }
        }
        (_, Some((_, name))) => ParentRule::Branch((*name).clone()),
        (Some((place, parent)), None) => {
            ParentRule::Kind { place, pick: pick(kind, parent.kind.entries) }
        }
        (None, None) => ParentRule::Branch(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_names_are_found() {
        assert!(NEUTRAL.is_sorted());
        assert_eq!(rdn(&Place::new(b"OU=People,dc=x"), 3), "ou=people");
        assert_eq!(rdn(&Place::new(b"cn=Secret Labs,dc=x"), 3), "ou=unit-3");
    }
}
