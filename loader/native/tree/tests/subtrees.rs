//! Differences between two trees, by subtree.

mod support;

use common::Counters;
use support::Entry;
use tree::{Difference, Digest, Names, Subtree};

fn digest(records: &[(&str, &str)]) -> Digest {
    filled(Digest::new(Names::default()), records)
}

fn filled(mut digest: Digest, records: &[(&str, &str)]) -> Digest {
    let directory = tempfile::tempdir().unwrap();
    let entries: Vec<_> = records.iter().map(|(dn, cn)| Entry::new(dn, &[("cn", cn)])).collect();
    let path = support::put(directory.path(), "tree.ldif", &entries);
    digest.add_path(&path, &Counters::default()).unwrap();
    digest
}

/// Returns for each subtree its normalized DN, its numbers of entries on both sides, and its number of differences.
fn totals(found: &[Subtree]) -> Vec<(String, u64, u64, u64)> {
    let row = |one: &Subtree| {
        let dn = one.dn.clone().unwrap_or_default().to_lowercase().replace(' ', "");
        (dn, one.left.entries, one.right.entries, one.changes)
    };
    found.iter().map(row).collect()
}

#[test]
fn differences_are_reported_by_subtree() {
    let both = [("dc=x", "a"), ("ou=p,dc=x", "a"), ("ou=q,dc=x", "a"), ("ou=r,dc=x", "a")];
    let left = [("cn=1,ou=p,dc=x", "a"), ("cn=1,cn=2,OU=P, dc=x", "a"), ("cn=3,ou=q,dc=x", "a")];
    let right = [("cn=1,ou=p,dc=x", "b"), ("ou=s,dc=x", "a"), ("cn=3,ou=q,dc=x", "a")];
    let one = digest(&[&both[..], &left].concat());
    let two = digest(&[&both[..], &right].concat());
    let found = Difference::between(&one, &two, 9).unwrap();
    assert_eq!((found.only_left, found.only_right, found.changed), (1, 1, 1));
    assert_eq!(totals(&found.subtrees), [("ou=p,dc=x".into(), 2, 1, 2), (String::new(), 4, 5, 1)]);
    let sums = |one: &Subtree| one.left.checksum == one.right.checksum;
    assert!(!found.subtrees.iter().any(sums));
}

#[test]
fn the_base_may_have_any_depth() {
    let one = digest(&[("ou=p,dc=x", "a"), ("cn=1,ou=p,dc=x", "a"), ("cn=2,cn=1,ou=p,dc=x", "a")]);
    let two = digest(&[("ou=p,dc=x", "a"), ("cn=1,ou=p,dc=x", "a"), ("cn=2,cn=1,ou=p,dc=x", "b")]);
    let found = Difference::between(&one, &two, 9).unwrap();
    assert_eq!(totals(&found.subtrees), [("cn=1,ou=p,dc=x".into(), 1, 1, 1)]);
}

#[test]
fn rows_in_the_temporary_file_are_compared_too() {
    let names: Vec<_> = (0..200_000).map(|number| format!("uid={number},ou=p,dc=x")).collect();
    let entries = |changed: &'static str| -> Vec<(&str, &str)> {
        let cn = |number: usize| if number % 50_000 == 7 { changed } else { "a" };
        names.iter().enumerate().map(|(number, dn)| (dn.as_str(), cn(number))).collect()
    };
    let spilled = |records: &[(&str, &str)]| {
        let (scratch, counters) = (std::env::temp_dir(), Counters::default());
        filled(Digest::within(0, &scratch, Names::default(), &counters), records)
    };
    let found = Difference::between(&spilled(&entries("a")), &spilled(&entries("b")), 3).unwrap();
    let kept = Difference::between(&digest(&entries("a")), &digest(&entries("b")), 3).unwrap();
    assert_eq!((found.changed, &*found.samples[0].1), (4, "uid=100007,ou=p,dc=x"));
    assert_eq!(found, kept);
}
