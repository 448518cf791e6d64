//! A compacting copy has the content of its source, page after page, and damage is reported.
#![allow(unsafe_code)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Content, FORMATS, kinds, options_of, rows, write_as, write_file};
use disk::PieceWriter;
use fastrand::Rng;
use heed::types::Bytes;
use heed::{DatabaseFlags, Env, EnvOpenOptions};
use lmdbfile::{ErrorKind, Flags, Format, Reader};

const PAGE: usize = 4096;

fn check_equal(source: &Path, copy: &Path, tables: &[(String, Content)]) {
    let (source, copy) = (Reader::open(source).unwrap(), Reader::open(copy).unwrap());
    let found = copy.walk(&mut |_| {}).unwrap();
    assert_eq!((found.free, found.unreachable.len()), (0, 0));
    assert!(source.names().eq(copy.names()));
    for (name, content) in tables {
        let name = name.as_bytes();
        assert!(rows(&copy, name).unwrap() == content.rows);
        let (old, new) = (source.table(name).unwrap().record(), copy.table(name).unwrap().record());
        assert_eq!((new.entries, new.flags, new.pad), (old.entries, old.flags, old.pad));
        assert_eq!(new.leaf_pages, old.leaf_pages);
    }
    assert_eq!(copy.map_size(), source.map_size());
}

#[test]
fn content_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (source, copy) = (directory.path().join("data.mdb"), directory.path().join("copy"));
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

/// The same copy, assembled from pieces.
fn in_pieces(source: &Path) -> Vec<u8> {
    let (writer, pieces) = PieceWriter::new(1 << 20);
    let all = std::thread::spawn(move || pieces.iter().map(|one| one.to_vec()).collect());
    let head = Reader::open(source).unwrap().compact_in_pieces(writer, &|_| true).unwrap();
    let all: Vec<Vec<u8>> = all.join().unwrap();
    [head, all.concat()].concat()
}

#[test]
fn a_receiver_that_is_gone_ends_the_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.mdb");
    let content =
        Content { flags: Flags::NONE, rows: vec![(b"key".to_vec(), vec![vec![7; 3 << 20]])] };
    write_as(&path, &options_of(Format::V1, PAGE), &[("t".to_owned(), content)]);
    let (writer, pieces) = PieceWriter::new(1 << 20);
    drop(pieces);
    let error = Reader::open(&path).unwrap().compact_in_pieces(writer, &|_| true).unwrap_err();
    assert!(error.to_string().contains("Broken pipe"), "{error}");
}

fn open(place: &Path) -> Env {
    let mut options = EnvOpenOptions::new();
    options.map_size(1 << 30).max_dbs(8);
    // SAFETY: the directory is the test's own and the file is opened once.
    unsafe { options.open(place) }.unwrap()
}

