//! Everything that is written can be read back, and every page is accounted for.

mod common;

use std::collections::BTreeMap;

use common::{MAP_SIZE, check, intact, options_of, place, rows, tables, write_file, write_table};
use fastrand::Rng;
use lmdbfile::{ErrorKind, FileWriter, Flags, Format, Order, PageUse, Reader, TableReader, TreeWriter};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn everything_written_is_read_back(seed: u64, bits in 12usize..16) {
        let (rng, page_size) = (&mut Rng::with_seed(seed), 1 << bits);
        let (_directory, path) = place();
        let tables = tables(rng, page_size);
        let summary = write_file(&path, page_size, &tables);
        prop_assert_eq!(path.metadata().unwrap().len(), summary.bytes);
        let again = path.with_extension("again");
        write_file(&again, page_size, &tables);
        prop_assert!(std::fs::read(&path).unwrap() == std::fs::read(&again).unwrap());

        let scattered = Reader::open_scattered(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        prop_assert_eq!(reader.pages(), summary.pages);
        prop_assert_eq!(reader.map_size(), MAP_SIZE);
        let (mut visited, mut by_table) = (0, BTreeMap::<String, u64>::new());
        let mut visit = |page: &PageUse<'_>| {
            visited += page.count;
            *by_table.entry(page.table.to_owned()).or_default() += page.count;
        };
        let found = reader.walk(&mut visit).unwrap();
        prop_assert_eq!(visited, summary.pages);
        let (mut left, wanted) = (3, found.branch + found.leaf + 1);
        let (_, damage) = reader.survey(None, &mut |_| { left -= 1; left > 0 });
        prop_assert_eq!(damage.len() == 1, wanted >= 3, "of {} uses", wanted);
        prop_assert!(left >= 0, "the survey continues after it was told to stop");
        prop_assert_eq!(found.unreachable, vec![]);
        prop_assert_eq!(found.free, 0);
        let names: Vec<_> = tables.iter().map(|(name, _)| name.as_bytes()).collect();
        prop_assert_eq!(reader.names().collect::<Vec<_>>(), names);
        for reader in [&reader, &scattered] {
            check(reader, &tables);
        }
        for (name, content) in &tables {
            let table = reader.table(name.as_bytes()).unwrap();
            prop_assert_eq!(table.record().flags, content.flags);
            let count: usize = content.rows.iter().map(|(_, values)| values.len()).sum();
            prop_assert_eq!(table.record().entries, count as u64);
            let mut cursor = table.cursor().unwrap();
            for (_, values) in content.rows.iter().rev() {
                let found = cursor.previous().unwrap();
                prop_assert_eq!(found.as_ref(), Some(values));
            }
            prop_assert!(cursor.previous().unwrap().is_none());
            let (keys, pages) = keys(table);
            let walked = by_table.get(name).copied().unwrap_or_default();
            prop_assert_eq!(pages, walked);
            prop_assert_eq!(keys.len(), content.rows.len());
            for ((key, count, first), (expected, values)) in keys.iter().zip(&content.rows) {
                prop_assert_eq!((key, *count), (expected, values.len() as u64));
                // With a header and pointer for each value on a sub-page, these still fit in the leaf.
                let is_small = values.iter().map(|value| value.len() + 12).sum::<usize>() < 400;
                prop_assert!(first.is_some() || !is_small);
                prop_assert!(first.as_ref().is_none_or(|first| *first == values[0]));
            }
            let last = content.rows.last().map(|(key, _)| key.clone());
            prop_assert_eq!(table.last_key().unwrap(), last);
            for (key, values) in rng.choose_multiple(content.rows.iter(), 20) {
                prop_assert_eq!(&table.get(key).unwrap().unwrap(), &values[0]);
                prop_assert_eq!(&table.get_all(key).unwrap(), values);
                let some = rng.choice(values).unwrap();
                prop_assert!(table.contains(key, some).unwrap());
                prop_assert_eq!(table.find(key, some).unwrap(), Some(some.clone()));
                let counted = (values[0].clone(), values.len() as u64);
                prop_assert_eq!(table.counted(key).unwrap(), Some(counted));
                let mut other = some.clone();
                other.push(1);
                prop_assert_eq!(table.contains(key, &other).unwrap(), values.contains(&other));
                let found = table.find(key, &other).unwrap();
                prop_assert_eq!(found, values.contains(&other).then_some(other));
            }
        }
    }

    #[test]
    fn seek_finds_the_next_key(seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        let (_directory, path) = place();
        let tables = tables(rng, 4096);
        write_file(&path, 4096, &tables);
        let reader = Reader::open(&path).unwrap();
        for (name, content) in &tables {
            let (table, order) = (reader.table(name.as_bytes()).unwrap(), content.flags.key_order());
            let mut cursor = table.cursor().unwrap();
            for _ in 0..20 {
                let sought = rng.u64(..).to_ne_bytes();
                let next = content.rows.iter().find(|(key, _)| order.compare(key, &sought).is_ge());
                let exact = cursor.seek(&sought).unwrap();
                prop_assert_eq!(exact, next.is_some_and(|(key, _)| key[..] == sought));
                let found = cursor.next().unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
                prop_assert_eq!(found, next.map(|(key, values)| (key.clone(), values[0].clone())));
            }
        }
    }

    /// Keys that get their values late, at any position and of any size.
    #[test]
    fn pending_values(seed: u64) {
        let rng = &mut Rng::with_seed(seed);
        let (_directory, path) = place();
        let mut file = FileWriter::create(&path, &options_of(Format::V1, 4096)).unwrap();
        let mut writer = TreeWriter::new(Flags::INTEGERKEY, file.layout());
        let (mut held, mut expected) = (Vec::new(), Vec::new());
        let every = [2, 100][rng.usize(..2)];
        for id in 0..rng.u64(1..3000) {
            let size = [0, 5, 900, 2022, 2023, 5000][rng.usize(..6)];
            let (key, value) = (id.to_ne_bytes(), vec![rng.u8(..); size]);
            if rng.u8(..every) == 0 {
                held.push((writer.held(&mut file, &key).unwrap(), value.clone()));
            } else {
                writer.put(&mut file, &key, &value).unwrap();
            }
            expected.push((key.to_vec(), vec![value]));
        }
        for (held, value) in &held {
            writer.fill(&mut file, held, value).unwrap();
        }
        let table = writer.finish(&mut file).unwrap();
        file.finish(vec![(b"t".to_vec(), table)]).unwrap();
        prop_assert!(rows(&intact(&path), b"t").unwrap() == expected);
    }
}

