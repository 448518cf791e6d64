//! Postings against a model: sets of keys with sorted positions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{Code, Error, Result};
use extsort::{KeySize, Postings, Visitor, Writer};
use proptest::prelude::*;

const MIB: usize = 1 << 20;

/// Key bits and length, with its positions.
type Index = Vec<((u64, u8), Vec<u32>)>;

#[derive(Default)]
struct Seen {
    index: Index,
    open: bool,
    /// The visit of the key with these bits fails.
    fails_at: Option<u64>,
}

impl Visitor for Seen {
    type Error = Error;

    fn key(&mut self, bits: u64, len: u8) -> Result<()> {
        assert!(!self.open, "a key before the previous one ended");
        if self.fails_at == Some(bits) {
            return Err(Error::new(Code::Damaged, "enough"));
        }
        self.open = true;
        self.index.push(((bits, len), Vec::new()));
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> Result<()> {
        assert!(self.open && !positions.is_empty());
        self.index.last_mut().expect("a key").1.extend_from_slice(positions);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        assert!(self.open);
        self.open = false;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Posting {
    Four(u32, u32),
    Long(u64, u8, u32),
}

impl Posting {
    fn push(self, writer: &mut Writer) {
        match self {
            Self::Four(key, position) => writer.push(0, key, position),
            Self::Long(bits, len, position) => writer.push_long(1, bits, len, position),
        }
    }
}

/// Returns the expected contents of two indexes, with keys of four and of up to eight bytes.
fn model(postings: &[Posting]) -> [Index; 2] {
    let mut indexes = [BTreeMap::new(), BTreeMap::new()];
    for &posting in postings {
        let (index, key, position) = match posting {
            Posting::Four(key, position) => (0, (u64::from(key) << 32, 4), position),
            Posting::Long(bits, len, position) => (1, (bits, len), position),
        };
        *indexes[index].entry(key).or_insert_with(BTreeMap::new).entry(position).or_insert(0) += 1;
    }
    let each = |(position, times): (u32, usize)| std::iter::repeat_n(position, times);
    indexes.map(|index| {
        let flat = |(key, found): (_, BTreeMap<_, _>)| (key, found.into_iter().flat_map(each).collect());
        index.into_iter().map(flat).collect()
    })
}

/// Sorts with `memory` bytes on `threads` threads, which take turns of `block` postings.
fn sort(all: &[Posting], memory: usize, threads: usize, block: usize) -> Result<[Index; 2]> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sizes = [KeySize::Four, KeySize::UpToEight];
    let postings = Postings::new(&sizes, memory, dir.path(), &Arc::default());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut writer = postings.writer();
            scope.spawn(move || {
                for block in all.chunks(block).skip(thread).step_by(threads) {
                    for posting in block {
                        posting.push(&mut writer);
                    }
                    writer.finish_index().expect("room in the temporary directory");
                }
            });
        }
    });
    let sorted = postings.finish(threads)?;
    let mut seen = [Seen::default(), Seen::default()];
    for (index, seen) in seen.iter_mut().enumerate() {
        sorted.visit(index, seen)?;
        assert!(!seen.open);
    }
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 0, "no file has a name");
    Ok(seen.map(|seen| seen.index))
}

