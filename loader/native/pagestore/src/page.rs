//! What makes two pages the same: all but the number that a page bears, and in format 3 the transaction.
//!
//! A compacted copy numbers its pages anew, so one page more at the beginning changes the numbers of all others.

/// The first bytes of a BLAKE3 hash: enough that nobody can make two pages with the same one.
pub const ID: usize = 20;

pub type PageId = [u8; ID];

/// A page of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub pack: u32,
    pub page: u32,
}

const NUMBER: usize = 8;

/// The number of the first page behind both meta pages.
pub const FIRST: u64 = 2;

/// Of the pages of one snapshot. transaction: which every page bears, in format 3.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    pub page_size: usize,
    pub transaction: Option<u64>,
}

impl Shape {
    /// What a page of that number begins with, and how many bytes of it count.
    fn beginning(self, number: u64) -> ([u8; 2 * NUMBER], usize) {
        let mut bytes = [0; 2 * NUMBER];
        bytes[..NUMBER].copy_from_slice(&number.to_ne_bytes());
        bytes[NUMBER..].copy_from_slice(&self.transaction.unwrap_or_default().to_ne_bytes());
        (bytes, if self.transaction.is_some() { 2 * NUMBER } else { NUMBER })
    }

    /// Takes the number out; whether it was there. Pages behind the first of a large value bear none.
    pub(crate) fn mask(self, page: &mut [u8], number: u64) -> bool {
        let (beginning, length) = self.beginning(number);
        let found = page[..length] == beginning[..length];
        if found {
            page[..length].fill(0);
        }
        found
    }

    pub(crate) fn number(self, page: &mut [u8], number: u64) {
        let (beginning, length) = self.beginning(number);
        page[..length].copy_from_slice(&beginning[..length]);
    }
}

/// Ids of pages. The room is for one at a time: one slice is hashed faster than a page and what is added to it.
#[derive(Debug, Default)]
pub(crate) struct Hashing(Vec<u8>);

impl Hashing {
    /// Of a page as it would be without its number, and whether that was there.
    pub fn masked_id(&mut self, page: &[u8], number: u64, shape: Shape) -> (PageId, bool) {
        self.put(page);
        let masked = shape.mask(&mut self.0, number);
        (self.hash(masked), masked)
    }

    fn put(&mut self, page: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(page);
    }

    fn hash(&mut self, masked: bool) -> PageId {
        self.0.push(masked.into());
        *blake3::hash(&self.0).as_bytes().first_chunk().expect("an id is shorter than a hash")
    }
}