/// Tables may be written alternately, and a table without a known order keeps the order of insertion.
#[test]
fn own_order() {
    let (_directory, path) = place();
    let mut file = FileWriter::create(&path, &options_of(Format::V1, 4096)).unwrap();
    let mut down = TreeWriter::new(Flags::DUPSORT, file.layout()).in_own_order();
    let mut up = TreeWriter::new(Flags::INTEGERKEY, file.layout());
    for id in 0..5000_u64 {
        up.put(&mut file, &id.to_ne_bytes(), b"up").unwrap();
        down.begin(&(5000 - id).to_be_bytes()).unwrap();
        for value in [&b"ccc"[..], b"bb", b"a"] {
            down.dup(&mut file, value).unwrap();
        }
        down.end(&mut file).unwrap();
    }
    let (down, up) = (down.finish(&mut file).unwrap(), up.finish(&mut file).unwrap());
    file.finish(vec![(b"up".to_vec(), up), (b"down".to_vec(), down)]).unwrap();

    let mut reader = Reader::open(&path).unwrap();
    let error = reader.walk(&mut |_| {}).unwrap_err();
    assert_eq!((error.kind, error.table.as_deref()), (ErrorKind::Corrupt, Some("down")));
    let reverse = Order::Custom(|left, right| right.cmp(left));
    reader.set_orders(b"down", reverse, reverse);
    assert_eq!(reader.walk(&mut |_| {}).unwrap().unreachable, vec![]);
    let table = reader.table(b"down").unwrap();
    assert_eq!(table.get_all(&77_u64.to_be_bytes()).unwrap(), [&b"ccc"[..], b"bb", b"a"]);
    assert!(table.contains(&77_u64.to_be_bytes(), b"bb").unwrap());
    assert!(!table.contains(&77_u64.to_be_bytes(), b"b").unwrap());
}

