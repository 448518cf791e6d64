//! The pages of a stream into those that are known and those that are new.

use common::Result;
use xxhash_rust::xxh3::xxh3_128;

use crate::difference::Packer;
use crate::entry::{ENTRY, pages_of_frame};
use crate::known::Known;
use crate::making::{Difference, Making};
use crate::nearest::{Nearest, nearest};
use crate::page::{Hashing, PageId, Place, Shape};
use crate::runs::Writer;

/// The level of zstd for the few pages that are new among many that are known.
const THOROUGH: i32 = 9;

/// A difference takes its length and its base besides: so many bytes.
const OWN: usize = 8;

/// Up to this part of a page a difference is taken as it is: what the page by itself comes to takes longer to find out
/// than it saves.
const SHORT: usize = 8;

/// Of some consecutive pages: the runs that they are, the frames of new pages and what an index tells of these. fresh: how
/// many are new. sum: XXH3 of all.
#[derive(Debug, Default)]
pub struct Sifted {
    pub runs: Vec<u8>,
    pub frames: Vec<u8>,
    pub entries: Vec<u8>,
    pub fresh: u32,
    pub sum: u128,
}

/// A whole page of a pack.
type Former = (Place, Vec<u8>);

/// A page as it is, and its id, which is that of the page without its number.
struct Page<'a> {
    bytes: &'a [u8],
    number: u64,
    masked: bool,
    id: PageId,
}

impl Page<'_> {
    /// What is stored of it.
    fn content(&self, shape: Shape) -> Vec<u8> {
        let mut content = self.bytes.to_vec();
        shape.mask(&mut content, self.number);
        content
    }
}

fn pages(data: &[u8], first: u64, shape: Shape) -> Vec<Page<'_>> {
    let mut hashing = Hashing::default();
    let page = |(number, bytes)| {
        let (id, masked) = hashing.masked_id(bytes, number, shape);
        Page { bytes, number, masked, id }
    };
    (first..).zip(data.chunks_exact(shape.page_size)).map(page).collect()
}

/// `data`: whole pages, the first of that number. New ones are for pack `own`; the first of them has the number 0 here.
pub fn sift(
    known: &Known,
    shape: Shape,
    own: u32,
    data: &[u8],
    first: u64,
    level: i32,
) -> Result<Sifted> {
    let pages = pages(data, first, shape);
    let found = nearest(known, pages.iter().map(|page| &page.id), first);
    let former = former(known, &found)?;
    let (mut packer, mut former) = (Packer::new()?, former.iter());
    let full = pages_of_frame(shape.page_size);
    let level = if former.len() * 2 < pages.len() { level.max(THOROUGH) } else { level };
    let (mut sifted, mut runs, mut frame) =
        (Sifted::default(), Writer::new(own), Making::default());
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
            known.take_base(difference.base);
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

/// What each new page can be stored beside, and where that is.
fn former(known: &Known, found: &[Nearest]) -> Result<Vec<Vec<Former>>> {
    let page = |base: &Place| Ok((*base, known.packs().whole(*base)?));
    let pages = |one: &Nearest| match one {
        Nearest::Same(_) => None,
        Nearest::Former(bases) => Some(bases.iter().flatten().map(page).collect()),
    };
    found.iter().filter_map(pages).collect()
}

/// The shortest, or the first that is short; none if the page by itself is hardly longer.
fn difference<'a>(
    packer: &mut Packer<'a>,
    page: &[u8],
    bases: &'a [Former],
) -> Result<Option<Difference>> {
    let short = |found: &Difference| SHORT * (found.packed.len() + OWN) <= page.len();
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
    if 2 * (best.packed.len() + OWN) > packer.pack(page, None)?.len() {
        return Ok(None);
    }
    Ok(Some(best))
}

impl Sifted {
    fn keep(&mut self, frame: Making, level: i32) -> Result<()> {
        self.entries.reserve(ENTRY);
        frame.finish(level, &mut self.frames)?.write(&mut self.entries);
        Ok(())
    }
}
