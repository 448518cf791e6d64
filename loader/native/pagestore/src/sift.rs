//! Separates the pages of a snapshot into known pages, which the previous backup has, and new pages.
//!
//! An inserted or removed page moves all later pages, so pages are not looked up by number. The possible bases of the
//! new pages between two known pages are the pages that were between these two in the previous backup.

use common::Result;
use xxhash_rust::xxh3::xxh3_128;

use crate::difference::Packer;
use crate::frame::{Difference, FrameBuilder};
use crate::known::Known;
use crate::pack::{ENTRY, pages_of_frame};
use crate::page::{FIRST, PageHasher, PageId, Place, RunWriter, Shape};

/// Minimum zstd level of frames if less than half of the pages are new.
const THOROUGH_LEVEL: i32 = 9;

/// Bytes that each difference takes in the head of its frame, for its length and its base.
const OVERHEAD: usize = 8;

/// A difference of at most 1/`SHORT_PART` of a page is used at once. To compress the page by itself for comparison
/// would take too much time for the space that it saves.
const SHORT_PART: usize = 8;

/// The result of [`sift`] for consecutive pages.
#[derive(Debug, Default)]
pub struct Sifted {
    /// The runs of all pages.
    pub runs: Vec<u8>,
    /// The frames of the new pages.
    pub frames: Vec<u8>,
    /// The index entries of these frames.
    pub entries: Vec<u8>,
    /// Number of new pages.
    pub fresh: u32,
    /// XXH3 (128 bits) of all pages.
    pub sum: u128,
}

/// A whole page of a pack, with its place.
type Base = (Place, Vec<u8>);

struct Page<'a> {
    bytes: &'a [u8],
    number: u64,
    /// The page begins with its number, which is not stored.
    masked: bool,
    id: PageId,
}

fn pages(data: &[u8], first: u64, shape: Shape) -> Vec<Page<'_>> {
    let mut hasher = PageHasher::default();
    let page = |(number, bytes)| {
        let (id, masked) = hasher.masked_id(bytes, number, shape);
        Page { bytes, number, masked, id }
    };
    (first..).zip(data.chunks_exact(shape.page_size)).map(page).collect()
}

/// Sifts consecutive pages. `data` has whole pages, of which the first has the number `first`. New pages go to pack
/// `own` and are numbered from 0. `level` is the zstd level of the frames.
pub fn sift(known: &Known, shape: Shape, own: u32, data: &[u8], first: u64, level: i32) -> Result<Sifted> {
    let pages = pages(data, first, shape);
    let nearest = nearest(known, pages.iter().map(|page| &page.id), first);
    let bases = bases(known, &nearest)?;
    let (mut packer, mut bases) = (Packer::new()?, bases.iter());
    let full = pages_of_frame(shape.page_size);
    let level = if bases.len() * 2 < pages.len() { level.max(THOROUGH_LEVEL) } else { level };
    let (mut sifted, mut runs, mut frame) = (Sifted::default(), RunWriter::new(own), FrameBuilder::default());
    for (page, nearest) in pages.iter().zip(nearest) {
        if let Nearest::Same(number) = nearest {
            let place = known.take(number);
            runs.add(place.pack, place.page);
            continue;
        }
        runs.add(own, sifted.fresh);
        sifted.fresh += 1;
        let bases = bases.next().map_or(&[][..], Vec::as_slice);
        let mut content = page.bytes.to_vec();
        shape.mask(&mut content, page.number);
        let difference = shortest_difference(&mut packer, &content, bases)?;
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

/// Returns the possible bases of each new page.
fn bases(known: &Known, nearest: &[Nearest]) -> Result<Vec<Vec<Base>>> {
    let page = |base: &Place| Ok((*base, known.packs.whole(*base)?));
    let pages = |nearest: &Nearest| match nearest {
        Nearest::Same(_) => None,
        Nearest::New(bases) => Some(bases.iter().flatten().map(page).collect()),
    };
    nearest.iter().filter_map(pages).collect()
}

/// Returns the shortest difference to one of `bases`, or the first that is short enough (see `SHORT_PART`). Returns
/// `None` if the compressed page by itself takes less than twice the bytes of the difference.
fn shortest_difference<'a>(packer: &mut Packer<'a>, page: &[u8], bases: &'a [Base]) -> Result<Option<Difference>> {
    let mut shortest: Option<Difference> = None;
    for (place, base) in bases {
        let difference = Difference { base: *place, packed: packer.pack(page, Some(base))? };
        if SHORT_PART * (difference.packed.len() + OVERHEAD) <= page.len() {
            return Ok(Some(difference));
        }
        if shortest.as_ref().is_none_or(|shortest| difference.packed.len() < shortest.packed.len()) {
            shortest = Some(difference);
        }
    }
    let Some(shortest) = shortest else { return Ok(None) };
    let is_worth_it = 2 * (shortest.packed.len() + OVERHEAD) <= packer.pack(page, None)?.len();
    Ok(is_worth_it.then_some(shortest))
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
    /// The page is known, with this number in the previous backup.
    Same(u32),
    /// The page is new. Possible bases: counted on from the last known page, and counted back from the next known page.
    New([Option<Place>; 2]),
}

/// Returns for each of the consecutive pages with these `ids` whether it is known. `first` is the first page's number.
pub fn nearest<'a>(known: &Known, ids: impl Iterator<Item = &'a PageId>, first: u64) -> Vec<Nearest> {
    let mut expected = first.checked_sub(FIRST).and_then(|number| u32::try_from(number).ok());
    let mut nearest: Vec<_> = ids
        .map(|id| {
            let same = known.find(id, expected);
            let here = same.or(expected);
            expected = here.and_then(|number| number.checked_add(1));
            match same {
                Some(number) => Nearest::Same(number),
                None => Nearest::New([here.and_then(|number| known.base(number)), None]),
            }
        })
        .collect();
    let mut expected: Option<u32> = None;
    for page in nearest.iter_mut().rev() {
        match page {
            Nearest::Same(number) => expected = number.checked_sub(1),
            Nearest::New([front, back]) => {
                *back = expected.and_then(|number| known.base(number)).filter(|back| Some(*back) != *front);
                expected = expected.and_then(|number| number.checked_sub(1));
            }
        }
    }
    nearest
}