#[test]
fn invalid_rows_are_refused() {
    let (_directory, path) = place();
    let file = &mut FileWriter::create(&path, &options_of(Format::V1, 4096)).unwrap();
    let table = |flags| TreeWriter::new(flags, file.layout());
    let kind = |result: lmdbfile::Result<()>| result.unwrap_err().kind;
    let (mut plain, mut many) = (table(Flags::NONE), table(Flags::DUPSORT));
    let mut fixed = table(Flags::DUPFIXED | Flags::INTEGERDUP);

    assert_eq!(kind(plain.put(file, b"", b"")), ErrorKind::Empty);
    assert_eq!(kind(plain.put(file, &[1; 512], b"")), ErrorKind::TooLong);
    plain.put(file, b"b", b"").unwrap();
    assert_eq!(kind(plain.put(file, b"b", b"")), ErrorKind::Order);
    assert_eq!(kind(plain.put(file, b"a", b"")), ErrorKind::Order);
    assert_eq!(kind(plain.begin(b"c")), ErrorKind::Misuse);
    assert_eq!(kind(many.dup(file, b"c")), ErrorKind::Misuse);
    assert_eq!(many.held(file, b"c").unwrap_err().kind, ErrorKind::Misuse);
    many.begin(b"c").unwrap();
    assert_eq!(kind(many.begin(b"d")), ErrorKind::Misuse);
    assert_eq!(kind(many.fixed(file, &[1])), ErrorKind::Misuse);
    assert_eq!(kind(many.dup(file, b"")), ErrorKind::Empty);
    assert_eq!(kind(many.dup(file, &[1; 512])), ErrorKind::TooLong);
    many.dup(file, b"2").unwrap();
    assert_eq!(kind(many.dup(file, b"2")), ErrorKind::Order);
    assert_eq!(kind(many.dup(file, b"1")), ErrorKind::Order);
    assert_eq!(many.finish(file).unwrap_err().kind, ErrorKind::Misuse);
    fixed.begin(b"c").unwrap();
    assert_eq!(kind(fixed.end(file)), ErrorKind::Misuse);
    let mut fixed = TreeWriter::new(Flags::DUPFIXED | Flags::INTEGERDUP, file.layout());
    fixed.begin(b"c").unwrap();
    assert_eq!(kind(fixed.fixed(file, &[3, 5, 5])), ErrorKind::Order);
    fixed.fixed(file, &[3, 5]).unwrap();
    assert_eq!(kind(fixed.fixed(file, &[4, 6])), ErrorKind::Order);
    assert_eq!(kind(fixed.dup(file, b"12345")), ErrorKind::Misuse);
    let mut waits = TreeWriter::new(Flags::NONE, file.layout());
    let _held = waits.held(file, b"x").unwrap();
    assert_eq!(waits.finish(file).unwrap_err().kind, ErrorKind::Misuse);
}

#[test]
fn a_file_that_outgrows_its_map_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = lmdbfile::Options { map_size: 1 << 20, ..options_of(Format::V1, 4096) };
    let mut file = FileWriter::create(&directory.path().join("data.mdb"), &options).unwrap();
    let mut writer = TreeWriter::new(Flags::INTEGERKEY, file.layout());
    let mut put = |id: u64| writer.put(&mut file, &id.to_ne_bytes(), &[1; 1500]);
    let error = (0..600).find_map(|id| put(id).err()).unwrap();
    assert_eq!(error.kind, ErrorKind::Full);
    assert!(error.to_string().contains("1048576"));
    assert_eq!(file.pages(), 256);
}

#[test]
fn options_are_checked() {
    for page_size in [0, 512, 4097, 65536] {
        let path = std::path::Path::new("/nonexistent");
        let error = FileWriter::create(path, &options_of(Format::V1, page_size)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Misuse);
    }
}

