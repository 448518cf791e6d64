//! The journal of a load, from which a killed load is resumed. Each record has a range of positions: the numbers of
//! consecutive entries of the input. Records are only appended.
//!
//! Before an entry is sent, a record is synced that reserves the entry's position and all lower positions. So an entry
//! at a position that is not reserved was never sent, and a reserved entry that is not recorded as done may be on the
//! server. Records of finished entries are not synced: after a crash of the host, the load looks up these entries on
//! the server.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use common::{InFile, Result, lock};
use xxhash_rust::xxh3::xxh3_64;

/// Number of positions that are reserved at a time; each reservation costs one sync.
const AHEAD: u64 = 1 << 16;
/// Size of a record in bytes: a kind, the first position, the end and a checksum, each of 64 bits.
const RECORD: usize = 32;

/// The kind of a record that reserves positions. The other kinds are those of [`Kind`].
const RESERVED: u64 = 1;

/// The outcome of an entry. The number identifies the outcome in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Added = 2,
    Present = 3,
    Replaced = 4,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Added, Self::Present, Self::Replaced];
}

/// Numbers of entries with each outcome, including the entries of earlier runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: u64,
    pub present: u64,
    pub replaced: u64,
}

impl Counts {
    pub const fn sum(&self) -> u64 {
        self.added + self.present + self.replaced
    }

    fn count(&mut self, kind: Kind, entries: u64) {
        match kind {
            Kind::Added => self.added += entries,
            Kind::Present => self.present += entries,
            Kind::Replaced => self.replaced += entries,
        }
    }
}

/// The content of the journal after earlier runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PreviousRun {
    /// Half-open ranges of the positions of finished entries: disjoint and in ascending order.
    pub done: Vec<(u64, u64)>,
    /// Earlier runs have not sent any entry at this position or a higher position.
    pub reserved: u64,
}

#[derive(Debug)]
pub struct Journal {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// Length of all whole records, in bytes.
    length: u64,
    reserved: u64,
    counts: Counts,
}

impl State {
    /// Appends records. If that fails, for example because the disk is full, removes the partial record, because the
    /// records after it could not be read.
    fn append(&mut self, records: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(records) {
            self.file.set_len(self.length)?;
            return Err(error.into());
        }
        self.length += records.len() as u64;
        Ok(())
    }
}

impl Journal {
    /// Opens or creates the journal (mode 0600), and truncates it after its last intact record. Syncs its directory, so
    /// that a crash does not lose the file with its reservations.
    pub fn open(path: &Path) -> Result<(Self, PreviousRun)> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).append(true).create(true).mode(0o600).open(path);
        let mut file = opened.in_file(Some(path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).in_file(Some(path))?;
        let records: Vec<[u64; 3]> = bytes.chunks_exact(RECORD).map_while(decode).collect();
        let length = (records.len() * RECORD) as u64;
        file.set_len(length).in_file(Some(path))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        File::open(directory).and_then(|opened| opened.sync_all()).in_file(Some(directory))?;
        let (before, counts) = summed(&records);
        let state = State { file, length, reserved: before.reserved, counts };
        Ok((Self { state: Mutex::new(state) }, before))
    }

    /// Reserves the positions below `position`. When this call returns, the entries at these positions may be sent.
    pub fn reserve(&self, position: u64) -> Result<()> {
        let mut state = lock(&self.state);
        if position <= state.reserved {
            return Ok(());
        }
        let reserved = position + AHEAD;
        state.append(&encode(RESERVED, 0, reserved))?;
        state.file.sync_data()?;
        state.reserved = reserved;
        Ok(())
    }

    /// Records the outcome of the entries at `positions`, which must ascend.
    pub fn settle(&self, kind: Kind, positions: &[u64]) -> Result<()> {
        let mut records = Vec::new();
        for (first, end) in runs(positions) {
            records.extend_from_slice(&encode(kind as u64, first, end));
        }
        let mut state = lock(&self.state);
        state.append(&records)?;
        state.counts.count(kind, positions.len() as u64);
        Ok(())
    }

    pub fn counts(&self) -> Counts {
        lock(&self.state).counts
    }
}

