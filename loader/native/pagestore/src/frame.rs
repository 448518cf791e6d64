//! Some pages of a pack, compressed together: which of them were masked (a bit each), then the pages; behind what zstd made
//! of that the ids of the pages, which only the next backup reads.

use common::{Error, Result};

use crate::page::{ID, PageId};

/// A whole pack of new pages has this many in a frame: 1 MiB of pages of 4 KiB.
pub const PAGES: usize = 256;

/// What an index tells of a frame. packed: bytes without the ids.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub pages: u32,
    pub packed: u32,
    pub digest: [u8; 32],
}

pub const ENTRY: usize = 40;

impl Entry {
    /// Of so many bytes.
    pub fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|place| bytes[at + place]));
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[8..]);
        Self { pages: number(0), packed: number(4), digest }
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend(self.pages.to_le_bytes());
        to.extend(self.packed.to_le_bytes());
        to.extend(self.digest);
    }

    pub fn stored(&self) -> usize {
        self.packed as usize + self.pages as usize * ID
    }

    /// Whether any frame that is written is of this size: what one may take of memory.
    pub fn is_bounded(&self, page_size: usize) -> bool {
        let plain = self.plain(page_size);
        let most = plain + plain / 128 + 512; // what zstd makes of what it cannot compress
        (1..=PAGES).contains(&(self.pages as usize)) && self.packed as usize <= most
    }

    /// Bytes of what is compressed.
    fn plain(&self, page_size: usize) -> usize {
        flags(self.pages as usize) + self.pages as usize * page_size
    }
}

fn flags(pages: usize) -> usize {
    pages.div_ceil(8)
}

/// Pages that become a frame.
#[derive(Debug, Default)]
pub struct Making {
    masked: Vec<bool>,
    pages: Vec<u8>,
    ids: Vec<u8>,
}

impl Making {
    pub fn add(&mut self, page: &[u8], masked: bool, id: &PageId) {
        self.masked.push(masked);
        self.pages.extend_from_slice(page);
        self.ids.extend_from_slice(id);
    }

    pub fn len(&self) -> usize {
        self.masked.len()
    }

    /// Appends what is stored of it.
    pub fn finish(self, level: i32, stored: &mut Vec<u8>) -> Result<Entry> {
        let mut plain = vec![0; flags(self.len())];
        for (number, _) in self.masked.iter().enumerate().filter(|(_, masked)| **masked) {
            plain[number / 8] |= 1 << (number % 8);
        }
        plain.extend(&self.pages);
        let packed = zstd::bulk::compress(&plain, level)
            .map_err(|error| Error::damaged(error.to_string()))?;
        let start = stored.len();
        stored.extend(&packed);
        stored.extend(&self.ids);
        let digest = *blake3::hash(&stored[start..]).as_bytes();
        Ok(Entry { pages: size(self.len()), packed: size(packed.len()), digest })
    }
}

/// Of a frame, whose size is bounded.
fn size(count: usize) -> u32 {
    u32::try_from(count).expect("a frame is small")
}

/// A frame that was unpacked.
#[derive(Debug)]
pub struct Frame {
    plain: Vec<u8>,
    first: usize,
    page_size: usize,
}

impl Frame {
    pub fn unpack(stored: &[u8], entry: &Entry, page_size: usize) -> Result<Self> {
        check(stored, entry)?;
        let wanted = entry.plain(page_size);
        let plain = zstd::bulk::decompress(&stored[..entry.packed as usize], wanted)
            .map_err(|error| Error::damaged(format!("a frame cannot be unpacked: {error}")))?;
        if plain.len() != wanted {
            return Err(Error::damaged(
                "a frame holds another number of bytes than its index says",
            ));
        }
        Ok(Self { plain, first: flags(entry.pages as usize), page_size })
    }

    /// The page, and whether it was masked.
    pub fn page(&self, number: usize) -> (&[u8], bool) {
        let start = self.first + number * self.page_size;
        let masked = self.plain[number / 8] >> (number % 8) & 1 == 1;
        (&self.plain[start..start + self.page_size], masked)
    }

    pub fn pages(&self) -> usize {
        (self.plain.len() - self.first) / self.page_size
    }

    pub fn bytes(&self) -> usize {
        self.plain.len()
    }
}

/// Whether a frame is as it was stored.
pub fn check(stored: &[u8], entry: &Entry) -> Result<()> {
    if *blake3::hash(stored).as_bytes() == entry.digest {
        return Ok(());
    }
    Err(Error::damaged("the checksum of a frame is not the one in its index"))
}