/// On a device that is always full, the caller gets the writer's error with its errno.
#[test]
fn a_full_disk_is_reported() {
    let mut file = FileWriter::create(std::path::Path::new("/dev/full"), &options_of(Format::V1, 4096)).unwrap();
    let big = common::Content {
        flags: Flags::NONE,
        rows: (0..4_u8).map(|key| (vec![key + 1], vec![vec![0; 9 << 20]])).collect(),
    };
    let mut writer = TreeWriter::new(Flags::NONE, file.layout());
    let mut put = |at: usize| writer.put(&mut file, &big.rows[at].0, &big.rows[at].1[0]);
    let error = (0..4).find_map(|at| put(at).err()).unwrap();
    assert_eq!((error.kind, error.errno), (ErrorKind::NoSpace, Some(28)));
    assert!(error.to_string().starts_with("/dev/full: "));
    assert_eq!(file.finish(vec![]).unwrap_err(), error);

    let mut file = FileWriter::create(std::path::Path::new("/dev/full"), &options_of(Format::V1, 4096)).unwrap();
    let table = write_table(&mut file, &common::Content { flags: Flags::NONE, rows: vec![] });
    let error = file.finish(vec![(b"t".to_vec(), table)]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
}

/// Covers file systems that may not support direct I/O.
#[test]
fn in_memory_file_systems() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = directory.path().join("data.mdb");
    let tables = tables(&mut Rng::with_seed(1), 4096);
    write_file(&path, 4096, &tables);
    check(&intact(&path), &tables);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Cuts ascend and no key between them is lost; a fork on another thread agrees.
    #[test]
    fn cuts_part_a_table(seed: u64, wanted in 0usize..60) {
        let rng = &mut Rng::with_seed(seed);
        let (_directory, path) = place();
        let tables = tables(rng, 4096);
        write_file(&path, 4096, &tables);
        let reader = Reader::open_at(&path, Some(0)).unwrap();
        for (name, content) in &tables {
            let table = reader.table(name.as_bytes()).unwrap();
            let cuts = table.cuts(wanted).unwrap();
            let order = content.flags.key_order();
            prop_assert!(cuts.windows(2).all(|pair| order.compare(&pair[0], &pair[1]).is_lt()));
            if table.record().depth < 2 || wanted == 0 {
                prop_assert!(cuts.is_empty());
            }
            let fork = reader.fork().unwrap();
            let keys = content.rows.len();
            let met = std::thread::spawn({
                let name = name.clone();
                move || part_by_part(&fork, name.as_bytes(), &cuts)
            });
            prop_assert_eq!(met.join().unwrap(), keys);
        }
    }
}

/// Counts the keys when each part is read separately; further values of a key are skipped.
fn part_by_part(reader: &Reader, name: &[u8], cuts: &[Vec<u8>]) -> usize {
    let table = reader.table(name).unwrap();
    let order = table.record().flags.key_order();
    let mut met = 0;
    for part in 0..=cuts.len() {
        let mut cursor = table.cursor().unwrap();
        if part > 0 {
            cursor.seek(&cuts[part - 1]).unwrap();
        }
        while let Some((key, _)) = cursor.next().unwrap() {
            if cuts.get(part).is_some_and(|cut| order.compare(key, cut).is_ge()) {
                break;
            }
            met += 1;
            cursor.skip();
        }
    }
    met
}

/// Limits of each format: keys and values just below them are written and read back with every page size.
#[test]
fn formats_and_page_sizes() {
    let (_directory, path) = place();
    for (format, bits) in [(Format::V1, 12..16), (Format::V3, 12..17)] {
        for bits in bits {
            let options = common::options_of(format, 1 << bits);
            let rng = &mut Rng::with_seed(bits);
            let mut tables: Vec<_> = (0..)
                .zip(common::kinds())
                .map(|(at, flags)| (format!("t{at}"), common::content(rng, flags, 1 << bits)))
                .collect();
            let most = FileWriter::create(&path, &options).unwrap().layout().max_key();
            let long = |byte: u8, less: usize| vec![byte; most - less];
            let values = vec![long(1, 0), long(2, 1), long(3, 0)];
            let rows = vec![(long(1, 1), values[..1].to_vec()), (long(2, 0), values)];
            tables.push(("long".to_owned(), common::Content { flags: Flags::DUPSORT, rows }));
            common::write_as(&path, &options, &tables);
            let reader = intact(&path);
            let layout = reader.layout();
            assert_eq!((layout.format(), layout.page_size()), (format, 1 << bits));
            check(&reader, &tables);
        }
    }
}

type FoundKey = (Vec<u8>, u64, Option<Vec<u8>>);

/// Returns each key with its number of values and its first value if that is in the node; and the number of pages.
fn keys(table: TableReader<'_>) -> (Vec<FoundKey>, u64) {
    let (mut keys, mut found) = (table.keys().unwrap(), Vec::new());
    let mut pages = table.pages().unwrap();
    while let Some(one) = keys.next().unwrap() {
        found.push((one.key.to_vec(), one.count, one.first.map(<[u8]>::to_vec)));
        pages += one.pages;
    }
    (found, pages)
}
