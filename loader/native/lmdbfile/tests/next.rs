//! Tables added to a file: every page is accounted for, and no page of the old snapshot changes.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Content, MAP_SIZE, check, intact, lmdb, place, tables, write_file, write_table};
use fastrand::Rng;
use heed::Database;
use heed::types::Bytes;
use lmdbfile::{ErrorKind, NextSnapshot, PageKind, Reader};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn one_snapshot_after_the_other(seed: u64, bits in 12usize..16) {
        let (rng, page_size) = (&mut Rng::with_seed(seed), 1 << bits);
        let (_directory, path) = place();
        let first = tables(rng, page_size);
        write_file(&path, page_size, &first);
        let mut expected: BTreeMap<_, _> = first.into_iter().collect();
        for txn in 2..6 {
            let (reader, old) = (Reader::open(&path).unwrap(), std::fs::read(&path).unwrap());
            let mut next = NextSnapshot::begin(&reader, &path, MAP_SIZE).unwrap();
            let mut used = Vec::new();
            reader
                .walk(&mut |page| {
                    if !matches!(page.kind, PageKind::Free | PageKind::Meta) {
                        used.push((page.number, page.count));
                    }
                })
                .unwrap();
            let unchanged = |new: &[u8]| {
                used.iter().all(|&(number, count)| {
                    let [start, length] = [number, count].map(|pages| usize::try_from(pages).unwrap());
                    let bytes = start * page_size..(start + length) * page_size;
                    new[bytes.clone()] == old[bytes]
                })
            };
            let given_up = rng.u8(..4) == 0;
            for (name, content) in tables(rng, page_size) {
                let table = write_table(next.file(), &content);
                next.put(name.as_bytes(), table);
                if !given_up {
                    expected.insert(name, content);
                }
            }
            if given_up {
                drop(next);
                let new = std::fs::read(&path).unwrap();
                prop_assert!(new.len() == old.len() && unchanged(&new));
                break;
            }
            next.commit().unwrap();
            let new = std::fs::read(&path).unwrap();
            prop_assert!(unchanged(&new));
            let reader = intact(&path);
            prop_assert_eq!(reader.txn(), txn);
            prop_assert!(reader.names().eq(expected.keys().map(String::as_bytes)));
            check(&reader, &expected.clone().into_iter().collect::<Vec<_>>());
        }
    }
}

/// Writes a file with an index of at least so many keys, and returns the index.
fn written_index(path: &Path, least: usize) -> (String, Content) {
    let rng = &mut Rng::with_seed(1);
    let mut contents = std::iter::repeat_with(|| common::content(rng, common::kinds()[2], 4096));
    let index = ("index".to_owned(), contents.find(|content| content.rows.len() >= least).unwrap());
    write_file(path, 4096, std::slice::from_ref(&index));
    index
}

/// Writes the index again as the next snapshot, and returns the bytes of the file.
fn replace_index(path: &Path, content: &Content) -> u64 {
    let reader = Reader::open(path).unwrap();
    let mut next = NextSnapshot::begin(&reader, path, MAP_SIZE).unwrap();
    let table = write_table(next.file(), content);
    next.put(b"index", table);
    next.commit().unwrap().bytes
}

/// Like LMDB, the third snapshot uses the pages that the first one had.
#[test]
fn the_file_stops_growing() {
    let (_directory, path) = place();
    let index = [written_index(&path, 3000)];
    let mut sizes = Vec::new();
    for _ in 0..12 {
        sizes.push(replace_index(&path, &index[0].1));
        check(&intact(&path), &index);
    }
    assert!(sizes[1] > sizes[0], "{sizes:?}");
    assert!(sizes[11] - sizes[3] < (sizes[1] - sizes[0]) / 2, "{sizes:?}");
}

/// LMDB uses the free pages of several transactions.
#[test]
fn lmdb_goes_on_with_it() {
    let (directory, path) = place();
    let index = [written_index(&path, 1000)];
    for _ in 0..3 {
        replace_index(&path, &index[0].1);
    }
    let before = Reader::open(&path).unwrap().walk(&mut |_| ()).unwrap();
    let env = lmdb(directory.path());
    for round in 0..20u64 {
        let mut txn = env.write_txn().unwrap();
        let other: Database<Bytes, Bytes> = env.create_database(&mut txn, Some("other")).unwrap();
        for key in 0..200u64 {
            other.put(&mut txn, &(key * 20 + round).to_be_bytes(), &[7; 300]).unwrap();
        }
        txn.commit().unwrap();
    }
    drop(env);
    let reader = intact(&path);
    let after = reader.walk(&mut |_| ()).unwrap();
    assert!(after.free < before.free, "{} of {} pages are free", after.free, before.free);
    check(&reader, &index);
}

#[test]
fn tables_beyond_the_map_size_change_nothing() {
    let (_directory, path) = place();
    let content = common::content(&mut Rng::with_seed(3), common::kinds()[0], 4096);
    write_file(&path, 4096, &[("a".to_owned(), content)]);
    let (old, reader) = (std::fs::read(&path).unwrap(), Reader::open(&path).unwrap());
    let next = NextSnapshot::begin(&reader, &path, old.len() as u64 + 4096).unwrap();
    assert_eq!(next.commit().unwrap_err().kind, ErrorKind::Full);
    assert_eq!(std::fs::read(&path).unwrap(), old);
}
