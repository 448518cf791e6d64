//! Merges two small hand-made shards, intact and damaged.

use std::path::{Path, PathBuf};

use codec::dn2i;
use codec::id2e::{self, Attribute, Parts};
use common::{Code, Counters};
use lmdbfile::{FileWriter, Flags, Format, Options, Reader, Table, TreeWriter};
use merge::merge;

type Rows = Vec<(Vec<u8>, Vec<Vec<u8>>)>;

const SUFFIX: &[u8] = b"dc=example,dc=com";

/// Entry 1 is the suffix, its children have `names`, and attributes are numbered in the order of the list.
#[derive(Debug)]
struct Shard<'a> {
    attributes: &'a [&'a str],
    names: &'a [&'a str],
    /// The IDs in the index if they are not those of all entries.
    indexed: Option<&'a [u64]>,
}

impl Shard<'_> {
    fn write(&self, path: &Path) {
        let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 30 };
        let mut file = FileWriter::create(path, &options).unwrap();
        let index = Flags::DUPSORT | Flags::DUPFIXED | Flags::INTEGERDUP;
        let tables = vec![
            (b"ad2i".to_vec(), table(&mut file, Flags::INTEGERKEY, self.ad2i())),
            (b"dn2i".to_vec(), table(&mut file, Flags::INTEGERKEY | Flags::DUPSORT, self.dn2i())),
            (b"id2e".to_vec(), table(&mut file, Flags::INTEGERKEY, self.id2e())),
            (b"cn".to_vec(), table(&mut file, index, self.index())),
        ];
        file.finish(tables).unwrap();
    }

    fn ids(&self) -> std::ops::RangeInclusive<u64> {
        1..=1 + self.names.len() as u64
    }

    fn ad2i(&self) -> Rows {
        let row = |(number, text): (u32, &&str)| (number.to_ne_bytes().to_vec(), vec![text.as_bytes().to_vec()]);
        (1u32..).zip(self.attributes).map(row).collect()
    }

    fn id2e(&self) -> Rows {
        let one = |number| Attribute { number, count: 1, values: [&b"x"[..]].into(), ..Attribute::default() };
        let all = (1..=u32::try_from(self.attributes.len()).unwrap()).map(one).collect();
        let blob = id2e::write(&Parts { flags: 0x100, attributes: all });
        self.ids().map(|id| (id.to_ne_bytes().to_vec(), vec![blob.clone()])).collect()
    }

    fn dn2i(&self) -> Rows {
        let mut record = Vec::new();
        dn2i::child(&mut record, SUFFIX, SUFFIX, 1, 1 + self.names.len() as u64);
        let mut rows = vec![(0u64.to_ne_bytes().to_vec(), vec![dn2i::ROOT.to_vec(), record.clone()])];
        dn2i::own(&mut record, SUFFIX, SUFFIX, 0);
        let mut suffix = vec![record.clone()];
        for (id, name) in (2..).zip(self.names) {
            dn2i::child(&mut record, name.as_bytes(), name.as_bytes(), id, 1);
            suffix.push(record.clone());
        }
        suffix[1..].sort();
        rows.push((1u64.to_ne_bytes().to_vec(), suffix));
        for (id, name) in (2u64..).zip(self.names) {
            dn2i::own(&mut record, name.as_bytes(), name.as_bytes(), 1);
            rows.push((id.to_ne_bytes().to_vec(), vec![record.clone()]));
        }
        rows
    }

    fn index(&self) -> Rows {
        let all: Vec<u64> = self.ids().collect();
        let ids = self.indexed.unwrap_or(&all).iter().map(|id| id.to_ne_bytes().to_vec()).collect();
        vec![(b"\0\0\0\0".to_vec(), ids)]
    }
}

fn table(file: &mut FileWriter, flags: Flags, rows: Rows) -> Table {
    let mut tree = TreeWriter::new(flags, file.layout());
    for (key, values) in rows {
        if flags.contains(Flags::DUPSORT) {
            tree.begin(&key).unwrap();
            for value in &values {
                tree.dup(file, value).unwrap();
            }
            tree.end(file).unwrap();
        } else {
            tree.put(file, &key, &values[0]).unwrap();
        }
    }
    tree.finish(file).unwrap()
}

fn merged(paths: &[PathBuf], out: &Path) -> common::Result<u64> {
    let options = merge::Options { shared: 1, map_size: 1 << 30, list_exponent: 16, context: None, jobs: 2 };
    merge(paths, out, &options, &Counters::default())
}

/// Returns a directory, two shards whose entries have these names, and the path to merge them to.
fn place(names: [&[&str]; 2]) -> (tempfile::TempDir, Vec<PathBuf>, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let attributes: [&[&str]; 2] = [&["objectClass", "cn"], &["cn", "sn", "objectClass"]];
    let write = |(number, (attributes, names)): (usize, (&&[&str], &[&str]))| {
        let path = home.path().join(format!("{number}.mdb"));
        Shard { attributes, names, indexed: None }.write(&path);
        path
    };
    let paths = attributes.iter().zip(names).enumerate().map(write).collect();
    let out = home.path().join("out.mdb");
    (home, paths, out)
}

#[test]
fn a_range_without_its_bounds_is_damage() {
    let (_home, paths, out) = place([&["cn=a", "cn=b"], &["cn=c", "cn=d"]]);
    for (indexed, is_sound) in [(&[0, 1, 3][..], true), (&[0, 1], false), (&[0, 1, 2, 3], false)] {
        let (attributes, names) = (&["cn", "sn", "objectClass"], &["cn=c", "cn=d"]);
        Shard { attributes, names, indexed: Some(indexed) }.write(&paths[1]);
        match merged(&paths, &out) {
            Ok(_) => assert!(is_sound, "{indexed:?}"),
            Err(error) => assert!(!is_sound && error.message.contains("range"), "{error}"),
        }
    }
}

#[test]
fn a_list_that_gets_too_long_is_a_range() {
    let (_home, paths, out) = place([&["cn=a", "cn=b"], &["cn=c", "cn=d"]]);
    for (list_exponent, expected) in [(3, &[1u64, 2, 3, 4, 5][..]), (2, &[0, 1, 5])] {
        let options = merge::Options { shared: 1, map_size: 1 << 30, list_exponent, context: None, jobs: 2 };
        merge(&paths, &out, &options, &Counters::default()).unwrap();
        let found = Reader::open(&out).unwrap().table(b"cn").unwrap().get_all(b"\0\0\0\0").unwrap();
        let expected: Vec<_> = expected.iter().map(|id| id.to_ne_bytes().to_vec()).collect();
        assert_eq!(found, expected, "{list_exponent}");
    }
}

#[test]
fn a_duplicate_name_is_reported() {
    let (_home, paths, out) = place([&["cn=a", "cn=b"], &["cn=c", "cn=a"]]);
    let error = merged(&paths, &out).unwrap_err();
    assert_eq!(error.code, Code::Duplicate);
    assert_eq!(error.dn.as_deref(), Some("cn=a,dc=example,dc=com"));
}

#[test]
fn damage_never_crashes() {
    let (_home, paths, out) = place([&["cn=a", "cn=b"], &["cn=c", "cn=d"]]);
    let whole = std::fs::read(&paths[1]).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for _ in 0..400 {
        let mut damaged = whole.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(8192..damaged.len());
            damaged[at] = random.u8(..);
        }
        std::fs::write(&paths[1], &damaged).unwrap();
        refused += usize::from(merged(&paths, &out).is_err());
    }
    assert!(refused > 0);
}
