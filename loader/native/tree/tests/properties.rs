//! Properties of arbitrary trees: checksums do not depend on order, and arranging keeps exactly the newest entries.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use common::Counters;
use proptest::prelude::*;
use proptest::sample::Index;
use support::{Entry, digest, dns, files, put};
use tempfile::tempdir;
use tree::name::{ParsedDn, parent_text};
use tree::{Difference, Names, Task, arrange};

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..12)
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let attributes = prop::collection::vec(("[a-dA-D]", value()), 1..8);
    let entry =
        ("[a-z]{1,3}", attributes).prop_map(|(name, attributes)| Entry { dn: format!("cn={name},dc=x"), attributes });
    prop::collection::vec(entry, 0..10)
}

fn text(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(Entry::text).collect()
}

/// Generates a tree that changed while it was read: few names, so that entries share DNs and UUIDs.
fn moving_tree() -> impl Strategy<Value = Vec<(Entry, u32, u32)>> {
    let dn = prop_oneof![
        2 => Just("dc=x".to_owned()),
        4 => "(o=[ab],)?dc=x",
        8 => "(cn=[ab],)?(ou=[ab],)?(o=[ab],)?dc=x",
    ];
    let entry = (dn, 0..12_u32, 0..4_u32).prop_map(|(dn, uuid, time)| {
        let csn = format!("202601010000{time:02}.000000Z#000000#001#000000");
        let uuid_text = format!("00000000-0000-0000-0000-{uuid:012}");
        let entry = Entry::new(&dn, &[("entryUUID", &uuid_text), ("entryCSN", &csn)]);
        (entry, uuid, time)
    });
    prop::collection::vec(entry, 1..16)
}

/// Returns the entries that must be kept, computed in the simplest way.
fn newest(all: &[(Entry, u32, u32)]) -> Vec<&Entry> {
    let age = |at: usize| (all[at].2, at);
    let overtaken = |at: usize| {
        (0..all.len()).any(|other| {
            let (one, two) = (&all[at], &all[other]);
            age(other) > age(at) && (one.1 == two.1 || one.0.dn == two.0.dn)
        })
    };
    (0..all.len()).filter(|&at| !overtaken(at)).map(|at| &all[at].0).collect()
}

