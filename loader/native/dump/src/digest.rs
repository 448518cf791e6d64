//! Computes the fingerprints of all entries in a database.

use std::sync::Mutex;

use common::{Counters, lock};
use tree::Digest;
use tree::fingerprint::{Fingerprint, Fingerprinter};

use crate::entry::Entry;
use crate::tables::{Tables, open};
use crate::walk::{Plan, Worker};
use crate::{Result, Source};

/// Size of a range of pages, in bytes.
const PIECE: u64 = 16 << 20;
const MOST: usize = 10_000;
/// Number of fingerprints that a worker adds to the shared digest at a time, so that it rarely waits for the lock.
const BATCH: usize = 1024;

/// Adds every entry of `source` to `digest`.
pub fn digest(source: &Source, digest: &mut Digest, counters: &Counters) -> Result<()> {
    let snapshot = open(&source.path, source.txn)?;
    let base = source.base_id(&Tables::of(&snapshot)?)?;
    let (ignore, jobs) = (&digest.ignored().clone(), source.jobs);
    let (after, piece, most) = (source.after, PIECE, MOST);
    let plan = Plan { jobs, base, after, ignore, piece, most, counters };
    let all = Mutex::new(digest);
    let taker = || DigestWorker { all: &all, printer: Fingerprinter::default(), batch: Vec::new(), names: Vec::new() };
    plan.run(&snapshot, taker, || ()).map(drop)
}

/// State of a worker.
struct DigestWorker<'a, 'd> {
    all: &'a Mutex<&'d mut Digest>,
    printer: Fingerprinter,
    /// Each fingerprint, with the offset in `names` at which its DN ends.
    batch: Vec<(Fingerprint, usize)>,
    names: Vec<u8>,
}

impl DigestWorker<'_, '_> {
    fn hand_over(&mut self) -> Result<()> {
        let mut digest = lock(self.all);
        let mut start = 0;
        for (print, end) in self.batch.drain(..) {
            digest.add_entry(&print, &self.names[start..end])?;
            start = end;
        }
        self.names.clear();
        Ok(())
    }
}

impl Worker for DigestWorker<'_, '_> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64> {
        let (printer, mut bytes) = (&mut self.printer, 0);
        entry.each(|value| {
            let Some(value) = value else {
                bytes = 0;
                return printer.begin();
            };
            bytes += value.bytes.len() as u64;
            if !value.description.ignored {
                value.print(printer);
            }
        })?;
        let print = printer.end(&entry.place.dn);
        self.names.extend_from_slice(&entry.place.dn);
        self.batch.push((print, self.names.len()));
        if self.batch.len() == BATCH {
            self.hand_over()?;
        }
        Ok(bytes)
    }

    fn end(&mut self) -> Result<()> {
        self.hand_over()
    }
}
