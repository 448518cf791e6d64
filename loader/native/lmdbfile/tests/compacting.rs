//! A compacting copy has the content of its source, page after page.

mod common;

use std::path::Path;

use common::{Content, FORMATS, check, intact, lmdb, options_of, place, rows, write_as, write_file};
use disk::PieceWriter;
use fastrand::Rng;
use heed::DatabaseFlags;
use heed::types::Bytes;
use lmdbfile::{ErrorKind, Flags, Format, Reader};

const PAGE: usize = 4096;

fn check_equal(source: &Path, copy: &Path, tables: &[(String, Content)]) {
    let (source, copy) = (Reader::open(source).unwrap(), Reader::open(copy).unwrap());
    let found = copy.walk(&mut |_| {}).unwrap();
    assert_eq!((found.free, found.unreachable.len()), (0, 0));
    assert!(source.names().eq(copy.names()));
    check(&copy, tables);
    for (name, _) in tables {
        let name = name.as_bytes();
        let (old, new) = (source.table(name).unwrap().record(), copy.table(name).unwrap().record());
        assert_eq!((new.entries, new.flags, new.pad), (old.entries, old.flags, old.pad));
        assert_eq!(new.leaf_pages, old.leaf_pages);
    }
    assert_eq!(copy.map_size(), source.map_size());
}

#[test]
fn content_is_kept() {
    let (_directory, source) = place();
    let copy = source.with_extension("copy");
    for seed in 0..60 {
        let rng = &mut Rng::with_seed(seed);
        let format = FORMATS[rng.usize(..2)];
        let page_size = 1 << rng.usize(12..if format == Format::V1 { 16 } else { 17 });
        let tables = common::tables(rng, page_size);
        let written = write_as(&source, &options_of(format, page_size), &tables);
        let made = Reader::open(&source).unwrap().compact(&copy, &|_| true).unwrap();
        assert_eq!(made, written);
        check_equal(&source, &copy, &tables);
        assert!(in_pieces(&source) == std::fs::read(&copy).unwrap());
    }
}

/// Returns the compacted copy, assembled from pieces.
fn in_pieces(source: &Path) -> Vec<u8> {
    let (writer, pieces) = PieceWriter::new(1 << 20);
    let all = std::thread::spawn(move || pieces.iter().map(|one| one.to_vec()).collect());
    let head = Reader::open(source).unwrap().compact_in_pieces(writer, &|_| true).unwrap();
    let all: Vec<Vec<u8>> = all.join().unwrap();
    [head, all.concat()].concat()
}

#[test]
fn a_receiver_that_is_gone_ends_the_copy() {
    let (_directory, path) = place();
    let content = Content { flags: Flags::NONE, rows: vec![(b"key".to_vec(), vec![vec![7; 3 << 20]])] };
    write_as(&path, &options_of(Format::V1, PAGE), &[("t".to_owned(), content)]);
    let (writer, pieces) = PieceWriter::new(1 << 20);
    drop(pieces);
    let error = Reader::open(&path).unwrap().compact_in_pieces(writer, &|_| true).unwrap_err();
    assert!(error.to_string().contains("Broken pipe"), "{error}");
}

/// Trees of values of each depth, their pages in the order of creation; then the same from the copy, in which the pages
/// of each tree are contiguous.
#[test]
fn trees_of_values_in_any_page_order() {
    let (directory, path) = place();
    let rng = &mut Rng::with_seed(7);
    let env = lmdb(directory.path());
    for _ in 0..40 {
        let mut txn = env.write_txn().unwrap();
        for (name, fixed) in [("fixed", DatabaseFlags::DUP_FIXED), ("any", DatabaseFlags::empty())] {
            let flags = DatabaseFlags::DUP_SORT | fixed;
            let mut options = env.database_options().types::<Bytes, Bytes>();
            let table = options.name(name).flags(flags).create(&mut txn).unwrap();
            for key in 0..60_u32 {
                for _ in 0..rng.u32(..=key * key / 10) {
                    let mut value = rng.u64(..).to_be_bytes().repeat(4);
                    value.truncate(if fixed.is_empty() { rng.usize(8..32) } else { 8 });
                    table.put(&mut txn, &key.to_be_bytes(), &value).unwrap();
                }
            }
        }
        txn.commit().unwrap();
    }
    let (first, second) = (path.with_extension("first"), path.with_extension("second"));
    let mut source = Reader::open(&path).unwrap();
    for copy in [&first, &second] {
        source.compact(copy, &|_| true).unwrap();
        let reader = intact(copy);
        for name in [b"fixed".as_slice(), b"any"] {
            assert!(rows(&reader, name).unwrap() == rows(&source, name).unwrap());
            let (new, old) = (reader.table(name).unwrap(), source.table(name).unwrap());
            assert_eq!(new.record().entries, old.record().entries);
        }
        source = reader;
    }
    assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap());
}

/// A file with free pages, whose copy LMDB can write to.
#[test]
fn free_pages_are_left_out() {
    let ((directory, path), (target, copy)) = (place(), place());
    let env = lmdb(directory.path());
    for round in 0..20_u64 {
        let mut txn = env.write_txn().unwrap();
        let table = env.create_database::<Bytes, Bytes>(&mut txn, Some("t")).unwrap();
        for number in 0..2000_u64 {
            let key = (number * 7919 % 5000).to_be_bytes();
            let size = usize::try_from((number + round) % 60 * 100).unwrap();
            table.put(&mut txn, &key, &vec![7; size]).unwrap();
            if number % 3 == round % 3 {
                table.delete(&mut txn, &key).unwrap();
            }
        }
        txn.commit().unwrap();
    }
    let source = Reader::open(&path).unwrap();
    let before = source.walk(&mut |_| {}).unwrap();
    assert!(before.free > 100);
    let made = source.compact(&copy, &|_| true).unwrap();
    assert!(made.pages <= source.pages() - before.free);
    let reader = intact(&copy);
    assert!(rows(&reader, b"t").unwrap() == rows(&source, b"t").unwrap());
    assert_eq!(reader.walk(&mut |_| {}).unwrap().free, 0);
    let txn_before = env.info().last_txn_id;
    let env = lmdb(target.path());
    assert_eq!(env.info().last_txn_id, txn_before);
    let mut txn = env.write_txn().unwrap();
    let table = env.create_database::<Bytes, Bytes>(&mut txn, Some("t")).unwrap();
    table.put(&mut txn, b"another", b"x").unwrap();
    txn.commit().unwrap();
    intact(&copy);
}

#[test]
fn a_snapshot_by_its_transaction() {
    let (_directory, path) = place();
    write_file(&path, PAGE, &[]);
    assert_eq!(Reader::open_at(&path, Some(1)).unwrap().txn(), 1);
    let meta = std::fs::read(&path).unwrap();
    let reader = Reader::open_meta(&path, &meta[PAGE..]).unwrap();
    assert!(reader.compact(&path.with_extension("copy"), &|_| true).is_ok());
    for later in [2, 7] {
        assert_eq!(Reader::open_at(&path, Some(later)).unwrap_err().kind, ErrorKind::Corrupt);
    }
    assert!(Reader::open_meta(&path, &meta[..100]).is_err());
}
