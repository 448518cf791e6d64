//! Reads a sample of the entries: those of windows of IDs that lie evenly over the table.

use common::Counters;
use tree::Names;
use tree::fingerprint::Fingerprinter;

use crate::tables::{Descriptions, Tables, open};
use crate::walk::{Range, Walker, id};
use crate::{Result, Source};

/// The number of IDs in a window. Children often stand near their parents, and to seek takes as long as to read some
/// entries.
const WINDOW: u64 = 64;

/// The size of a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleSize {
    /// At least this number of entries and this share of all, but at most that number.
    pub least: u64,
    pub share: f64,
    pub most: u64,
}

#[derive(Debug, Default)]
pub struct Sample {
    /// LDIF, parents before children.
    pub text: Vec<u8>,
    /// The number of records of id2e: entries, and those that were never added but have children.
    pub records: u64,
    /// The number of windows; `None` if all entries were read.
    pub windows: Option<usize>,
}

/// Returns about as many entries as `size` says, or all if there are fewer than twice as many. Every entry is equally
/// likely to be included.
pub fn sample(source: &Source<'_>, size: SampleSize, counters: &Counters) -> Result<Sample> {
    let snapshot = open(source.path, source.txn)?;
    let tables = Tables::of(&snapshot)?;
    let base = source.base_id(&tables)?;
    let descriptions = Descriptions::read(&tables.ad2i, &Names::default())?;
    let mut walker = Walker::new(&tables, &descriptions, base)?;
    let records = tables.id2e.record().entries;
    let windows = windows(&tables, records, wanted(size, records))?;
    let (mut text, mut late) = (Vec::new(), Vec::new());
    let mut printer = Fingerprinter::default();
    for range in windows.as_deref().unwrap_or(&[(None, None)]) {
        let go_on = || counters.check();
        go_on()?;
        walker.range(*range, counters, go_on, |entry| {
            let start = text.len();
            entry.record(&mut text, &mut printer)?;
            let length = text.len() - start;
            if entry.place.late {
                late.push((entry.place.depth, text.split_off(start)));
            }
            Ok(length as u64)
        })?;
    }
    late.sort_by_key(|(depth, _)| *depth);
    for (_, one) in late {
        text.extend(one);
    }
    Ok(Sample { text, records, windows: windows.map(|windows| windows.len()) })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a sample need not be exact"
)]
fn wanted(size: SampleSize, records: u64) -> u64 {
    size.least.max((records as f64 * size.share) as u64).min(size.most)
}

/// Places each window in the middle of its part of the IDs, not of the pages, because otherwise large entries would be
/// sampled more often than small ones. Returns `None` if all entries are to be read.
fn windows(tables: &Tables<'_>, records: u64, wanted: u64) -> Result<Option<Vec<Range>>> {
    let mut cursor = tables.id2e.cursor()?;
    let ends = (cursor.next()?.map(|(key, _)| id(key)), tables.id2e.last_key()?);
    let (Some(first), Some(last)) = ends else { return Ok(None) };
    if records <= wanted.saturating_mul(2) {
        return Ok(None);
    }
    let (first, last) = (first?, id(&last)?);
    let ids = last.saturating_sub(first).saturating_add(1);
    // IDs of deleted entries are not reused, so windows have fewer entries than IDs.
    let filled = u128::from(wanted) * u128::from(ids) / (u128::from(records) * u128::from(WINDOW));
    let count = u64::try_from(filled).unwrap_or(wanted).clamp(1, wanted.max(1));
    let step = ids / count;
    let window = |at: u64| {
        let from = first + at * step + step.saturating_sub(WINDOW) / 2;
        (Some(from), Some(from.saturating_add(WINDOW)))
    };
    Ok(Some((0..count).map(window).collect()))
}
