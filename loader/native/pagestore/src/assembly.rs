//! Restores a backup from its packs. Threads write its pages in parallel, each page at its offset.

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
use crate::page::{self, FIRST, Place, Shape};

/// All packs that a backup needs.
#[derive(Debug, Default)]
pub struct Assembly {
    /// The packs by their numbers.
    packs: FxHashMap<u32, Pack>,
    shape: Shape,
    cache: Cache<Frame>,
}

/// A page stored as a difference.
struct Differing {
    /// Index of the page in its segment.
    at: usize,
    packed: Vec<u8>,
    base: Vec<u8>,
    masked: bool,
}

impl Assembly {
    pub fn new(packs: impl IntoIterator<Item = (u32, Pack)>, shape: Shape) -> Self {
        Self { packs: packs.into_iter().collect(), shape, cache: Cache::default() }
    }

    pub fn pack(&self, number: u32) -> Result<&Pack> {
        let missing = || Error::damaged("the list of its pages names a pack that it does not have");
        self.packs.get(&number).ok_or_else(missing)
    }

    pub(crate) fn packs(&self) -> impl Iterator<Item = (u32, &Pack)> {
        self.packs.iter().map(|(number, pack)| (*number, pack))
    }

    pub(crate) fn frame_of(&self, place: Place) -> Result<FrameKey> {
        Ok((place.pack, self.pack(place.pack)?.find(place.page)?.0))
    }

    /// Returns the size in bytes of all pages of a segment.
    pub fn bytes(&self, segment: &Segment) -> Result<usize> {
        let pages = usize::try_from(segment.pages).ok();
        let bytes = pages.and_then(|pages| pages.checked_mul(self.shape.page_size));
        bytes.ok_or_else(page::wrong)
    }

    /// Returns the offset of page `number` in the restored file.
    pub(crate) fn offset(&self, number: u64) -> Result<u64> {
        number.checked_mul(self.shape.page_size as u64).ok_or_else(page::wrong)
    }

    /// Fills `data` with the pages of a segment. `own` is the number of the backup's own pack; `first` is the number of
    /// the segment's first page in the database.
    pub fn fill(&self, segment: &Segment, own: u32, first: u64, data: &mut [u8]) -> Result<()> {
        let (mut at, mut differing) = (0, Vec::new());
        for run in page::read_runs(&segment.runs, own, segment.first, segment.pages)? {
            let (mut page, end) = (run.start, run.start + run.count);
            while page < end {
                let (frame, within) = self.frame(Place { pack: run.pack, page })?;
                for within in within..frame.pages().min(within + (end - page) as usize) {
                    let masked = frame.is_masked(within);
                    match frame.page(within) {
                        Content::Whole(bytes) => self.put(at, first, masked, data, |page| {
                            page.copy_from_slice(bytes);
                            Ok(())
                        })?,
                        // Differences are decompressed last, because the bases must outlive the decompressor.
                        Content::Difference(base, packed) => {
                            let (packed, base) = (packed.to_vec(), self.whole(base)?);
                            differing.push(Differing { at, packed, base, masked });
                        }
                    }
                    (at, page) = (at + 1, page + 1);
                }
            }
        }
        let mut unpacker = Unpacker::new();
        for Differing { at, packed, base, masked } in &differing {
            self.put(*at, first, *masked, data, |page| unpacker.unpack(packed, base, page))?;
        }
        Ok(())
    }

    /// Fills page `at` of a segment with `fill`, and restores the page number if the page was stored without it.
    fn put(
        &self,
        at: usize,
        first: u64,
        masked: bool,
        data: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let size = self.shape.page_size;
        let page = data.get_mut(at * size..(at + 1) * size).ok_or_else(page::wrong)?;
        fill(page)?;
        if masked {
            self.shape.unmask(page, first + at as u64);
        }
        Ok(())
    }

    /// Returns the bytes of a whole page. Fails if the page is a difference, which cannot be a base.
    pub(crate) fn whole(&self, place: Place) -> Result<Vec<u8>> {
        let (frame, within) = self.frame(place)?;
        match frame.page(within) {
            Content::Whole(bytes) => Ok(bytes.to_vec()),
            Content::Difference(..) => Err(not_whole()),
        }
    }

    /// Returns the frame with this page, and the page's index in the frame.
    fn frame(&self, place: Place) -> Result<(Arc<Frame>, usize)> {
        let pack = self.pack(place.pack)?;
        let (number, within) = pack.find(place.page)?;
        let frame = self.cache.get((place.pack, number), || pack.frame(number))?;
        Ok((frame, within))
    }
}

/// Blocks of this many bytes become holes if all bytes are zero.
const BLOCK: usize = 4096;
const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Niceness of the restoring threads, so that slapd has priority.
const NICE: i32 = 10;

/// Consecutive pages of a backup, with their checksum.
#[derive(Debug)]
pub struct Piece {
    pub segment: Segment,
    /// XXH3 (128 bits) of the pages. Frames and pages have strong hashes; this sum detects pages in the wrong order.
    pub sum: u128,
}

pub struct Backup<'a> {
    /// Both meta pages.
    pub head: &'a [u8],
    pub pieces: &'a [Piece],
    /// The number of the backup's own pack.
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
            // This fails if the priority is lower already.
            let _ = rustix::process::setpriority_process(None, NICE);
            let mut data = Vec::new();
            for number in turns.iter() {
                counters.check()?;
                let (piece, first) = (&backup.pieces[number], starts[number]);
                data.resize(self.bytes(&piece.segment)?, 0);
                self.fill(&piece.segment, backup.own, first, &mut data)?;
                if xxh3_128(&data) != piece.sum {
                    let what = format!("the checksum of piece {number} is not the one in its list");
                    return Err(Error::damaged(what));
                }
                write(file, &data, self.offset(first)?)?;
                counters.add(0, data.len() as u64);
            }
            Ok(())
        })
        .map(drop)
    }
}

/// Returns the first page number of each piece, and the number of pages of the file.
fn starts(pieces: &[Piece]) -> Result<(Vec<u64>, u64)> {
    let (mut starts, mut end) = (Vec::with_capacity(pieces.len()), FIRST);
    for piece in pieces {
        starts.push(end);
        let next = end.checked_add(piece.segment.pages);
        end = next.ok_or_else(|| Error::damaged("a backup of too many pages"))?;
    }
    Ok((starts, end))
}

/// Writes `data` from offset `start` on, except blocks of zeros. All bytes between two such blocks are written at once.
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
