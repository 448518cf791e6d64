//! Ranges of IDs of about as many pages.

use crate::tables::Tables;
use crate::{Error, Result};

/// IDs from the first on, up to but without the second; `None` is without end.
pub(crate) type Range = (Option<u64>, Option<u64>);

/// Cuts id2e into ranges of about `size` bytes of pages, four or more for each of `jobs` and at most `most` of them; fewer
/// where it is small.
pub(crate) fn cut(tables: &Tables<'_>, size: u64, jobs: usize, most: usize) -> Result<Vec<Range>> {
    let parts = parts(tables, size, 4 * jobs, most);
    let keys = tables.id2e.cuts(parts)?;
    let wanted = parts.min(keys.len() + 1);
    let (mut ranges, mut from) = (Vec::new(), None);
    for at in 1..wanted {
        let cut = Some(id(&keys[at * keys.len() / wanted])?);
        ranges.push((from, cut));
        from = cut;
    }
    ranges.push((from, None));
    Ok(ranges)
}

fn parts(tables: &Tables<'_>, size: u64, least: usize, most: usize) -> usize {
    let record = tables.id2e.record();
    let pages = record.leaf_pages.saturating_add(record.overflow_pages);
    let parts = pages.saturating_mul(tables.page_size) / size;
    usize::try_from(parts).unwrap_or(most).clamp(least, most.max(least))
}

/// An ID as a key.
pub(crate) fn id(key: &[u8]) -> Result<u64> {
    codec::id::read(key).ok_or_else(|| Error::damaged("a key that is no ID (table id2e)"))
}
