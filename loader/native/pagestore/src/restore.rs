//! The data file of a backup: its pieces put together side by side, and each written at its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use common::{Counters, Error, Result};
use workers::{Turns, side_by_side};
use xxhash_rust::xxh3::xxh3_128;

use crate::assembly::Assembly;
use crate::known::Segment;
use crate::page::FIRST;

/// Blocks of so many zeros become holes.
const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Below slapd's priority.
const NICE: i32 = 10;

/// Consecutive pages, and what they were when the backup was taken.
#[derive(Debug)]
pub struct Piece {
    pub segment: Segment,
    /// XXH3. Frames and pages have strong hashes; this one finds a page that was put into a wrong place.
    pub sum: u128,
}

/// A backup with that pack of its own. head: both meta pages.
#[derive(Debug)]
pub struct Backup<'a> {
    pub head: &'a [u8],
    pub pieces: &'a [Piece],
    pub own: u32,
}

impl Assembly {
    /// Into an empty file, holes where it has zeros.
    pub fn restore(
        &self,
        backup: &Backup,
        file: &File,
        threads: usize,
        counters: &Counters,
    ) -> Result<()> {
        let (starts, end) = starts(backup.pieces)?;
        file.set_len(self.offset(end)?)?;
        write(file, backup.head, 0)?;
        let turns = Turns::new(backup.pieces.len());
        side_by_side(0..threads.max(1), &|| turns.stop(), |_| {
            // Only a wish: it may be as nice as that already.
            let _ = rustix::process::setpriority_process(None, NICE);
            let mut room = Vec::new();
            for number in turns.iter() {
                counters.check()?;
                let (piece, first) = (&backup.pieces[number], starts[number]);
                room.resize(self.bytes(&piece.segment)?, 0);
                self.fill(&piece.segment, backup.own, first, &mut room)?;
                if xxh3_128(&room) != piece.sum {
                    let what = format!("the checksum of piece {number} is not the one in its list");
                    return Err(Error::damaged(what));
                }
                write(file, &room, self.offset(first)?)?;
                counters.add(0, room.len() as u64);
            }
            Ok(())
        })
        .map(drop)
    }
}

/// The number of the first page of each piece, and of the one behind the last.
fn starts(pieces: &[Piece]) -> Result<(Vec<u64>, u64)> {
    let (mut starts, mut end) = (Vec::with_capacity(pieces.len()), FIRST);
    for piece in pieces {
        starts.push(end);
        let next = end.checked_add(piece.segment.pages);
        end = next.ok_or_else(|| Error::damaged("a backup of too many pages"))?;
    }
    Ok((starts, end))
}

/// All but the blocks of zeros; what lies between two of them at once.
fn write(file: &File, data: &[u8], start: u64) -> io::Result<()> {
    let (mut from, mut to) = (0, 0);
    for block in data.chunks(BLOCK) {
        if *block == ZEROS[..block.len()] {
            file.write_all_at(&data[from..to], start + from as u64)?;
            from = to + block.len();
        }
        to += block.len();
    }
    file.write_all_at(&data[from..], start + from as u64)
}
