//! Snapshots by transaction, and cuts of a table.

use std::os::unix::fs::FileExt;

use lmdbfile::{ErrorKind, FileWriter, Flags, Format, Options, Reader, Result, TreeWriter};

/// Keys 1 to 50,000.
fn file(path: &std::path::Path) -> Result<()> {
    let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 30 };
    let mut file = FileWriter::create(path, &options)?;
    let mut tree = TreeWriter::new(Flags::INTEGERKEY, file.layout());
    for id in 1..=50_000u64 {
        tree.put(&mut file, &id.to_ne_bytes(), &[7; 40])?;
    }
    let table = tree.finish(&mut file)?;
    file.finish(vec![(b"ids".to_vec(), table)]).map(|_| ())
}

#[test]
fn cuts_are_keys_in_order_and_part_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.mdb");
    file(&path).unwrap();
    let reader = Reader::open(&path).unwrap();
    let table = reader.another().unwrap();
    let table = table.table(b"ids").unwrap();
    let cuts = table.cuts().unwrap();
    let ids: Vec<u64> =
        cuts.iter().map(|cut| u64::from_ne_bytes(cut[..].try_into().unwrap())).collect();
    assert!(ids.len() > 100 && ids.is_sorted() && ids[0] > 1 && ids[ids.len() - 1] < 50_000);
    assert!(ids.iter().all(|id| table.get(&id.to_ne_bytes()).unwrap().is_some()));
}

#[test]
fn a_snapshot_is_that_of_its_meta_page_or_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.mdb");
    file(&path).unwrap();
    for txn in [0, 1] {
        assert_eq!(Reader::open_at(&path, txn).unwrap().txn(), txn);
    }
    let gone = Reader::open_at(&path, 2).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Moved);
    // A later transaction takes the place of the first.
    let data = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    data.write_all_at(&2u64.to_ne_bytes(), 144).unwrap();
    assert_eq!(Reader::open(&path).unwrap().txn(), 2);
    assert_eq!(Reader::open_at(&path, 0).unwrap_err().kind, ErrorKind::Moved);
    assert_eq!(Reader::open_at(&path, 1).unwrap().txn(), 1);
}
