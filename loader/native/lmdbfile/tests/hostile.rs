//! Damaged files: each is read to its end or refused, without a panic and without delay.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Content, FORMATS, kinds, options_of, place, rows, write_as, write_file};
use disk::Buffer;
use fastrand::Rng;
use lmdbfile::{Error, ErrorKind, Format, PageUsage, Reader, Result, Seen, TableReader};

const PAGE: usize = 4096;

/// Writes a small intact file with every kind of page.
fn sound(path: &Path, format: Format, rng: &mut Rng) {
    let mut tables = Vec::new();
    for (at, flags) in kinds().into_iter().enumerate() {
        let mut content = common::content(rng, flags, PAGE);
        content.rows.truncate(40);
        tables.push((format!("table{at}"), content));
    }
    write_as(path, &options_of(format, PAGE), &tables);
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let pages = bytes.len() / PAGE;
    let page = |rng: &mut Rng| rng.usize(..pages) * PAGE;
    match rng.u8(..10) {
        0 => bytes.truncate(rng.usize(..bytes.len())),
        1 => {
            let (from, to) = (page(rng), page(rng));
            bytes.copy_within(from..from + PAGE, to);
        }
        // Another page number where this one is expected.
        2 => {
            let (from, to) = (page(rng), page(rng));
            bytes.copy_within(from + 8..from + PAGE, to + 8);
        }
        3..6 => {
            let at = page(rng) + rng.usize(..64);
            bytes[at] = rng.u8(..);
        }
        6 => {
            // A pointer, size or count of two bytes, moved a little.
            let at = page(rng) + 2 * rng.usize(..PAGE / 2 - 1);
            let field = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            let field = field.wrapping_add(rng.u16(..32)).wrapping_sub(16);
            bytes[at..at + 2].copy_from_slice(&field.to_ne_bytes());
        }
        7 => {
            // The records in the meta pages.
            let at = rng.usize(..2) * PAGE + 16 + 8 * rng.usize(..18);
            let field = [0, 1, 2, 3, u64::MAX, u64::MAX - 1, rng.u64(..100), 1 << 47][rng.usize(..8)];
            bytes[at..at + 8].copy_from_slice(&field.to_ne_bytes());
        }
        _ => {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u8(..8);
        }
    }
}

/// A walk with page contents recorded in pieces, in random order, finds the same as a walk that reads the pages.
fn seen_before(reader: &Reader, bytes: &[u8], rng: &mut Rng) {
    let (seen, size) = (Seen::new(reader), rng.usize(1..5) * PAGE);
    let mut starts: Vec<_> = (0..bytes.len()).step_by(size).collect();
    rng.shuffle(&mut starts);
    for start in starts.into_iter().filter(|_| rng.u8(..10) > 0) {
        let piece = &bytes[start..bytes.len().min(start + size)];
        let given_back = seen.look(start as u64, Buffer::from(piece));
        assert!(given_back[..] == *piece);
    }
    let words = |found: (PageUsage, Vec<Error>)| (found.0, found.1.iter().map(ToString::to_string).collect::<Vec<_>>());
    let read = words(reader.survey(None, &mut |_| true));
    assert_eq!(words(reader.survey(Some(&seen), &mut |_| true)), read);
}

/// Counts the pages of the table's tree and of its trees of values.
fn count_pages(table: TableReader<'_>) -> Result<u64> {
    let (mut keys, mut pages) = (table.keys()?, table.pages()?);
    while let Some(key) = keys.next()? {
        pages += key.pages;
    }
    Ok(pages)
}

fn read_all(path: &Path, rng: &mut Rng) -> Result<()> {
    let reader = Reader::open(path)?;
    seen_before(&reader, &std::fs::read(path)?, rng);
    let (walked, copy) = (reader.walk(&mut |_| {}), path.with_extension("copy"));
    // A copy is intact whatever its source is like.
    if let Ok(made) = reader.compact(&copy, &|_| true) {
        let mut pages = 0;
        Reader::open(&copy)?.walk(&mut |page| pages += page.count).unwrap();
        assert_eq!(pages, made.pages);
    }
    for name in reader.names() {
        let _ = rows(&reader, name);
        let table = reader.table(name).unwrap();
        assert!(count_pages(table).is_ok_and(|pages| pages <= reader.pages()) || walked.is_err());
        for _ in 0..5 {
            let key = rng.u64(..).to_ne_bytes();
            let _ = table.get(&key[..rng.usize(..8)]);
            let _ = table.get_all(&key);
            let _ = table.contains(&key, b"x");
        }
    }
    walked.map(|_| ())
}

