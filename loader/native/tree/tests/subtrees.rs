//! Where two trees differ.

use common::Counters;
use tree::{Difference, Digest, Names, Subtree};

fn digest(records: &[(&str, &str)]) -> Digest {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tree.ldif");
    let mut text = String::new();
    for (dn, cn) in records {
        text += &["dn: ", dn, "\ncn: ", cn, "\n\n"].concat();
    }
    std::fs::write(&path, text).unwrap();
    let mut digest = Digest::new(Names::default());
    digest.add_path(&path, &Counters::default()).unwrap();
    digest
}

/// One spelling of each name, entries of both sides, and how many differ.
fn told(found: &[Subtree]) -> Vec<(String, u64, u64, u64)> {
    let told = |one: &Subtree| {
        let dn = one.dn.clone().unwrap_or_default().to_lowercase().replace(' ', "");
        (dn, one.left.entries, one.right.entries, one.changes)
    };
    found.iter().map(told).collect()
}

#[test]
fn differences_are_told_by_subtree() {
    let both = [("dc=x", "a"), ("ou=p,dc=x", "a"), ("ou=q,dc=x", "a"), ("ou=r,dc=x", "a")];
    let left = [("cn=1,ou=p,dc=x", "a"), ("cn=1,cn=2,OU=P, dc=x", "a"), ("cn=3,ou=q,dc=x", "a")];
    let right = [("cn=1,ou=p,dc=x", "b"), ("ou=s,dc=x", "a"), ("cn=3,ou=q,dc=x", "a")];
    let mut one = digest(&[&both[..], &left].concat());
    let mut two = digest(&[&both[..], &right].concat());
    let found = Difference::between(&mut one, &mut two, 9);
    assert_eq!((found.only_left, found.only_right, found.changed), (1, 1, 1));
    assert_eq!(told(&found.subtrees), [("ou=p,dc=x".into(), 2, 1, 2), (String::new(), 4, 5, 1)]);
    let sums = |one: &Subtree| one.left.checksum == one.right.checksum;
    assert!(!found.subtrees.iter().any(sums));
}

#[test]
fn a_base_may_be_anywhere() {
    let mut one =
        digest(&[("ou=p,dc=x", "a"), ("cn=1,ou=p,dc=x", "a"), ("cn=2,cn=1,ou=p,dc=x", "a")]);
    let mut two =
        digest(&[("ou=p,dc=x", "a"), ("cn=1,ou=p,dc=x", "a"), ("cn=2,cn=1,ou=p,dc=x", "b")]);
    let found = Difference::between(&mut one, &mut two, 9);
    assert_eq!(told(&found.subtrees), [("cn=1,ou=p,dc=x".into(), 1, 1, 1)]);
}
