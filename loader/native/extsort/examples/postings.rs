//! Prints what a posting costs: `cargo run --release -p extsort --example postings [THREADS [MIB...]]`.
//!
//! 45 postings for each of a million entries, like ten indexes of a directory of people: 4-grams of
//! names (keys by Zipf's law), unique values, and five object classes.

use std::time::{Duration, Instant};

use common::{Error, Result};
use extsort::{KeySize, Postings, Sorted, Visitor, Writer};

const ENTRIES: u32 = 1_000_000;
/// Entries in a block, and postings of each entry to the indexes of 4-grams.
const BLOCK: u32 = 800;
const GRAMS: [u32; 3] = [10, 12, 13];
const INDEXES: usize = 10;
/// From it on unique keys.
const UNIQUE: usize = 4;

/// Spreads numbers over all keys, as the hashes of values are spread.
fn hash(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) ^ 0x811c_9dc5
}

/// One of 50 000 keys, the first ones most often: the logarithm of its rank is even.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 50 000
fn gram() -> u32 {
    hash((fastrand::f64() * 50_000_f64.ln()).exp() as u32)
}

/// Keys drawn beforehand, so that drawing is not measured.
struct Entries {
    grams: Vec<u32>,
}

impl Entries {
    fn push(&self, writer: &mut Writer, entry: u32) {
        let mut next = entry as usize * 31;
        for (index, &count) in GRAMS.iter().enumerate() {
            for _ in 0..count {
                writer.push(index, self.grams[next % self.grams.len()], entry);
                next += 1;
            }
        }
        for class in 0..5 {
            writer.push(UNIQUE - 1, hash(class), entry);
        }
        for index in UNIQUE..INDEXES {
            writer.push(
                index,
                hash(entry.wrapping_mul(7) + u32::try_from(index).unwrap_or(0)),
                entry,
            );
        }
    }
}

#[derive(Default)]
struct Seen {
    keys: u64,
    positions: u64,
    checksum: u64,
}

impl Visitor for Seen {
    type Error = Error;

    fn key(&mut self, bits: u64, _: u8) -> Result<()> {
        self.keys += 1;
        self.checksum = self.checksum.wrapping_mul(31).wrapping_add(bits);
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> Result<()> {
        self.positions += positions.len() as u64;
        self.checksum = self.checksum.wrapping_add(positions.iter().copied().map(u64::from).sum());
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

fn push(postings: &Postings, entries: &Entries, threads: u32) {
    let postings = &postings;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut writer = postings.writer();
                for block in (thread..ENTRIES / BLOCK).step_by(threads as usize) {
                    for entry in block * BLOCK..(block + 1) * BLOCK {
                        entries.push(&mut writer, entry);
                    }
                    writer.finish_index().expect("the temporary directory has room");
                }
            });
        }
    });
}

fn visit(sorted: &Sorted) -> Seen {
    let mut seen = Seen::default();
    for index in 0..INDEXES {
        sorted.visit(index, &mut seen).expect("the temporary file is readable");
    }
    seen
}

#[allow(clippy::cast_precision_loss)] // for people
fn per_posting(time: Duration, postings: u64) -> f64 {
    time.as_nanos() as f64 / postings as f64
}

fn measure(mebibytes: usize, threads: u32, entries: &Entries) {
    let dir = std::env::temp_dir();
    let sizes = [KeySize::Four; INDEXES];
    let postings = Postings::new(&sizes, mebibytes << 20, &dir, &std::sync::Arc::default());
    let start = Instant::now();
    push(&postings, entries, threads);
    let pushed = start.elapsed();
    let seen = visit(&postings.finish(threads as usize).expect("all writers are gone"));
    let total = start.elapsed();
    println!(
        "{mebibytes:4} MiB: {:.1} ns a posting, {:.1} of them for pushing ({} postings, {} keys, checksum {:x})",
        per_posting(total, seen.positions),
        per_posting(pushed, seen.positions),
        seen.positions,
        seen.keys,
        seen.checksum,
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1).map_while(|argument| argument.parse().ok());
    let threads = arguments.next().unwrap_or(1);
    fastrand::seed(1);
    let entries = Entries { grams: (0..4_000_037).map(|_| gram()).collect() };
    let mut sizes: Vec<usize> = arguments.map(|size| size as usize).collect();
    if sizes.is_empty() {
        sizes = vec![4096, 180, 16];
    }
    for mebibytes in sizes {
        measure(mebibytes, threads, &entries);
    }
}