#[test]
fn damage_is_survived() {
    let (_directory, path) = place();
    let (mut found, mut most, mut whole) = (0, Duration::ZERO, Vec::new());
    for seed in 0..2000 {
        let rng = &mut Rng::with_seed(seed);
        if seed % 200 == 0 {
            let format = FORMATS[usize::try_from(seed / 200 % 2).unwrap()];
            sound(&path, format, &mut Rng::with_seed(seed));
            whole = std::fs::read(&path).unwrap();
        }
        let mut bytes = whole.clone();
        for _ in 0..rng.usize(1..6) {
            if bytes.len() > 2 * PAGE {
                damage(rng, &mut bytes);
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let start = Instant::now();
        if let Err(error) = read_all(&path, rng) {
            assert!(!error.message.is_empty());
            found += 1;
        }
        most = most.max(start.elapsed());
    }
    assert!(found > 500, "only {found} of 2000 damaged files were refused");
    assert!(most < Duration::from_secs(5), "{most:?}");
}

/// Branches that refer to themselves, and a leaf that is referred to a thousand times.
#[test]
fn loops_end() {
    let (_directory, path) = place();
    let rows = (0..30_000_u64).map(|id| (id.to_ne_bytes().to_vec(), vec![vec![1; 50]])).collect();
    let content = Content { flags: lmdbfile::Flags::INTEGERKEY, rows };
    write_file(&path, PAGE, &[("t".to_owned(), content)]);
    let sound = std::fs::read(&path).unwrap();
    let number = |page: usize| u64::try_from(page).unwrap().to_ne_bytes();
    let branches = (2..sound.len() / PAGE).filter(|page| sound[page * PAGE + 10] & 1 == 1);
    for branch in branches.collect::<Vec<_>>() {
        for child in [branch, 2] {
            let mut bytes = sound.clone();
            let page = &mut bytes[branch * PAGE..(branch + 1) * PAGE];
            let count = (usize::from(u16::from_ne_bytes([page[12], page[13]])) - 16) / 2;
            for at in 0..count {
                let node = usize::from(u16::from_ne_bytes([page[16 + 2 * at], page[17 + 2 * at]]));
                page[node..node + 6].copy_from_slice(&number(child)[..6]);
            }
            std::fs::write(&path, bytes).unwrap();
            let reader = Reader::open(&path).unwrap();
            let error = reader.walk(&mut |_| {}).unwrap_err();
            assert_eq!((error.kind, error.table.as_deref()), (ErrorKind::Corrupt, Some("t")));
            assert!(common::rows(&reader, b"t").is_err());
        }
    }
}

#[test]
fn other_files_are_refused() {
    let (directory, path) = place();
    for content in [vec![], vec![0; 100], vec![0; 10_000], b"dn: dc=example\n".repeat(1000)] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(Reader::open(&path).unwrap_err().kind, ErrorKind::Foreign);
    }
    let error = Reader::open(&directory.path().join("none")).unwrap_err();
    assert_eq!((error.kind, error.errno), (ErrorKind::Io, Some(2)));
    // A file of another version is refused by its version number.
    write_file(&path, PAGE, &[]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] = 2;
    std::fs::write(&path, bytes).unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert!(error.to_string().contains("data format 2 is of no released LMDB"), "{error}");
}

/// The loss of any single page is noticed.
#[test]
fn no_page_can_be_missing() {
    let (_directory, path) = place();
    for (format, header) in FORMATS.into_iter().zip([16, 24]) {
        sound(&path, format, &mut Rng::with_seed(3));
        let sound = std::fs::read(&path).unwrap();
        let mut page = 2;
        while page < sound.len() / PAGE {
            let start = page * PAGE;
            let mut bytes = sound.clone();
            bytes[start..start + PAGE].fill(0);
            std::fs::write(&path, bytes).unwrap();
            let walked = Reader::open(&path).and_then(|reader| reader.walk(&mut |_| {}));
            assert_eq!(walked.unwrap_err().kind, ErrorKind::Corrupt);
            std::fs::write(&path, &sound[..start]).unwrap();
            assert!(Reader::open(&path).and_then(|reader| reader.walk(&mut |_| {})).is_err(), "cut at page {page}");
            let (head, is_overflow) = (&sound[start..start + header], 4);
            let run = u32::from_ne_bytes(head[header - 4..].try_into().unwrap());
            let pages = if head[header - 6] & is_overflow > 0 { run } else { 1 };
            page += usize::try_from(pages).unwrap();
        }
        assert!(page > 2, "the file has no pages");
    }
}

/// Checks that only format 3 needs.
#[test]
fn pages_that_lmdb_would_misread_are_refused() {
    let (_directory, path) = place();
    let rows = vec![(b"key".to_vec(), vec![vec![7; 3 * PAGE]])];
    let content = Content { flags: lmdbfile::Flags::NONE, rows };
    write_as(&path, &options_of(Format::V3, PAGE), &[("t".to_owned(), content)]);
    let sound = std::fs::read(&path).unwrap();
    let leaf = (2..sound.len() / PAGE).find(|page| {
        let header = &sound[page * PAGE..];
        header[18] == 2 && header[..PAGE].windows(3).any(|bytes| bytes == b"key")
    });
    let leaf = leaf.unwrap() * PAGE;
    let large = (2..sound.len() / PAGE).find(|page| sound[page * PAGE + 18] == 4).unwrap() * PAGE;
    let corrupt = ErrorKind::Corrupt;
    for (at, value, kind, words) in [
        (PAGE - 2, 32, ErrorKind::Checksums, "with checksums"),
        (24 + 24 + 5, 0x20, ErrorKind::Encrypted, "an encrypted environment"),
        (2 * PAGE + 8, 9, corrupt, "a page of a later transaction than that of the snapshot"),
        (leaf + PAGE - 8, 3, corrupt, "another number of overflow pages than its node says"),
        (large + 18, 5, corrupt, "a large value that is on no overflow page"),
    ] {
        let mut bytes = sound.clone();
        bytes[at] = value;
        std::fs::write(&path, bytes).unwrap();
        let error = Reader::open(&path).and_then(|reader| reader.walk(&mut |_| {})).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.to_string().contains(words), "{error}");
    }
}
