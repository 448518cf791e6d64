//! Reads damaged database files.

use std::path::Path;
use std::sync::OnceLock;

use ::ldif::Counters;
use backmdb::VerifyMeans;
use backmdb::audit::{AuditOptions, Level, audit};
use lmdbfile::{FileWriter, Flags, Format, Options, Reader, Result, TreeWriter};

const PAGE: usize = 4096;
/// Bytes that describe one damage: kind (1), page (1), offset in the page (2), value (2).
pub(crate) const PIECE: usize = 6;

/// The first byte chooses a sound file, the other bytes damage it. The reader must read the file to its end or refuse
/// it. In both cases the audit must report whether the database is sound.
///
/// # Panics
/// If a sound file is refused, or an error has no message.
pub fn run(data: &[u8]) {
    let Some(([which], pieces)) = crate::switches(data) else { return };
    let files = files();
    let mut bytes = files[usize::from(which) % files.len()].clone();
    let sound = pieces.len() < PIECE;
    pieces.chunks_exact(PIECE).for_each(|piece| damage(&mut bytes, piece));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data.mdb");
    std::fs::write(&path, bytes).expect("a file");
    match read_all(&path, pieces) {
        Ok(()) => {}
        Err(error) => assert!(!sound && !error.message.is_empty(), "{error}"),
    }
    look(&path, directory.path());
}

fn look(path: &Path, scratch: &Path) {
    let settings = crate::configuration::settings(u8::MAX);
    let known = Some((crate::definitions::schema(), &settings));
    let means = &VerifyMeans { memory: 16 << 20, jobs: 1, scratch: scratch.to_path_buf() };
    let (txn, level, new, limit, counters) = (None, Level::Indexes, false, 2, &Counters::default());
    for sample in [0, 8] {
        let seen = None;
        let look = AuditOptions { path, txn, level, sample, known, new, seen, limit, means, counters };
        let found = audit(&look).expect("an audit reports damage, not an error");
        let described = found.problems.iter().all(|(_, problem)| problem.count > 0 && !problem.told.is_empty());
        assert!(described, "{found:?}");
    }
}

/// Damages the file as described by `piece`, which has [`PIECE`] bytes.
pub(crate) fn damage(bytes: &mut Vec<u8>, piece: &[u8]) {
    let half = |at: usize| u16::from_le_bytes([piece[at], piece[at + 1]]);
    let (value, pages) = (half(4), bytes.len() / PAGE);
    if pages < 3 {
        return;
    }
    let page = usize::from(piece[1]) % pages * PAGE;
    // With a small limit, the damage is in the page's header or pointers.
    let place = usize::from(half(2)) % if piece[0] & 0x80 == 0 { PAGE } else { 64 };
    let at = page + place / 2 * 2;
    match piece[0] & 7 {
        0 => bytes[page + place] = piece[4],
        1 => bytes[at..at + 2].copy_from_slice(&value.to_le_bytes()),
        2 => {
            let field = u16::from_le_bytes([bytes[at], bytes[at + 1]]).wrapping_add(value);
            bytes[at..at + 2].copy_from_slice(&field.to_le_bytes());
        }
        3 => {
            let (at, wide) = (page + place / 8 * 8, i64::from(value) - 0x8000);
            bytes[at..at + 8].copy_from_slice(&wide.to_le_bytes());
        }
        4 | 5 => {
            // Copies a page with its page number, or keeps the number of the page that is overwritten.
            let (from, skip) = (usize::from(value) % pages * PAGE, usize::from(piece[0] & 1) * 8);
            bytes.copy_within(from + skip..from + PAGE, page + skip);
        }
        6 => bytes[page + place] ^= 1 << (value & 7),
        _ => bytes.truncate(page + place),
    }
}

fn read_all(path: &Path, keys: &[u8]) -> Result<()> {
    let reader = Reader::open(path)?;
    let walked = reader.walk(&mut |_| {});
    let mut read = Ok(());
    for name in reader.names() {
        let Some(table) = reader.table(name) else { continue };
        read = read.and(scan(&table));
        for key in keys.chunks(8).take(4) {
            let _ = table.get(key);
            let _ = table.get_all(key);
            let _ = table.contains(key, key);
        }
    }
    walked.and(read)
}

fn scan(table: &lmdbfile::TableReader<'_>) -> Result<()> {
    let mut cursor = table.cursor()?;
    while cursor.next()?.is_some() {}
    Ok(())
}

/// Returns sound files of both formats: empty, with each kind of table and page, and written by a build.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let own = |format| [0, 3, 60, 300].map(|rows| written(format, rows));
        let (older, newer) = (own(Format::V1), own(Format::V3));
        let [first, last] = [Format::V1, Format::V3].map(crate::builder::small_file);
        older.into_iter().chain([first]).chain(newer).chain([last]).collect()
    })
}

fn written(format: Format, rows: u64) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data.mdb");
    write(&path, format, rows).expect("a file");
    std::fs::read(&path).expect("it reads")
}

fn write(path: &Path, format: Format, rows: u64) -> Result<()> {
    let options = Options { format, page_size: 4096, map_size: 1 << 30 };
    let mut file = FileWriter::create(path, &options)?;
    let mut plain = TreeWriter::new(Flags::INTEGERKEY, file.layout());
    let mut fixed = TreeWriter::new(Flags::DUPFIXED | Flags::INTEGERDUP, file.layout());
    let mut dups = TreeWriter::new(Flags::DUPSORT, file.layout());
    for row in 1..=rows {
        // Some values go to overflow pages, others are just small enough for a leaf page.
        let size = [20, 2030, 9000, 100, 0, 2040][usize::try_from(row % 6).unwrap_or(0)];
        let size = if row < 13 { size } else { 8 };
        plain.put(&mut file, &row.to_ne_bytes(), &vec![7; size])?;
    }
    for key in 0..rows.min(9) {
        fixed.begin(&key.to_be_bytes()[4..])?;
        fixed.fixed(&mut file, &(0..=rows * key / 3).collect::<Vec<_>>())?;
        fixed.end(&mut file)?;
        dups.begin(&key.to_be_bytes())?;
        for value in 0..=rows * key / 16 {
            dups.dup(&mut file, &[&value.to_be_bytes()[..], &[1; 60]].concat())?;
        }
        dups.end(&mut file)?;
    }
    let tables = [(&b"plain"[..], plain), (b"fixed", fixed), (b"dups", dups)];
    let tables = tables.map(|(name, tree)| Ok((name.to_vec(), tree.finish(&mut file)?)));
    file.finish(tables.into_iter().collect::<Result<_>>()?).map(|_| ())
}