fn encode(kind: u64, first: u64, end: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    for (place, value) in record.chunks_exact_mut(8).zip([kind, first, end]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    let check = xxh3_64(&record[..24]).to_le_bytes();
    record[24..].copy_from_slice(&check);
    record
}

fn decode(record: &[u8]) -> Option<[u64; 3]> {
    let mut values = [0; 4];
    for (value, bytes) in values.iter_mut().zip(record.chunks_exact(8)) {
        *value = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    (xxh3_64(&record[..24]) == values[3]).then_some([values[0], values[1], values[2]])
}

/// Returns the half-open ranges of consecutive positions.
fn runs(positions: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    positions.chunk_by(|one, next| *next == one + 1).map(|run| (run[0], run[run.len() - 1] + 1))
}

fn summed(records: &[[u64; 3]]) -> (PreviousRun, Counts) {
    let (mut before, mut counts) = (PreviousRun::default(), Counts::default());
    for &[number, first, end] in records {
        if number == RESERVED {
            before.reserved = before.reserved.max(end);
        } else if let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind as u64 == number) {
            counts.count(kind, end.saturating_sub(first));
            before.done.push((first, end));
        }
    }
    before.done.sort_unstable();
    before.done.dedup_by(|next, last| {
        let adjoin = last.1 >= next.0;
        if adjoin {
            last.1 = last.1.max(next.1);
        }
        adjoin
    });
    (before, counts)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// Returns an empty journal with its path, and its directory.
    fn new() -> (tempfile::TempDir, PathBuf, Journal) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal");
        let (journal, before) = Journal::open(&path).unwrap();
        assert_eq!(before, PreviousRun::default());
        (home, path, journal)
    }

    #[test]
    fn finished_entries_are_read_back() {
        let (_home, path, journal) = new();
        journal.reserve(3).unwrap();
        journal.settle(Kind::Added, &[3, 4, 5, 9]).unwrap();
        journal.settle(Kind::Present, &[6]).unwrap();
        let (journal, before) = Journal::open(&path).unwrap();
        assert_eq!(before, PreviousRun { done: vec![(3, 7), (9, 10)], reserved: 3 + AHEAD });
        assert_eq!(journal.counts(), Counts { added: 4, present: 1, replaced: 0 });
        assert_eq!(journal.counts().sum(), 5);
    }

    #[test]
    fn a_truncated_record_is_ignored_and_the_next_is_read() {
        let (_home, path, journal) = new();
        journal.settle(Kind::Added, &[0]).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&encode(2, 1, 2)[..20]).unwrap();
        let (journal, before) = Journal::open(&path).unwrap();
        assert_eq!(before.done, [(0, 1)]);
        journal.settle(Kind::Added, &[7]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1.done, [(0, 1), (7, 8)]);
    }

    /// Runs this test again in a process whose file size limit first allows two and a half records, and is then raised.
    #[test]
    fn a_truncated_append_does_not_hide_the_next() {
        const PATH: &str = "DITSEED_TEST_JOURNAL";
        const NAME: &str = "journal::tests::a_truncated_append_does_not_hide_the_next";
        let prlimit = |arguments: &[&str]| {
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' XFSZ; exec prlimit \"$@\"", "sh"]).args(arguments);
            command
        };
        if let Some(path) = std::env::var_os(PATH) {
            let (journal, _) = Journal::open(path.as_ref()).unwrap();
            journal.settle(Kind::Added, &[0, 2]).unwrap();
            journal.settle(Kind::Added, &[4]).unwrap_err();
            let own = std::process::id().to_string();
            assert!(prlimit(&["--fsize=unlimited", "--pid", &own]).status().unwrap().success());
            return journal.settle(Kind::Added, &[6]).unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal");
        let test = std::env::current_exe().unwrap();
        let mut child = prlimit(&["--fsize=80:unlimited", test.to_str().unwrap()]);
        let done = child.args(["--exact", NAME]).env(PATH, &path).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        assert_eq!(Journal::open(&path).unwrap().1.done, [(0, 1), (2, 3), (6, 7)]);
    }

    #[test]
    fn records_after_a_damaged_one_are_ignored() {
        let (_home, path, journal) = new();
        journal.settle(Kind::Added, &[0]).unwrap();
        journal.settle(Kind::Added, &[2]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[RECORD + 9] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1.done, [(0, 1)]);
    }
}
