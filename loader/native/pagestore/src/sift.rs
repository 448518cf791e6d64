//! Separates the pages of a stream into known and new ones.
//!
//! An inserted or removed page moves all others, so pages are not looked up by number: new pages between two known ones
//! are matched with what was between these in the former backup.

use common::Result;
use xxhash_rust::xxh3::xxh3_128;

use crate::difference::Packer;
use crate::frame::{Difference, FrameBuilder};
use crate::known::Known;
use crate::pack::{ENTRY, pages_of_frame};
use crate::page::{FIRST, PageHasher, PageId, Place, RunWriter, Shape};

/// zstd level if only a few pages are new.
const THOROUGH_LEVEL: i32 = 9;

/// Bytes that a difference needs in addition, for its length and its base.
const OVERHEAD: usize = 8;

/// A difference of at most this part of a page is used at once: compressing the page by itself for comparison would
/// take longer than it saves.
const SHORT_PART: usize = 8;

/// The result for some consecutive pages: their runs, the frames of new pages with their index entries, the number of
/// new pages (`fresh`), and the XXH3 of all pages (`sum`).
#[derive(Debug, Default)]
pub struct Sifted {
    pub runs: Vec<u8>,
    pub frames: Vec<u8>,
    pub entries: Vec<u8>,
    pub fresh: u32,
    pub sum: u128,
}

/// A whole page of a pack, with its location.
type Former = (Place, Vec<u8>);

/// A page, with its id, which ignores the page number.
struct Page<'a> {
    bytes: &'a [u8],
    number: u64,
    masked: bool,
    id: PageId,
}

impl Page<'_> {
    /// Returns the content to be stored.
    fn content(&self, shape: Shape) -> Vec<u8> {
        let mut content = self.bytes.to_vec();
        shape.mask(&mut content, self.number);
        content
    }
}

fn pages(data: &[u8], first: u64, shape: Shape) -> Vec<Page<'_>> {
    let mut hashing = PageHasher::default();
    let page = |(number, bytes)| {
        let (id, masked) = hashing.masked_id(bytes, number, shape);
        Page { bytes, number, masked, id }
    };
    (first..).zip(data.chunks_exact(shape.page_size)).map(page).collect()
}

/// `data` has whole pages, of which the first is page `first`. New pages go to pack `own`, numbered from 0 here.
pub fn sift(known: &Known, shape: Shape, own: u32, data: &[u8], first: u64, level: i32) -> Result<Sifted> {
    let pages = pages(data, first, shape);
    let found = nearest(known, pages.iter().map(|page| &page.id), first);
    let former = former(known, &found)?;
    let (mut packer, mut former) = (Packer::new()?, former.iter());
    let full = pages_of_frame(shape.page_size);
    let level = if former.len() * 2 < pages.len() { level.max(THOROUGH_LEVEL) } else { level };
    let (mut sifted, mut runs, mut frame) = (Sifted::default(), RunWriter::new(own), FrameBuilder::default());
    for (page, found) in pages.iter().zip(found) {
        if let Nearest::Same(number) = found {
            let place = known.take(number);
            runs.add(place.pack, place.page);
            continue;
        }
        runs.add(own, sifted.fresh);
        sifted.fresh += 1;
        let bases = former.next().map_or(&[][..], Vec::as_slice);
        let content = page.content(shape);
        let difference = difference(&mut packer, &content, bases)?;
        if let Some(difference) = &difference {
            known.uses.add(difference.base);
        }
        frame.add(&content, page.masked, &page.id, difference);
        if frame.len() == full {
            sifted.keep(std::mem::take(&mut frame), level)?;
        }
    }
    if frame.len() > 0 {
        sifted.keep(frame, level)?;
    }
    Ok(Sifted { runs: runs.finish(), sum: xxh3_128(data), ..sifted })
}

/// Returns the possible bases of each new page, with their locations.
fn former(known: &Known, found: &[Nearest]) -> Result<Vec<Vec<Former>>> {
    let page = |base: &Place| Ok((*base, known.packs().whole(*base)?));
    let pages = |one: &Nearest| match one {
        Nearest::Same(_) => None,
        Nearest::Former(bases) => Some(bases.iter().flatten().map(page).collect()),
    };
    found.iter().filter_map(pages).collect()
}

/// Returns the shortest difference, or the first that is `SHORT_PART`; None if the page by itself is hardly longer.
fn difference<'a>(packer: &mut Packer<'a>, page: &[u8], bases: &'a [Former]) -> Result<Option<Difference>> {
    let short = |found: &Difference| SHORT_PART * (found.packed.len() + OVERHEAD) <= page.len();
    let mut best: Option<Difference> = None;
    for (base, former) in bases {
        let found = Difference { base: *base, packed: packer.pack(page, Some(former))? };
        if short(&found) {
            return Ok(Some(found));
        }
        if best.as_ref().is_none_or(|best| found.packed.len() < best.packed.len()) {
            best = Some(found);
        }
    }
    let Some(best) = best else { return Ok(None) };
    if 2 * (best.packed.len() + OVERHEAD) > packer.pack(page, None)?.len() {
        return Ok(None);
    }
    Ok(Some(best))
}

impl Sifted {
    fn keep(&mut self, frame: FrameBuilder, level: i32) -> Result<()> {
        self.entries.reserve(ENTRY);
        frame.finish(level, &mut self.frames)?.write(&mut self.entries);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Nearest {
    /// The page is known under that number.
    Same(u32),
    /// The page is new; the bases continue from the known page before it, and backwards from the one after it.
    Former([Option<Place>; 2]),
}

/// `first` is the number of the first of these consecutive pages.
pub fn nearest<'a>(known: &Known, ids: impl Iterator<Item = &'a PageId>, first: u64) -> Vec<Nearest> {
    let mut before = first.checked_sub(FIRST).and_then(|number| u32::try_from(number).ok());
    let mut found: Vec<_> = ids
        .map(|id| {
            let same = known.find(id, before);
            let place = same.or(before);
            before = place.and_then(|place| place.checked_add(1));
            match same {
                Some(number) => Nearest::Same(number),
                None => Nearest::Former([place.and_then(|place| known.base(place)), None]),
            }
        })
        .collect();
    let mut behind: Option<u32> = None;
    for one in found.iter_mut().rev() {
        match one {
            Nearest::Same(number) => behind = number.checked_sub(1),
            Nearest::Former([front, back]) => {
                *back = behind.and_then(|place| known.base(place)).filter(|back| Some(*back) != *front);
                behind = behind.and_then(|place| place.checked_sub(1));
            }
        }
    }
    found
}
