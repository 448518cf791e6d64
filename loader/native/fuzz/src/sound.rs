//! Checks whether a database that was built is consistent.

use std::collections::BTreeMap;
use std::path::Path;

use backmdb::Built;
use codec::{id2e, tables};
use lmdbfile::{Reader, TableReader};

/// # Panics
/// If the database is not consistent.
pub fn check(path: &Path, built: &Built) {
    assert_eq!(built.read, built.entries + built.rejections.len() as u64);
    let reader = tables::with_orders(Reader::open(path).expect("the file opens"));
    let found = reader.walk(&mut |_| {}).expect("the file is sound");
    assert!(found.unreachable.is_empty(), "{:?}", found.unreachable);
    let reported = built.tables.iter().map(|(name, values)| (name.as_bytes(), *values));
    let stored = reader.names().map(|name| (name, table(&reader, name).record().entries));
    assert!(reported.eq(stored), "the tables have the reported numbers of records");
    let attributes = built.tables["ad2i"];
    entries(&table(&reader, b"id2e"), built.entries, attributes);
    tree(&table(&reader, b"dn2i"), built.entries);
    let is_index = |name: &&[u8]| tables::ALL.iter().all(|table| table.name.as_bytes() != *name);
    for name in reader.names().filter(is_index) {
        index(&table(&reader, name), built.entries);
    }
}

fn table<'r>(reader: &'r Reader, name: &[u8]) -> TableReader<'r> {
    reader.table(name).expect("a table")
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"))
}

fn each(table: &TableReader<'_>, mut visit: impl FnMut(&[u8], &[u8])) {
    let mut cursor = table.cursor().expect("a cursor");
    while let Some((key, value)) = cursor.next().expect("the next value") {
        visit(key, value);
    }
}

/// Checks that the IDs have no gaps, and that each entry can be decoded.
fn entries(id2e: &TableReader<'_>, count: u64, attributes: u64) {
    let mut last = 0;
    each(id2e, |key, value| {
        last += 1;
        assert_eq!(number(key), last);
        let parts = id2e::read(value).expect("an entry");
        assert_eq!(id2e::write(&parts), value);
        for one in &parts.attributes {
            assert!(one.count > 0 && (1..=attributes).contains(&u64::from(one.number)));
        }
    });
    assert_eq!(last, count);
}

/// Checks that each entry is below its parent once, that the parent has a lower ID, and that subtree counts are right.
fn tree(dn2i: &TableReader<'_>, count: u64) {
    let (mut parents, mut sums, mut below) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    each(dn2i, |key, node| {
        let (key, mark) = (number(key), node[0] & 0x80 != 0);
        let tail = |from_end: usize| number(&node[node.len() - from_end..]);
        if mark {
            assert!(key < tail(16), "a child must have a higher ID than its parent");
            assert!(below.insert(tail(16), key).is_none());
            sums.insert(tail(16), tail(8));
        } else if key > 0 {
            assert!(parents.insert(key, tail(8)).is_none());
        }
    });
    assert_eq!(parents, below);
    assert_eq!((parents.len() as u64, parents.keys().next_back().copied().unwrap_or(0)), (count, count));
    let mut sizes: BTreeMap<u64, u64> = parents.keys().map(|id| (*id, 1)).collect();
    for (id, parent) in parents.iter().rev() {
        let size = sizes[id];
        *sizes.entry(*parent).or_default() += size;
    }
    sizes.remove(&0);
    assert_eq!(sizes, sums);
}

/// Checks that index keys have IDs of existing entries, or a zero and a range of such IDs.
fn index(table: &TableReader<'_>, count: u64) {
    let mut lists: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    each(table, |key, id| lists.entry(key.to_vec()).or_default().push(number(id)));
    for ids in lists.values() {
        let ids = if ids[0] == 0 { &ids[1..] } else { &ids[..] };
        assert!(!ids.is_empty() && ids.iter().all(|id| (1..=count).contains(id)), "{ids:?}");
    }
}
