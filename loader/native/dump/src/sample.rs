//! Reads a sample of the entries: those in windows of IDs that are evenly distributed over the table.

use common::Counters;
use tree::Names;
use tree::fingerprint::Fingerprinter;

use crate::tables::{Descriptions, Tables, open};
use crate::walk::{Range, Walker, id};
use crate::{Result, Source};

/// Number of IDs in a window. Children are often near their parents, and a seek takes as long as reading some entries.
const WINDOW: u64 = 64;

/// The size of a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleSize {
    /// The sample has at least `least` entries and the share `share` of all entries, but at most `most` entries.
    pub least: u64,
    pub share: f64,
    pub most: u64,
}

#[derive(Debug, Default)]
pub struct Sample {
    /// The entries as LDIF, parents before children.
    pub text: Vec<u8>,
    /// Number of records in id2e: entries, and records of entries that have children but were never added.
    pub records: u64,
    /// Number of windows; `None` if all entries were read.
    pub windows: Option<usize>,
}

/// Returns about as many entries as `size` says, or all entries if there are fewer than twice as many. All entries are
/// equally likely to be in the sample.
pub fn sample(source: &Source, size: SampleSize, counters: &Counters) -> Result<Sample> {
    let snapshot = open(&source.path, source.txn)?;
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

/// Divides the IDs into equal parts, and places a window in the middle of each; dividing the pages instead would favour
/// large entries over small ones. Returns `None` if all entries must be read.
fn windows(tables: &Tables<'_>, records: u64, wanted: u64) -> Result<Option<Vec<Range>>> {
    let mut cursor = tables.id2e.cursor()?;
    let ends = (cursor.next()?.map(|(key, _)| id(key)), tables.id2e.last_key()?);
    let (Some(first), Some(last)) = ends else { return Ok(None) };
    if records <= wanted.saturating_mul(2) {
        return Ok(None);
    }
    let (first, last) = (first?, id(&last)?);
    let ids = last.saturating_sub(first).saturating_add(1);
    // IDs of deleted entries are not reused, so a window has fewer entries than IDs.
    let filled = u128::from(wanted) * u128::from(ids) / (u128::from(records) * u128::from(WINDOW));
    let count = u64::try_from(filled).unwrap_or(wanted).clamp(1, wanted.max(1));
    let step = ids / count;
    let window = |at: u64| {
        let from = first + at * step + step.saturating_sub(WINDOW) / 2;
        (Some(from), Some(from.saturating_add(WINDOW)))
    };
    Ok(Some((0..count).map(window).collect()))
}
