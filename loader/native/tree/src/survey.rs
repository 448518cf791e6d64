//! Where to cut a directory into parts of equal size: a sample of one attribute's values.

use fastrand::Rng;

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

/// Takes the sample, entry by entry; all values while they fit its size.
#[derive(Debug)]
pub struct Sampler {
    entries: u64,
    without: u64,
    reservoir: Reservoir,
}

impl Sampler {
    pub fn new(sample_size: usize) -> Self {
        Self { entries: 0, without: 0, reservoir: Reservoir::new(sample_size) }
    }

    /// The value that an entry has, if it has one.
    pub fn see(&mut self, value: Option<&[u8]>) {
        self.entries += 1;
        match value {
            Some(value) => self.reservoir.offer(value),
            None => self.without += 1,
        }
    }

    pub fn finish(self) -> Survey {
        let mut sample = self.reservoir.kept;
        sample.sort_unstable();
        Survey { entries: self.entries, without: self.without, sample }
    }
}

/// Vitter's algorithm R: each value seen so far is kept with the same chance.
#[derive(Debug)]
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

    fn offer(&mut self, value: &[u8]) {
        self.seen += 1;
        let text = || String::from_utf8_lossy(value).into_owned();
        if self.kept.len() < self.size {
            self.kept.push(text());
            return;
        }
        let place = self.random.usize(..self.seen);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = text();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey<T: AsRef<str>>(size: usize, values: impl IntoIterator<Item = T>) -> Survey {
        let mut sampler = Sampler::new(size);
        values.into_iter().for_each(|value| sampler.see(Some(value.as_ref().as_bytes())));
        sampler.see(None);
        sampler.finish()
    }

    #[test]
    fn cuts_part_the_values_evenly() {
        let found = survey(10_000, (0..1000).rev().map(|number| format!("{number:04}")));
        assert_eq!((found.entries, found.without), (1001, 1));
        assert_eq!(found.cuts(4), ["0250", "0500", "0750"]);
        assert!(found.cuts(1).is_empty() && found.cuts(0).is_empty());
        assert_eq!(found.cuts(5000).len(), 999);
    }

    #[test]
    fn a_sample_smaller_than_the_whole_still_finds_the_middle() {
        let sampled = || survey(2000, (0..20_000).map(|number| format!("{number:05}")));
        let middle: i32 = sampled().cuts(2)[0].parse().unwrap();
        assert!((middle - 10_000).abs() < 1000, "{middle}");
        assert_eq!(sampled().cuts(7), sampled().cuts(7));
    }

    #[test]
    fn repeated_values_make_fewer_cuts() {
        assert!(survey(100, vec!["same"; 50]).cuts(8).is_empty());
        assert!(survey(100, [vec!["same"; 50], vec!["zzz"]].concat()).cuts(2).is_empty());
        assert!(survey::<&str>(100, []).cuts(8).is_empty());
    }
}
