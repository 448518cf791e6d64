//! Where to cut a directory into parts of equal size: a sample of one attribute's values.

use fastrand::Rng;
use ldif::walk::each_record;
use ldif::{Counters, Input, Record, Result};

/// Same input, same sample.
const SEED: u64 = 0x6469_7473_6565_6400;

#[derive(Debug, PartialEq, Eq)]
pub struct Survey {
    pub entries: u64,
    /// Entries that lack the attribute.
    pub without: u64,
    /// Ascending.
    sample: Vec<String>,
}

impl Survey {
    /// Ascending values that part the sample into at most `parts` about equal pieces: piece i holds
    /// the values from cut i-1 (included) up to cut i (excluded). Fewer where values repeat much.
    pub fn cuts(&self, parts: usize) -> Vec<String> {
        let size = self.sample.len();
        let quantile = |part: usize| &self.sample[part * size / parts];
        let mut cuts: Vec<&String> = (1..parts).filter(|_| size > 0).map(quantile).collect();
        cuts.dedup();
        // Below the least value there is nothing to hold.
        cuts.retain(|cut| *cut > &self.sample[0]);
        cuts.into_iter().cloned().collect()
    }
}

/// Samples the first value of `attribute` in each entry; all values while they fit `sample_size`.
pub fn survey(
    input: Input<'_>,
    attribute: &str,
    sample_size: usize,
    counters: &Counters,
) -> Result<Survey> {
    let mut reservoir = Reservoir::new(sample_size);
    let (mut entries, mut without) = (0, 0);
    each_record(input, counters, |record| {
        entries += 1;
        match first_value(record, attribute)? {
            Some(value) => reservoir.offer(value),
            None => without += 1,
        }
        Ok(())
    })?;
    reservoir.kept.sort_unstable();
    Ok(Survey { entries, without, sample: reservoir.kept })
}

fn first_value(record: &Record<'_>, attribute: &str) -> Result<Option<String>> {
    for field in record.entry()?.fields {
        let field = field?;
        if field.is(attribute) {
            return Ok(Some(String::from_utf8_lossy(&field.value()?).into_owned()));
        }
    }
    Ok(None)
}

/// Vitter's algorithm R: each value seen so far is kept with the same chance.
struct Reservoir {
    kept: Vec<String>,
    size: usize,
    seen: usize,
    random: Rng,
}

impl Reservoir {
    fn new(size: usize) -> Self {
        Self { kept: Vec::new(), size, seen: 0, random: Rng::with_seed(SEED) }
    }

    fn offer(&mut self, value: String) {
        self.seen += 1;
        if self.kept.len() < self.size {
            self.kept.push(value);
            return;
        }
        let place = self.random.usize(..self.seen);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = value;
        }
    }
}
