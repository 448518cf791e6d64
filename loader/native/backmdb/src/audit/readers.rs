//! Workers side by side, each with a reader of its own, who take the parts of a work in turn.

use lmdbfile::Reader;
use workers::Turns;

use crate::Result;

/// Calls `work` in each of `jobs` threads, or in fewer where there are fewer parts. After an error nobody takes another
/// part.
pub fn side_by_side(
    reader: &Reader,
    jobs: usize,
    parts: usize,
    work: impl Fn(&Reader, &Turns) -> Result<()> + Sync,
) -> Result<()> {
    let readers = (0..jobs.clamp(1, parts.max(1))).map(|_| reader.fork());
    let readers = readers.collect::<lmdbfile::Result<Vec<_>>>()?;
    let turns = Turns::new(parts);
    workers::side_by_side(readers, &|| turns.stop(), |reader| work(&reader, &turns)).map(drop)
}
