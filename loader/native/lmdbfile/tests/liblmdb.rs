//! LMDB itself opens, reads and changes the written files, and they stay intact.

mod common;

use common::{Content, Rows, add_row, check, content, intact, kinds, lmdb, place, tables, write_file};
use fastrand::Rng;
use heed::types::Bytes;
use heed::{Database, DatabaseFlags, Env, RwTxn};
use lmdbfile::Flags;
use proptest::prelude::*;

/// Opens the table with that name, or creates it.
fn database(env: &Env, txn: &mut RwTxn<'_>, name: &str, flags: Flags) -> Database<Bytes, Bytes> {
    let mut options = env.database_options().types::<Bytes, Bytes>();
    options.name(name).flags(DatabaseFlags::from_bits_truncate(flags.bits().into()));
    options.create(txn).unwrap()
}

fn all(txn: &RwTxn<'_>, database: Database<Bytes, Bytes>) -> Rows {
    let mut found: Rows = Vec::new();
    for row in database.iter(txn).unwrap() {
        let (key, value) = row.unwrap();
        add_row(&mut found, key, value);
    }
    found
}

/// Inserts and deletes at random, in LMDB and in the content.
fn change(rng: &mut Rng, txn: &mut RwTxn<'_>, database: Database<Bytes, Bytes>, content: &mut Content) {
    let (keys, order) = (content.flags.key_order(), content.flags.value_order());
    let size = content.rows.first().map(|(_, values)| values[0].len());
    for (mut key, values) in common::content(rng, content.flags, 4096).rows.into_iter().take(60) {
        if content.flags.contains(Flags::DUPFIXED) && Some(values[0].len()) != size {
            continue;
        }
        if content.flags.contains(Flags::DUPSORT) && rng.bool() {
            key = rng.choice(&content.rows).map_or(key, |row| row.0.clone());
        }
        let at = content.rows.partition_point(|(known, _)| keys.compare(known, &key).is_lt());
        if content.rows.get(at).is_none_or(|row| row.0 != key) {
            content.rows.insert(at, (key.clone(), Vec::new()));
        } else if !content.flags.contains(Flags::DUPSORT) {
            continue;
        }
        for value in values {
            database.put(txn, &key, &value).unwrap();
            let known = &mut content.rows[at].1;
            let place = known.partition_point(|known| order.compare(known, &value).is_lt());
            if known.get(place) != Some(&value) {
                known.insert(place, value);
            }
        }
    }
    for _ in 0..content.rows.len().min(200) {
        let at = rng.usize(..content.rows.len());
        let (key, values) = &mut content.rows[at];
        if values.len() > 1 {
            for _ in 0..values.len().min(400) - 1 {
                let gone = values.remove(rng.usize(..values.len()));
                assert!(database.delete_one_duplicate(txn, key, &gone).unwrap());
            }
        } else {
            assert!(database.delete(txn, key).unwrap());
            content.rows.remove(at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn lmdb_reads_and_changes_it(seed: u64, bits in 12usize..16) {
        let rng = &mut Rng::with_seed(seed);
        let (directory, path) = place();
        let mut tables = tables(rng, 1 << bits);
        write_file(&path, 1 << bits, &tables);
        let env = lmdb(directory.path());
        for _ in 0..4 {
            let mut txn = env.write_txn().unwrap();
            for (name, content) in &mut tables {
                let database = database(&env, &mut txn, name, content.flags);
                prop_assert!(all(&txn, database) == content.rows, "{}", name);
                change(rng, &mut txn, database, content);
            }
            txn.commit().unwrap();
        }
        drop(env);
        check(&intact(&path), &tables);
    }
}

/// Empties every kind of table key by key, which makes LMDB merge all pages.
#[test]
fn lmdb_empties_it() {
    for (seed, flags) in (0..).zip(kinds().into_iter().cycle().take(40)) {
        let rng = &mut Rng::with_seed(seed);
        let (directory, path) = place();
        let content = content(rng, flags, 4096);
        write_file(&path, 4096, &[("t".to_owned(), content.clone())]);
        let env = lmdb(directory.path());
        let mut txn = env.write_txn().unwrap();
        let database = database(&env, &mut txn, "t", flags);
        for (key, values) in &content.rows {
            for value in values.iter().skip(1).rev() {
                assert!(database.delete_one_duplicate(&mut txn, key, value).unwrap());
            }
            assert!(database.delete(&mut txn, key).unwrap());
        }
        assert_eq!(all(&txn, database), Rows::new());
        txn.commit().unwrap();
        drop(env);
        assert_eq!(intact(&path).table(b"t").unwrap().record().depth, 0);
    }
}

/// Reads files written by LMDB itself.
#[test]
fn lmdbs_own_files_are_read() {
    for (seed, flags) in (0..).zip(kinds().into_iter().cycle().take(24)) {
        let rng = &mut Rng::with_seed(seed);
        let (directory, path) = place();
        let content = content(rng, flags, 4096);
        let env = lmdb(directory.path());
        let mut txn = env.write_txn().unwrap();
        let database = database(&env, &mut txn, "t", flags);
        let each = |(key, values)| std::iter::zip(std::iter::repeat(key), values);
        let mut all: Vec<(&Vec<u8>, &Vec<u8>)> =
            content.rows.iter().map(|(key, values)| (key, values)).flat_map(each).collect();
        rng.shuffle(&mut all);
        for (key, value) in all {
            database.put(&mut txn, key, value).unwrap();
        }
        txn.commit().unwrap();
        drop(env);
        check(&intact(&path), &[("t".to_owned(), content)]);
    }
}
