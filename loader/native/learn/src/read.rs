//! Reading the source: workers take blocks in turn, each counts for itself, and what they counted is added up.

use std::thread;

use backmdb::Source;
use backmdb::chunks::{Chunk, Chunks};
use ldif::records::Records;
use ldif::walk::locate;
use ldif::{Code, Counters, Error, Result};

use crate::gather::Gather;

pub fn read(sources: Vec<Source>, jobs: usize, counters: &Counters) -> Result<Gather> {
    let chunks = Chunks::new(sources, false, counters);
    let results: Vec<Result<Gather>> = thread::scope(|scope| {
        let work = || {
            let done = work(&chunks, counters);
            if done.is_err() {
                chunks.stop();
            }
            done
        };
        let running: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let panicked = || Err(Error::new(Code::Damaged, "a worker ended unexpectedly"));
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| panicked())).collect()
    });
    let mut whole = Gather::default();
    for gathered in results {
        whole.merge(gathered?);
    }
    Ok(whole)
}

fn work(chunks: &Chunks<'_>, counters: &Counters) -> Result<Gather> {
    let (mut gather, mut buffer) = (Gather::default(), Vec::new());
    while let Some(chunk) = chunks.next(buffer)? {
        let before = gather.entries;
        count(&chunk, &mut gather)?;
        counters.add(gather.entries - before, chunk.bytes.len() as u64);
        buffer = chunk.bytes;
    }
    Ok(gather)
}

fn count(chunk: &Chunk, gather: &mut Gather) -> Result<()> {
    let path = chunk.path.as_deref();
    for record in Records::new(&chunk.block()) {
        let record = record.map_err(|error| error.in_file(path))?;
        gather.record(&record).map_err(|error| locate(error, &record, path))?;
    }
    Ok(())
}
