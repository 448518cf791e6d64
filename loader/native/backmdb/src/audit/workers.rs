//! Workers side by side, each with a reader of its own, who take the parts of a work in turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lmdbfile::Reader;

use crate::{Result, verify};

/// The numbers of parts that nobody has taken yet.
#[derive(Debug)]
pub struct Turns<'a> {
    next: &'a AtomicUsize,
    parts: usize,
}

impl Iterator for Turns<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        (at < self.parts).then_some(at)
    }
}

/// Calls `work` in each of `jobs` threads, or in fewer where there are fewer parts. The first error of a worker is told
/// when all have ended.
pub fn side_by_side(
    reader: &Reader,
    jobs: usize,
    parts: usize,
    work: impl Fn(&Reader, Turns<'_>) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let readers = (0..jobs.clamp(1, parts.max(1))).map(|_| reader.fork());
    let readers: lmdbfile::Result<Vec<_>> = readers.collect();
    let readers = readers.map_err(|error| verify::damaged(&error))?;
    let run = |reader: Reader| work(&reader, Turns { next: &next, parts });
    thread::scope(|scope| {
        let workers: Vec<_> =
            readers.into_iter().map(|reader| scope.spawn(|| run(reader))).collect();
        let ended = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        });
        ended.collect()
    })
}