/// Trees of values of each depth, their pages in the order of creation; then the same from the copy, in which the pages
/// of each tree are contiguous.
#[test]
fn trees_of_values_in_any_page_order() {
    let directory = tempfile::tempdir().unwrap();
    let rng = &mut Rng::with_seed(7);
    let env = open(directory.path());
    for _ in 0..40 {
        let mut txn = env.write_txn().unwrap();
        for (name, fixed) in [("fixed", DatabaseFlags::DUP_FIXED), ("any", DatabaseFlags::empty())]
        {
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
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    let mut source = Reader::open(&directory.path().join("data.mdb")).unwrap();
    for copy in [&first, &second] {
        source.compact(copy, &|_| true).unwrap();
        let reader = Reader::open(copy).unwrap();
        for name in [b"fixed".as_slice(), b"any"] {
            assert!(rows(&reader, name).unwrap() == rows(&source, name).unwrap());
            let (new, old) = (reader.table(name).unwrap(), source.table(name).unwrap());
            assert_eq!(new.record().entries, old.record().entries);
        }
        assert!(reader.walk(&mut |_| {}).unwrap().unreachable.is_empty());
        source = reader;
    }
    assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap());
}

/// A file with free pages, whose copy LMDB can write to.
#[test]
fn free_pages_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let env = open(directory.path());
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
    let source = Reader::open(&directory.path().join("data.mdb")).unwrap();
    let before = source.walk(&mut |_| {}).unwrap();
    assert!(before.free > 100);
    let copy = target.path().join("data.mdb");
    let made = source.compact(&copy, &|_| true).unwrap();
    assert!(made.pages <= source.pages() - before.free);
    let reader = Reader::open(&copy).unwrap();
    assert!(rows(&reader, b"t").unwrap() == rows(&source, b"t").unwrap());
    let found = reader.walk(&mut |_| {}).unwrap();
    assert_eq!((found.free, found.unreachable.len()), (0, 0));
    let txn_before = env.info().last_txn_id;
    let env = open(target.path());
    assert_eq!(env.info().last_txn_id, txn_before);
    let mut txn = env.write_txn().unwrap();
    let table = env.create_database::<Bytes, Bytes>(&mut txn, Some("t")).unwrap();
    table.put(&mut txn, b"another", b"x").unwrap();
    txn.commit().unwrap();
    assert!(Reader::open(&copy).unwrap().walk(&mut |_| {}).unwrap().unreachable.is_empty());
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let pages = bytes.len() / PAGE;
    let page = |rng: &mut Rng| rng.usize(..pages) * PAGE;
    match rng.u8(..6) {
        0 => bytes.truncate(rng.usize(2 * PAGE..bytes.len())),
        1 => {
            let (from, to) = (page(rng), page(rng));
            bytes.copy_within(from + 8..from + PAGE, to + 8);
        }
        2 => {
            let at = page(rng) + 2 * rng.usize(..PAGE / 2 - 1);
            let field = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            let field = field.wrapping_add(rng.u16(..32)).wrapping_sub(16);
            bytes[at..at + 2].copy_from_slice(&field.to_ne_bytes());
        }
        3 => {
            let at = rng.usize(..2) * PAGE + 16 + 8 * rng.usize(..17);
            let field = [0, 1, 2, 3, u64::MAX, rng.u64(..100), 1 << 47][rng.usize(..7)];
            bytes[at..at + 8].copy_from_slice(&field.to_ne_bytes());
        }
        _ => {
            let at = page(rng) + rng.usize(..64);
            bytes[at] = rng.u8(..);
        }
    }
}

/// Damaged files are refused, or the copy is intact.
#[test]
fn damage_is_survived() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("data.mdb"), directory.path().join("copy"));
    let (mut found, mut most) = (0, Duration::ZERO);
    let mut sound = Vec::new();
    for seed in 0..800 {
        let rng = &mut Rng::with_seed(seed);
        if seed % 100 == 0 {
            let tables: Vec<_> = (kinds().into_iter().enumerate())
                .map(|(at, flags)| {
                    let mut content = common::content(rng, flags, PAGE);
                    content.rows.truncate(40);
                    (format!("table{at}"), content)
                })
                .collect();
            write_file(&path, PAGE, &tables);
            sound = std::fs::read(&path).unwrap();
        }
        let mut bytes = sound.clone();
        for _ in 0..rng.usize(1..6) {
            damage(rng, &mut bytes);
        }
        std::fs::write(&path, bytes).unwrap();
        let start = Instant::now();
        let result = Reader::open(&path).and_then(|reader| reader.compact(&copy, &|_| true));
        most = most.max(start.elapsed());
        match result {
            Err(error) => {
                assert!(!error.message.is_empty());
                found += 1;
            }
            Ok(made) => {
                let (mut pages, reader) = (0, Reader::open(&copy).unwrap());
                reader.walk(&mut |page| pages += page.count).unwrap();
                assert_eq!(pages, made.pages);
            }
        }
    }
    assert!(found > 200, "only {found} of 800 damaged files were refused");
    assert!(most < Duration::from_secs(10), "{most:?}");
}

#[test]
fn a_snapshot_by_its_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("data.mdb"), directory.path().join("copy"));
    write_file(&path, PAGE, &[]);
    assert!(Reader::open_at(&path, Some(1)).is_ok());
    let meta = std::fs::read(&path).unwrap();
    let reader = Reader::open_meta(&path, &meta[PAGE..]).unwrap();
    assert!(reader.compact(&copy, &|_| true).is_ok());
    assert_eq!(Reader::open_at(&path, Some(7)).unwrap_err().kind, ErrorKind::Corrupt);
    assert!(Reader::open_meta(&path, &meta[..100]).is_err());
}
