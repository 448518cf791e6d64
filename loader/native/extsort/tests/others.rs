//! Compares sorted tuples, records and spools with results of the standard library.

use std::path::Path;
use std::sync::Arc;

use common::{Code, Error, Result};
use extsort::{RecordSorter, Spool, TupleSorter};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

fn memory() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(3000), Just(100_000), Just(64 * MIB)]
}

fn record() -> impl Strategy<Value = (u128, Vec<u8>)> {
    let prefix = prop_oneof![0..3_u128, any::<u128>(), Just(u128::MAX)];
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(0..2_u8, 0..4),
        (0..9_u8).prop_map(|byte| vec![byte; 5000]),
    ];
    (prefix, bytes)
}

fn sort_records(records: &[(u128, Vec<u8>)], memory: usize, threads: usize) -> Result<Vec<(u128, Vec<u8>)>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut sorter = RecordSorter::new(memory, threads, dir.path(), &Arc::default());
    for (prefix, bytes) in records {
        sorter.push(*prefix, bytes)?;
    }
    let (mut reader, mut found) = (sorter.finish()?, Vec::new());
    while let Some((prefix, bytes)) = reader.next()? {
        found.push((prefix, bytes.to_vec()));
    }
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0, "no file has a name");
    Ok(found)
}

fn sort_tuples(tuples: &[[u64; 3]], memory: usize, threads: usize) -> Result<Vec<[u64; 3]>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut sorter = TupleSorter::new(memory, threads, dir.path(), &Arc::default());
    let (pushed, extended) = tuples.split_at(tuples.len() / 3);
    std::thread::scope(|scope| {
        for part in extended.chunks(700) {
            let sorter = &sorter;
            scope.spawn(move || sorter.extend(part).expect("room in the temporary directory"));
        }
    });
    for &tuple in pushed {
        sorter.push(tuple)?;
    }
    sorter.finish()?.collect()
}

fn read(spool: &Spool) -> Result<Vec<Vec<u8>>> {
    let (mut reader, mut found) = (spool.reader(), Vec::new());
    while let Some(record) = reader.next()? {
        found.push(record.to_vec());
    }
    assert!(reader.next()?.is_none());
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn records_are_sorted(records in prop::collection::vec(record(), 0..400), memory in memory(), threads in 1..4_usize) {
        let found = sort_records(&records, memory, threads).unwrap();
        let mut expected = records;
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn tuples_are_sorted(
        tuples in prop::collection::vec(prop_oneof![any::<[u64; 3]>(), [0..2_u64, 0..2_u64, 0..9_u64]], 0..5000),
        memory in memory(),
        threads in 1..4_usize,
    ) {
        let found = sort_tuples(&tuples, memory, threads).unwrap();
        let mut expected = tuples;
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn spools_return_their_records(records in prop::collection::vec(record(), 0..400), memory in memory()) {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(memory, dir.path(), &Arc::default());
        let mut expected = Vec::new();
        for (prefix, bytes) in records {
            prop_assert_eq!(spool.len(), expected.len() as u64);
            let prefix = prefix.to_be_bytes();
            spool.append_parts(&[&prefix, &bytes]).unwrap();
            expected.push([&prefix[..], &bytes].concat());
            if expected.len() == 100 {
                prop_assert_eq!(&read(&spool).unwrap(), &expected);
            }
        }
        prop_assert_eq!(&read(&spool).unwrap(), &expected);
        prop_assert_eq!(&read(&spool).unwrap(), &expected);
        prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn many_spilled_runs_are_merged() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut tuples: Vec<[u64; 3]> =
        (0..300_000).map(|_| [random.u64(..1000), random.u64(..), random.u64(..)]).collect();
    let found = sort_tuples(&tuples, MIB, 2).unwrap();
    tuples.sort_unstable();
    assert!(found == tuples);

    let mut records: Vec<(u128, Vec<u8>)> =
        tuples.iter().map(|tuple| (u128::from(tuple[1]), vec![b'x'; tuple[0].leading_zeros() as usize])).collect();
    let found = sort_records(&records, MIB, 2).unwrap();
    records.sort();
    assert!(found == records);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let nowhere = Path::new("/nowhere");
    let expected = "/nowhere: temporary file: No such file or directory (os error 2)";

    let mut records = RecordSorter::new(0, 1, nowhere, &Arc::default());
    let mut tuples = TupleSorter::new(0, 1, nowhere, &Arc::default());
    let mut spool = Spool::new(0, nowhere, &Arc::default());
    let errors: [Result<()>; 3] = [
        (0..1000).try_for_each(|number| records.push(number, b"")),
        (0..1000).try_for_each(|number| tuples.push([number])),
        (0..1000).try_for_each(|_| spool.append(&[0; 1000])),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_stop_flag_ends_everything() {
    let stop = Arc::new(true.into());
    let dir = std::env::temp_dir();
    let mut records = RecordSorter::new(MIB, 1, &dir, &stop);
    records.push(1, b"x").unwrap();
    assert!(matches!(records.finish(), Err(Error { code: Code::Cancelled, .. })));
    let tuples = TupleSorter::<u64>::new(MIB, 1, &dir, &stop);
    assert!(matches!(tuples.finish(), Err(Error { code: Code::Cancelled, .. })));
}
