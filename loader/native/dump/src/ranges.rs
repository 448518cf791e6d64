//! Divides id2e into ranges of IDs with about the same number of pages.

use crate::tables::Tables;
use crate::{Error, Result};

/// From the first ID (inclusive) to the second (exclusive); `None` means no bound.
pub(crate) type Range = (Option<u64>, Option<u64>);

/// Divides id2e into ranges of about `size` bytes of pages: at least four for each of `jobs` workers, but at most
/// `most`. A small table may have fewer.
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

/// Reads the ID from a key.
pub(crate) fn id(key: &[u8]) -> Result<u64> {
    codec::id::read(key).ok_or_else(|| Error::damaged("a key that is no ID (table id2e)"))
}
