//! What the index of a pack tells of a frame.

use common::{Error, Result};

use crate::page::ID;

/// No frame has more pages.
pub const PAGES: usize = 256;

/// Bytes of the pages of a frame, where there are enough of them. What one page of a frame is needed for, all of it is
/// unpacked for: where one entry in a hundred has changed, a backup with frames of 1 MiB takes 1.4 times as long, and 1 %
/// less room.
const FRAME: usize = 128 << 10;

/// How many pages go into a frame.
pub const fn pages_of_frame(page_size: usize) -> usize {
    match FRAME / page_size {
        0 => 1,
        count if count > PAGES => PAGES,
        count => count,
    }
}

/// What comes before the pages of a frame with differences, at most: bits, lengths, and the places of bases.
pub const LARGEST_HEAD: usize = PAGES * 20;

/// Of the number of pages, the bit that says that some of them are stored as differences. Who does not know it finds
/// too many pages.
const DIFFERENCES: u32 = 1 << 31;

/// packed: bytes without the ids.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub pages: u32,
    pub packed: u32,
    pub digest: [u8; 32],
    pub differences: bool,
}

pub const ENTRY: usize = 40;

impl Entry {
    /// Of so many bytes.
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

    /// Whether any frame that is written is of this size: what one may take of memory.
    pub fn is_bounded(&self, page_size: usize) -> bool {
        let plain = flags(self.pages as usize) + self.pages as usize * page_size;
        let most = plain + plain / 128 + 512; // what zstd makes of what it cannot compress
        let head = if self.differences { LARGEST_HEAD + 512 } else { 0 };
        (1..=PAGES).contains(&(self.pages as usize)) && self.packed as usize <= most + head
    }

    /// Whether a frame is as it was stored.
    pub fn check(&self, stored: &[u8]) -> Result<()> {
        if *blake3::hash(stored).as_bytes() == self.digest {
            return Ok(());
        }
        Err(Error::damaged("the checksum of a frame is not the one in its index"))
    }
}

/// Bytes for a bit of each page.
pub fn flags(pages: usize) -> usize {
    pages.div_ceil(8)
}