proptest! {
    // A failure prints its minimal input, which then becomes a test instead of a seed file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn checksums_do_not_depend_on_order(entries in entries(), seed in any::<Index>(), twist in any::<Index>()) {
        let mut shuffled = entries.clone();
        if !entries.is_empty() {
            shuffled.rotate_left(seed.index(entries.len()));
        }
        for entry in &mut shuffled {
            let by = twist.index(entry.attributes.len());
            entry.attributes.rotate_left(by);
            entry.attributes.iter_mut().for_each(|(name, _)| *name = name.to_uppercase());
            entry.dn = entry.dn.to_uppercase().replace(',', " , ");
        }
        let (one, two) = (digest(&text(&entries), &[]), digest(&text(&shuffled), &[]));
        prop_assert_eq!(one.checksum(), two.checksum());
        prop_assert_eq!(Difference::between(&one, &two, 9).unwrap(), Difference::default());
    }

    #[test]
    fn a_changed_byte_changes_the_checksum(mut entries in entries(), at in any::<Index>(), bit in 0..8_u32) {
        prop_assume!(!entries.is_empty());
        let before = digest(&text(&entries), &[]).checksum();
        let chosen = at.index(entries.len());
        let value = &mut entries[chosen].attributes[0].1;
        value.push(1 << bit);
        // The changed byte may yield the same set of values.
        let sets: BTreeSet<_> = entries[chosen].attributes.iter().collect();
        prop_assume!(sets.len() == entries[chosen].attributes.len());
        prop_assert_ne!(digest(&text(&entries), &[]).checksum(), before);
    }

    #[test]
    fn the_parent_of_a_dn_normalizes_to_the_parent_of_its_key(dn in "[a-c=, +#2C\\\\]{0,30}") {
        let name = ParsedDn::new(dn.as_bytes());
        let parent = ParsedDn::new(parent_text(dn.as_bytes()));
        prop_assert_eq!(name.parent(), parent.key());
        prop_assert!(parent.key().is_empty() || name.depth() == parent.depth() + 1);
    }

    #[test]
    fn no_dn_causes_a_panic(dn in prop::collection::vec(any::<u8>(), 0..60)) {
        let name = ParsedDn::new(&dn);
        let _ = (name.parent(), parent_text(&dn), tree::csn::pack(&dn), tree::csn::sid(&dn));
    }

    #[test]
    fn arranging_keeps_the_newest_parents_first(all in moving_tree(), cut in any::<Index>(), compress: bool) {
        let directory = tempdir().unwrap();
        let entries: Vec<Entry> = all.iter().map(|(entry, ..)| entry.clone()).collect();
        let (one, two) = entries.split_at(cut.index(entries.len()));
        let paths = [put(directory.path(), "one", one), put(directory.path(), "two", two)];
        let out = directory.path().join("out");
        let task = Task { compress, ..support::task(&paths, &[]) };
        let done = arrange(&task, &out, &Counters::default()).unwrap();

        let written: Vec<u8> = files(&out).into_iter().flat_map(|(_, text)| text).collect();
        let kept = newest(&all);
        let expected: BTreeSet<&str> = kept.iter().map(|entry| entry.dn.as_str()).collect();
        let found = dns(&written);
        prop_assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected.clone());
        prop_assert_eq!(done.entries, found.len() as u64);
        prop_assert_eq!(done.entries + done.duplicates, all.len() as u64);
        prop_assert_eq!(&done.checksum, &digest(&written, &[]).checksum());

        let place: BTreeMap<&str, usize> = found.iter().enumerate().map(|(at, dn)| (dn.as_str(), at)).collect();
        let mut missing = BTreeSet::new();
        for dn in &expected {
            let parent = dn.split_once(',').map_or("", |(_, parent)| parent);
            match place.get(parent) {
                Some(parent) => prop_assert!(*parent < place[dn], "{} before its parent", dn),
                None if *dn != "dc=x" => { missing.insert(parent); }
                None => {}
            }
        }
        let orphans: BTreeSet<&str> = done.orphans.iter().map(|one| one.parent.as_str()).collect();
        prop_assert_eq!(orphans, missing);
    }

    #[test]
    fn a_shard_has_all_attributes_but_the_dropped_ones(entries in entries()) {
        let directory = tempdir().unwrap();
        let path = directory.path().join("shard.ldif.zst");
        let text = text(&entries);
        let drop = Names::new(["A", "c"]);
        let shard = tree::shard(ldif::Input::from_reader(&text[..]), &path, &drop, &Counters::default()).unwrap();
        let mut written = Vec::new();
        std::io::Read::read_to_end(&mut ldif::Input::from_path(&path, &Counters::default()).unwrap(), &mut written).unwrap();
        prop_assert_eq!(shard.entries, entries.len() as u64);
        prop_assert_eq!(shard.bytes, written.len() as u64);
        prop_assert_eq!(&shard.checksum, &digest(&written, &[]).checksum());
        prop_assert_eq!(&shard.checksum, &digest(&text, &["a", "C"]).checksum());
        prop_assert!(!written.windows(3).any(|at| matches!(at, [b'\n', b'A' | b'a' | b'C' | b'c', b':'])));
        assert_contiguous(&written);
    }
}

fn assert_contiguous(text: &[u8]) {
    let see = |record: &ldif::Record<'_>| {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for field in record.entry()?.fields {
            let name = field?.description().to_ascii_lowercase();
            if seen.last() != Some(&name) {
                assert!(!seen.contains(&name), "{}", String::from_utf8_lossy(record.bytes));
                seen.push(name);
            }
        }
        Ok(())
    };
    ldif::walk::each_record(ldif::Input::from_reader(text), &Counters::default(), see).unwrap();
}
