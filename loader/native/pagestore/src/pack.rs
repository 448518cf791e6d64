//! A pack file: frames followed by the index, which the caller has read and authenticated.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Error, InFile, Result};

use crate::frame::{Frame, Head};
use crate::page::ID;

#[derive(Debug)]
struct StoredFrame {
    entry: Entry,
    offset: u64,
    /// Number of its first page in the pack.
    first: u32,
}

#[derive(Debug)]
pub struct Pack {
    name: PathBuf,
    file: File,
    places: Vec<StoredFrame>,
    page_size: usize,
    pages: u32,
}

impl Pack {
    /// `name` is for errors. `index` has the entries of the pack's frames.
    pub fn open(path: &Path, name: &Path, index: &[u8], page_size: usize) -> Result<Self> {
        let file = File::open(path).in_file(Some(name))?;
        let strange = || Error::damaged("its index has an invalid entry").in_file(Some(name));
        let entries = index.chunks_exact(ENTRY);
        if !entries.remainder().is_empty() {
            return Err(strange());
        }
        let (mut places, mut offset, mut first) = (Vec::with_capacity(entries.len()), 0, 0_u32);
        for entry in entries.map(Entry::read) {
            if !entry.is_bounded(page_size) {
                return Err(strange());
            }
            places.push(StoredFrame { entry, offset, first });
            offset += entry.stored() as u64;
            first = first.checked_add(entry.pages).ok_or_else(strange)?;
        }
        Ok(Self { name: name.to_owned(), file, places, page_size, pages: first })
    }

    pub fn pages(&self) -> u32 {
        self.pages
    }

    pub(crate) fn pages_of(&self, frame: usize) -> u64 {
        self.places.get(frame).map_or(0, |place| place.entry.pages.into())
    }

    pub(crate) fn frame(&self, number: usize) -> Result<Frame> {
        let place = &self.places[number];
        let stored = self.stored(place)?;
        Frame::unpack(&stored, &place.entry, self.page_size).in_file(Some(&self.name))
    }

    /// Returns the index of the frame with that page, and the page's index in the frame.
    pub(crate) fn find(&self, page: u32) -> Result<(usize, usize)> {
        if page >= self.pages {
            let what = "the backup names a page that this pack does not have";
            return Err(Error::damaged(what).in_file(Some(&self.name)));
        }
        let number = self.places.partition_point(|place| place.first <= page) - 1;
        Ok((number, (page - self.places[number].first) as usize))
    }

    /// Reads the head of a frame.
    pub(crate) fn head(&self, frame: usize) -> Result<Head> {
        let place = &self.places[frame];
        let stored = self.stored(place)?;
        Frame::head(&stored, &place.entry, self.page_size).in_file(Some(&self.name))
    }

    fn stored(&self, place: &StoredFrame) -> Result<Vec<u8>> {
        let mut room = vec![0; place.entry.stored()];
        let read = self.file.read_exact_at(&mut room, place.offset);
        read.in_file(Some(&self.name))?;
        Ok(room)
    }
}

/// Maximum number of pages in a frame.
pub const PAGES: usize = 256;

/// Target size of a frame's pages in bytes. To read one page, the whole frame is unpacked: with frames of 1 MiB, a
/// backup after one entry in a hundred changed takes 1.4 times as long, and saves 1 % of the space.
const FRAME: usize = 128 << 10;

/// Returns the number of pages in a full frame.
pub const fn pages_of_frame(page_size: usize) -> usize {
    match FRAME / page_size {
        0 => 1,
        count if count > PAGES => PAGES,
        count => count,
    }
}

/// Maximum number of bytes before the pages of a frame with differences: bits, lengths, bases.
pub const LARGEST_HEAD: usize = PAGES * 20;

/// A flag in the number of pages, set if the frame has differences. A program that does not know it refuses the frame
/// because of too many pages.
const DIFFERENCES: u32 = 1 << 31;

/// `packed`: number of bytes without the ids.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub pages: u32,
    pub packed: u32,
    pub digest: [u8; 32],
    pub differences: bool,
}

pub const ENTRY: usize = 40;

impl Entry {
    /// Decodes an entry from `bytes`, which are as many as [`ENTRY`] says.
    pub fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|place| bytes[at + place]));
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[8..]);
        let (pages, packed) = (number(0), number(4));
        let differences = pages & DIFFERENCES != 0;
        Self { pages: pages & !DIFFERENCES, packed, digest, differences }
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        let kind = if self.differences { DIFFERENCES } else { 0 };
        to.extend((self.pages | kind).to_le_bytes());
        to.extend(self.packed.to_le_bytes());
        to.extend(self.digest);
    }

    pub fn stored(&self) -> usize {
        self.packed as usize + self.pages as usize * ID
    }

    /// Returns whether a frame can have this size, which bounds the memory that an index can claim.
    pub fn is_bounded(&self, page_size: usize) -> bool {
        let plain = flags(self.pages as usize) + self.pages as usize * page_size;
        let most = plain + plain / 128 + 512; // zstd's overhead on incompressible data
        let head = if self.differences { LARGEST_HEAD + 512 } else { 0 };
        (1..=PAGES).contains(&(self.pages as usize)) && self.packed as usize <= most + head
    }

    /// Verifies the checksum of a stored frame.
    pub fn check(&self, stored: &[u8]) -> Result<()> {
        if *blake3::hash(stored).as_bytes() == self.digest {
            return Ok(());
        }
        Err(Error::damaged("the checksum of a frame is not the one in its index"))
    }
}

/// Returns the number of bytes for one bit per page.
pub fn flags(pages: usize) -> usize {
    pages.div_ceil(8)
}
