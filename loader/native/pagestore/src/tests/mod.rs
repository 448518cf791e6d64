mod differences;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Counters, Result};
use proptest::prelude::*;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

use crate::pack::ENTRY;
use crate::page::{self, Run, RunWriter};
use crate::{Assembly, Backup, Known, Pack, Piece, Segment, Shape, Sifted, sift};

const SIZE: usize = 512;
const SHAPE: Shape = Shape { page_size: SIZE, transaction: None };

/// Returns pages with these contents, numbered from `first` on; pages with odd contents have no number. Groups of eight
/// contents differ in one byte.
fn pages(contents: &[u16], first: u64) -> Vec<u8> {
    let one = |(number, content): (u64, &u16)| {
        let mut page = fastrand::Rng::with_seed((content / 8).into());
        let mut page: Vec<u8> = std::iter::repeat_with(|| page.u8(..)).take(SIZE).collect();
        page[100] = content.to_le_bytes()[0] % 8;
        if content % 2 == 0 {
            page[..8].copy_from_slice(&number.to_ne_bytes());
        }
        page
    };
    (first..).zip(contents).flat_map(one).collect()
}

/// A backup of one segment, and all packs so far.
struct Backups {
    home: TempDir,
    packs: Vec<Vec<u8>>,
    known: Known,
}

impl Backups {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { home, packs: Vec::new(), known: Known::default() }
    }

    fn own(&self) -> u32 {
        u32::try_from(self.packs.len()).unwrap()
    }

    fn assembly(&self) -> Assembly {
        let open = |(number, index): (u32, &Vec<u8>)| {
            let path = self.home.path().join(number.to_string());
            (number, Pack::open(&path, &path, index, SIZE).unwrap())
        };
        Assembly::new((0..).zip(&self.packs).map(open), SHAPE)
    }

    fn put_back(&self, segment: &Segment, own: u32) -> Result<Vec<u8>> {
        let packs = self.assembly();
        let mut data = vec![0; packs.bytes(segment)?];
        packs.fill(segment, own, 2, &mut data)?;
        Ok(data)
    }

    /// Restores a segment whose list has the checksum of `data`.
    fn restore(&self, segment: &Segment, own: u32, data: &[u8]) -> Result<()> {
        let piece = Piece { segment: segment.clone(), sum: xxh3_128(data) };
        let backup = Backup { head: &[], pieces: &[piece], own };
        let file = tempfile::tempfile().unwrap();
        self.assembly().restore(&backup, &file, 1, &Counters::default())
    }

    fn take(&mut self, data: &[u8]) -> (Sifted, Segment) {
        let own = self.own();
        let sifted = sift(&self.known, SHAPE, own, data, 2, 1).unwrap();
        fs::write(self.home.path().join(own.to_string()), &sifted.frames).unwrap();
        self.packs.push(sifted.entries.clone());
        let pages = (data.len() / SIZE) as u64;
        let segment = Segment { runs: sifted.runs.clone(), first: 0, pages };
        let made = std::slice::from_ref(&segment);
        self.known = Known::of(Arc::new(self.assembly()), made, own, 0).unwrap();
        (sifted, segment)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_backup_comes_back(chain in prop::collection::vec(prop::collection::vec(0_u16..200, 1..60), 1..8)) {
        let mut backups = Backups::new();
        let mut made = Vec::new();
        for contents in &chain {
            let data = pages(contents, 2);
            let (_, segment) = backups.take(&data);
            made.push((data, segment));
        }
        for (own, (data, segment)) in (0..).zip(&made) {
            prop_assert_eq!(&backups.put_back(segment, own).unwrap(), data);
        }
    }

    #[test]
    fn no_list_of_pages_makes_it_panic(bytes: Vec<u8>, pages in 0_u64..1000) {
        let segment = Segment { runs: bytes, first: 0, pages };
        let mut backups = Backups::new();
        backups.take(&crate::tests::pages(&[1, 2, 3], 2));
        let _ = backups.put_back(&segment, 0);
    }
}

#[test]
fn a_page_that_moved_is_the_same() {
    let mut backups = Backups::new();
    let (first, _) = backups.take(&pages(&[2, 4, 6, 8], 2));
    let (second, _) = backups.take(&pages(&[100, 2, 4, 6, 8], 2));
    assert_eq!(first.fresh, 4);
    assert_eq!(second.entries.len(), ENTRY);
    assert_eq!(second.fresh, 1);
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let mut backups = Backups::new();
    let (sifted, _) = backups.take(&pages(&[1, 2, 3], 2));
    let path = backups.home.path().join("0");
    for place in (0..sifted.frames.len()).step_by(7) {
        let mut stored = sifted.frames.clone();
        stored[place] ^= 1;
        fs::write(&path, stored).unwrap();
        backups.assembly().pack(0).unwrap().frame(0).unwrap_err();
    }
}

#[test]
fn an_index_with_impossible_sizes_is_refused() {
    for (pages, packed) in [(0_u32, 9_u32), (257, 9), (1, 1 << 30)] {
        let index = [&pages.to_le_bytes()[..], &packed.to_le_bytes(), &[0; 32]].concat();
        Pack::open(Path::new("/dev/null"), Path::new("x"), &index, SIZE).unwrap_err();
        Pack::open(Path::new("/dev/null"), Path::new("x"), &index[1..], SIZE).unwrap_err();
    }
}

#[test]
fn pages_of_the_least_used_frames_are_not_reused() {
    let mut backups = Backups::new();
    let (contents, few): (Vec<u16>, _) = ((0..500).map(|one| 2 * one).collect(), 3);
    backups.take(&pages(&contents, 2));
    let left = &contents[256 - few..256]; // of the first frame
    let (_, segment) = backups.take(&pages(left, 2));
    for (again, stored) in [(2, 0), (3, 3)] {
        let made = std::slice::from_ref(&segment);
        let known = Known::of(Arc::new(backups.assembly()), made, 1, again).unwrap();
        let sifted = sift(&known, SHAPE, 2, &pages(left, 2), 2, 1).unwrap();
        assert_eq!(sifted.fresh, stored);
    }
}

#[test]
fn in_format_3_the_transaction_does_not_count() {
    let page = |transaction: u64| {
        let mut page = vec![7; SIZE];
        page[..8].copy_from_slice(&2_u64.to_ne_bytes());
        page[8..16].copy_from_slice(&transaction.to_ne_bytes());
        page
    };
    let shape = |transaction| Shape { transaction: Some(transaction), ..SHAPE };
    let sifted = |transaction| {
        let known = Known::default();
        sift(&known, shape(transaction), 0, &page(transaction), 2, 1).unwrap().frames
    };
    assert_eq!(sifted(5), sifted(6));
}

#[test]
fn runs_are_read_back() {
    let mut writer = RunWriter::new(9);
    for (pack, index) in [(1, 70_000), (1, 70_001), (9, 0), (2, 5), (1, 70_003), (9, 1), (2, 4)] {
        writer.add(pack, index);
    }
    let bytes = writer.finish();
    let run = |pack, start, count| Run { pack, start, count };
    let wanted = [run(1, 70_000, 2), run(9, 100, 1), run(2, 5, 1), run(1, 70_003, 1), run(9, 101, 1), run(2, 4, 1)];
    assert_eq!(page::read_runs(&bytes, 9, 100, 7).unwrap(), wanted);
    page::read_runs(&bytes, 9, 100, 8).unwrap_err();
    page::read_runs(&bytes[1..], 9, 100, 7).unwrap_err();
}
