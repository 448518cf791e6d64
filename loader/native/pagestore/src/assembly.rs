//! Restores the pages of a backup from its packs, in parallel, each at its offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use common::{Counters, Error, Result};
use rustc_hash::FxHashMap;
use workers::{Turns, side_by_side};
use xxhash_rust::xxh3::xxh3_128;

use crate::cache::Cache;
use crate::difference::Unpacker;
use crate::frame::{Content, Frame};
use crate::known::{FrameKey, Segment, not_whole};
use crate::pack::Pack;
use crate::page;
use crate::page::{FIRST, Place, Shape};

/// All packs that a backup needs, by pack number.
#[derive(Debug, Default)]
pub struct Assembly {
    packs: FxHashMap<u32, Pack>,
    shape: Shape,
    cache: Cache<Frame>,
}

/// The destination of a page: `at` is its index in the buffer, `number` its number in the database.
#[derive(Debug, Clone, Copy)]
struct Slot {
    at: usize,
    number: u64,
}

/// A page stored as a difference, with its base.
struct Differing {
    slot: Slot,
    packed: Vec<u8>,
    base: Vec<u8>,
    masked: bool,
}

impl Assembly {
    pub fn new(packs: impl IntoIterator<Item = (u32, Pack)>, shape: Shape) -> Self {
        Self { packs: packs.into_iter().collect(), shape, cache: Cache::default() }
    }

    pub fn pack(&self, number: u32) -> Result<&Pack> {
        let what = || Error::damaged("the list of its pages names a pack that it does not have");
        self.packs.get(&number).ok_or_else(what)
    }

    pub(crate) fn packs(&self) -> impl Iterator<Item = (u32, &Pack)> {
        self.packs.iter().map(|(number, pack)| (*number, pack))
    }

    pub(crate) fn frame_of(&self, place: Place) -> Result<FrameKey> {
        Ok((place.pack, self.pack(place.pack)?.find(place.page)?.0))
    }

    /// Returns the total bytes of the pages of a segment.
    pub fn bytes(&self, segment: &Segment) -> Result<usize> {
        let pages = usize::try_from(segment.pages).ok();
        let bytes = pages.and_then(|pages| pages.checked_mul(self.shape.page_size));
        bytes.ok_or_else(page::wrong)
    }

    /// Returns the offset of the page `number` in the file.
    pub(crate) fn offset(&self, number: u64) -> Result<u64> {
        number.checked_mul(self.shape.page_size as u64).ok_or_else(page::wrong)
    }

    /// Fills `data` with the pages of a segment, of which the first has the number `first`.
    pub fn fill(&self, segment: &Segment, own: u32, first: u64, data: &mut [u8]) -> Result<()> {
        let (mut at, mut differing) = (0, Vec::new());
        for run in page::read_runs(&segment.runs, own, segment.first, segment.pages)? {
            let (mut page, end) = (run.start, run.start + run.count);
            while page < end {
                let (frame, within) = self.frame(Place { pack: run.pack, page })?;
                for number in within..frame.pages().min(within + (end - page) as usize) {
                    let slot = Slot { at, number: first + at as u64 };
                    differing.extend(self.fill_whole(&frame, number, slot, data)?);
                    (at, page) = (at + 1, page + 1);
                }
            }
        }
        self.fill_differing(&differing, data)
    }

    /// Copies a whole page, or returns what is needed to rebuild a page from a difference.
    fn fill_whole(&self, frame: &Frame, number: usize, slot: Slot, data: &mut [u8]) -> Result<Option<Differing>> {
        let masked = frame.is_masked(number);
        match frame.page(number) {
            Content::Whole(bytes) => {
                self.page_of(slot, data)?.copy_from_slice(bytes);
                self.unmask(masked, slot, data)?;
                Ok(None)
            }
            Content::Difference(base, packed) => {
                let (packed, base) = (packed.to_vec(), self.whole(base)?);
                Ok(Some(Differing { slot, packed, base, masked }))
            }
        }
    }

    fn fill_differing(&self, differing: &[Differing], data: &mut [u8]) -> Result<()> {
        let mut unpacker = Unpacker::new();
        for one in differing {
            let to = self.page_of(one.slot, data)?;
            unpacker.unpack(&one.packed, &one.base, to)?;
            self.unmask(one.masked, one.slot, data)?;
        }
        Ok(())
    }

    fn page_of<'d>(&self, slot: Slot, data: &'d mut [u8]) -> Result<&'d mut [u8]> {
        let size = self.shape.page_size;
        data.get_mut(slot.at * size..(slot.at + 1) * size).ok_or_else(page::wrong)
    }

    /// Restores the page number if the page was stored without it.
    fn unmask(&self, masked: bool, slot: Slot, data: &mut [u8]) -> Result<()> {
        if masked {
            self.shape.number(self.page_of(slot, data)?, slot.number);
        }
        Ok(())
    }

    /// Returns a whole page, which can be the base of differences.
    pub(crate) fn whole(&self, place: Place) -> Result<Vec<u8>> {
        let (frame, within) = self.frame(place)?;
        match frame.page(within) {
            Content::Whole(bytes) => Ok(bytes.to_vec()),
            Content::Difference(..) => Err(not_whole()),
        }
    }

    /// Returns the frame with that page, and the page's index in it.
    fn frame(&self, place: Place) -> Result<(Arc<Frame>, usize)> {
        let pack = self.pack(place.pack)?;
        let (number, within) = pack.find(place.page)?;
        let frame = self.cache.get((place.pack, number), || pack.frame(number))?;
        Ok((frame, within))
    }
}

/// Blocks of this many zero bytes become holes.
const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Niceness of the restoring threads, so that slapd has priority.
const NICE: i32 = 10;

/// Consecutive pages of a backup, with their checksum.
#[derive(Debug)]
pub struct Piece {
    pub segment: Segment,
    /// XXH3. Frames and pages have strong hashes; this sum detects a page at the wrong place.
    pub sum: u128,
}

/// A backup with its own pack `own`. `head` has both meta pages.
pub struct Backup<'a> {
    pub head: &'a [u8],
    pub pieces: &'a [Piece],
    pub own: u32,
}

impl Assembly {
    /// Writes the backup into an empty file, with holes for zeros.
    pub fn restore(&self, backup: &Backup, file: &File, threads: usize, counters: &Counters) -> Result<()> {
        let (starts, end) = starts(backup.pieces)?;
        file.set_len(self.offset(end)?)?;
        write(file, backup.head, 0)?;
        let turns = Turns::new(backup.pieces.len());
        side_by_side(0..threads.max(1), &|| turns.stop(), |_| {
            // This fails harmlessly if the priority is lower already.
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

/// Returns the first page number of each piece, and the number of pages in total.
fn starts(pieces: &[Piece]) -> Result<(Vec<u64>, u64)> {
    let (mut starts, mut end) = (Vec::with_capacity(pieces.len()), FIRST);
    for piece in pieces {
        starts.push(end);
        let next = end.checked_add(piece.segment.pages);
        end = next.ok_or_else(|| Error::damaged("a backup of too many pages"))?;
    }
    Ok((starts, end))
}

/// Writes everything except blocks of zeros, each stretch between them in one call.
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