fn postings() -> impl Strategy<Value = Vec<Posting>> {
    let key = prop_oneof![0..5_u32, any::<u32>(), Just(u32::MAX)];
    let position = prop_oneof![0..9_u32, any::<u32>(), Just(u32::MAX)];
    let bits = (any::<u64>(), 1..=8_u8).prop_map(|(bits, len)| (bits >> (64 - 8 * len) << (64 - 8 * len), len));
    let long = prop_oneof![bits, (Just(0), 1..=8_u8), Just((u64::MAX, 8))];
    let posting = prop_oneof![
        (key, position.clone()).prop_map(|(key, position)| Posting::Four(key, position)),
        (long, position).prop_map(|((bits, len), position)| Posting::Long(bits, len, position)),
    ];
    prop::collection::vec(posting, 0..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_memory_and_threads_give_the_model(
        all in postings(),
        memory in prop_oneof![Just(0), Just(4 << 10), Just(64 << 10), Just(64 * MIB)],
        threads in 1..4_usize,
        block in 1..900_usize,
    ) {
        prop_assert_eq!(sort(&all, memory, threads, block).unwrap(), model(&all));
    }
}

/// Returns postings like those of names: a few keys of nearly all entries, others of one.
fn skewed(entries: u32) -> Vec<Posting> {
    let mut random = fastrand::Rng::with_seed(5);
    let mut all = Vec::new();
    for position in 1..=entries {
        all.push(Posting::Four(0x6262_6262, position));
        all.push(Posting::Four(position.wrapping_mul(0x9e37_79b1), position));
        all.push(Posting::Four(random.u32(..100) * random.u32(..100), position));
        all.push(Posting::Long(1 << 63, 1, position));
        all.push(Posting::Long(1 << 63 | u64::from(position) << 30, 5, position));
    }
    all
}

#[test]
fn a_large_skewed_index_is_the_same_however_it_is_sorted() {
    let all = skewed(200_000);
    let expected = model(&all);
    for (memory, threads) in [(MIB / 4, 1), (2 * MIB, 3), (16 * MIB, 2), (1024 * MIB, 1), (1024 * MIB, 4)] {
        assert!(sort(&all, memory, threads, 4000).unwrap() == expected, "{memory} {threads}");
    }
    let mut all = skewed(30_000);
    fastrand::Rng::with_seed(7).shuffle(&mut all);
    assert!(sort(&all, 1024 * MIB, 2, 4000).unwrap() == model(&all), "positions descend");
    assert_eq!(sort(&[], MIB, 2, 1).unwrap(), [Vec::new(), Vec::new()]);
}

#[test]
fn a_short_key_may_go_to_an_index_of_long_ones() {
    let postings = Postings::new(&[KeySize::UpToEight], MIB, Path::new("/"), &Arc::default());
    let mut writer = postings.writer();
    writer.push_long(0, 1 << 63, 1, 3);
    writer.push(0, 1, 2);
    drop(writer);
    let mut seen = Seen::default();
    postings.finish(1).unwrap().visit(0, &mut seen).unwrap();
    assert_eq!(seen.index, [((1 << 32, 4), vec![2]), ((1 << 63, 1), vec![3])]);
}

fn one() -> (Postings, Writer) {
    let postings = Postings::new(&[KeySize::Four], MIB, Path::new("/nowhere"), &Arc::default());
    let mut writer = postings.writer();
    writer.push(0, 1, 2);
    (postings, writer)
}

#[test]
fn calls_that_would_lose_postings_fail() {
    let (postings, writer) = one();
    assert_eq!(postings.finish(1).unwrap_err().code, Code::Damaged, "{writer:?}");

    let (postings, mut writer) = one();
    writer.push_long(0, 1 << 63, 1, 2);
    drop(writer);
    assert_eq!(postings.finish(1).unwrap_err().code, Code::Damaged);

    let (postings, writer) = one();
    drop(writer);
    let sorted = postings.finish(1).unwrap();
    sorted.visit(0, &mut Seen::default()).unwrap();
    for index in [0, 1] {
        assert_eq!(sorted.visit(index, &mut Seen::default()).unwrap_err().code, Code::Damaged);
    }
}

#[test]
fn the_error_of_a_visitor_ends_the_visit() {
    let (postings, mut writer) = one();
    for position in 0..100_000 {
        writer.push(0, position, position);
    }
    drop(writer);
    let mut failing = Seen { fails_at: Some(3000 << 32), ..Seen::default() };
    let error = postings.finish(3).unwrap().visit(0, &mut failing).unwrap_err();
    assert_eq!(error.to_string(), "enough");
}

#[test]
fn the_stop_flag_ends_everything() {
    let stop = Arc::new(AtomicBool::new(false));
    let postings = Postings::new(&[KeySize::Four], MIB, Path::new("/"), &stop);
    let mut writer = postings.writer();
    writer.push(0, 1, 2);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(writer.finish_index().unwrap_err().code, Code::Cancelled);
    drop(writer);
    let visited = postings.finish(1).unwrap().visit(0, &mut Seen::default());
    assert_eq!(visited.unwrap_err().code, Code::Cancelled);
}
