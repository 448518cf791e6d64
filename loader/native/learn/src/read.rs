//! Reading the source: workers take blocks in turn, each counts for itself, and what they counted is added up.

use backmdb::Source;
use backmdb::chunks::{Chunk, Chunks};
use common::{Counters, InFile, Result};
use ldif::records::Records;
use ldif::walk::locate;

use crate::statistics::Statistics;

pub fn read(sources: Vec<Source>, jobs: usize, counters: &Counters) -> Result<Statistics> {
    let chunks = Chunks::new(sources, false, counters);
    let work = |_| work(&chunks, counters);
    let gathered = workers::side_by_side(0..jobs.max(1), &|| chunks.stop(), work)?;
    let mut whole = Statistics::default();
    for one in gathered {
        whole.merge(one);
    }
    Ok(whole)
}

fn work(chunks: &Chunks<'_>, counters: &Counters) -> Result<Statistics> {
    let (mut gather, mut buffer) = (Statistics::default(), Vec::new());
    while let Some(chunk) = chunks.next(buffer)? {
        let before = gather.entries;
        count(&chunk, &mut gather)?;
        counters.add(gather.entries - before, chunk.bytes.len() as u64);
        buffer = chunk.bytes;
    }
    Ok(gather)
}

fn count(chunk: &Chunk, gather: &mut Statistics) -> Result<()> {
    let path = chunk.path.as_deref();
    for record in Records::new(&chunk.block()) {
        let record = record.in_file(path)?;
        gather.record(&record).map_err(|error| locate(error, &record, path))?;
    }
    Ok(())
}
