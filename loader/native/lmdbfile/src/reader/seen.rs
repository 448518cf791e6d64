//! Pages that somebody else has met, in whatever order, and that a walk need not read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use disk::Buffer;

use super::contents::{Contents, Orders};
use super::view::View;
use crate::layout::META_PAGES;
use crate::{Layout, Order, Reader};

/// Pages with their numbers, in order; `None` once somebody has asked for it.
type Piece = Vec<(u64, Option<Contents>)>;

/// What was seen of the pages of a file while it was copied: of 4096 bytes some 130.
#[derive(Debug)]
pub struct Seen {
    layout: Layout,
    /// The transaction of the snapshot.
    txn: u64,
    orders: Vec<Order>,
    /// The pages of a piece of the file in order, by its first.
    pieces: Mutex<BTreeMap<u64, Piece>>,
}

impl Seen {
    /// Of a copy of that snapshot, page for page.
    pub fn new(of: &Reader) -> Self {
        Self { layout: of.layout(), txn: of.txn(), orders: of.orders(), pieces: Mutex::default() }
    }

    /// Looks at a piece of the file from the byte `start` on, and gives it back. What is no page of a tree is passed
    /// over: a free page may hold anything.
    pub fn look(&self, start: u64, bytes: Buffer) -> Buffer {
        let size = self.layout.page_size as u64;
        let block = Arc::new(bytes);
        let skip = start.next_multiple_of(size) - start;
        let pages = (start + skip) / size..(start + block.len() as u64) / size;
        let page = |number| {
            #[allow(clippy::cast_possible_truncation, reason = "it lies within the block")]
            let at = (number * size - start) as usize;
            Some((number, Some(self.page(number, &block, at)?)))
        };
        let first = pages.start;
        let mut met: Vec<_> = pages.filter_map(page).collect();
        met.shrink_to_fit();
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).insert(first, met);
        Arc::try_unwrap(block).unwrap_or_else(|block| Buffer::from(&block[..]))
    }

    fn page(&self, number: u64, block: &Arc<Buffer>, start: usize) -> Option<Contents> {
        let range = start..start + self.layout.page_size;
        let bytes = &block[range.clone()];
        if number < META_PAGES {
            return None;
        }
        self.layout.check_number(bytes, number, self.txn).ok()?;
        if self.layout.is_overflow(bytes) {
            return bytes.first_chunk().copied().map(Contents::Overflow);
        }
        let view = View::page(Arc::clone(block), range, self.layout).ok()?;
        Some(Contents::new(&view, self.orders()))
    }

    /// The page, for whoever asks first.
    pub(super) fn take(&self, number: u64) -> Option<Contents> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, piece) = pieces.range_mut(..=number).next_back()?;
        let at = piece.binary_search_by_key(&number, |(here, _)| *here).ok()?;
        piece[at].1.take()
    }

    /// Those that were looked for in the pages.
    pub(super) fn orders(&self) -> Orders<'_> {
        Orders { keys: &self.orders, values: &self.orders }
    }

    /// Whether no others come up in a walk.
    pub(super) fn covers(&self, wanted: &[Order]) -> bool {
        wanted.iter().all(|order| self.orders.iter().any(|known| known.is(*order)))
    }
}
