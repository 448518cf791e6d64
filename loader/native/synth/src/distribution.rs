//! Distributions of whole numbers. A number is drawn from 64 random bits, without a table of the whole range.
//!
//! All operations are those of IEEE 754 or of `libm`, so they give the same result on every machine.

use crate::draw::{again, below, unit};

/// A distribution as in a template. All bounds are inclusive.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    Fixed(u64),
    Between {
        low: u64,
        high: u64,
    },
    /// Rank k, counted from `low`, has the weight 1/k^exponent.
    Zipf {
        low: u64,
        high: u64,
        exponent: f64,
    },
    /// A number beyond a bound becomes that bound.
    Normal {
        low: u64,
        high: u64,
        mean: f64,
        deviation: f64,
    },
    /// Ranges with their weights; all numbers within a range are equally likely.
    Histogram(Vec<Range>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub low: u64,
    pub high: u64,
    pub weight: f64,
}

impl Distribution {
    /// Returns the greatest number that can be drawn.
    pub fn most(&self) -> u64 {
        match self {
            Self::Fixed(number) => *number,
            Self::Between { high, .. } | Self::Zipf { high, .. } | Self::Normal { high, .. } => *high,
            Self::Histogram(ranges) => ranges.iter().map(|range| range.high).max().unwrap_or(0),
        }
    }

    /// Compiles the distribution, or returns an error message for invalid parameters.
    pub fn drawer(&self) -> Result<Sampler, String> {
        Ok(match *self {
            Self::Fixed(number) => Sampler::Even { low: number, count: 1 },
            Self::Between { low, high } => Sampler::Even { low, count: count(low, high)? },
            Self::Zipf { low, high, exponent } => Sampler::Zipf { low, zipf: Zipf::new(count(low, high)?, exponent)? },
            Self::Normal { low, high, mean, deviation } => {
                count(low, high)?;
                if !(mean.is_finite() && deviation.is_finite() && deviation >= 0.0) {
                    return Err("a mean and a deviation from 0 on are needed".to_owned());
                }
                Sampler::Normal { low, high, mean, deviation }
            }
            Self::Histogram(ref ranges) => {
                let weights: Vec<f64> = ranges.iter().map(|range| range.weight).collect();
                let alias = Alias::new(&weights).ok_or("weights must be above 0")?;
                let ranges = ranges.iter().map(|range| Ok((range.low, count(range.low, range.high)?)));
                Sampler::Histogram { alias, ranges: ranges.collect::<Result<_, String>>()? }
            }
        })
    }
}

/// Returns how many numbers there are from `low` to `high`.
fn count(low: u64, high: u64) -> Result<u64, String> {
    let span = high.checked_sub(low).ok_or_else(|| format!("{low} is more than {high}"))?;
    span.checked_add(1).ok_or_else(|| "the range is too large".to_owned())
}

/// A compiled distribution.
#[derive(Debug, Clone)]
pub enum Sampler {
    Even { low: u64, count: u64 },
    Zipf { low: u64, zipf: Zipf },
    Normal { low: u64, high: u64, mean: f64, deviation: f64 },
    Histogram { alias: Alias, ranges: Vec<(u64, u64)> },
}

impl Sampler {
    pub fn draw(&self, bits: u64) -> u64 {
        match self {
            Self::Even { low, count } => low + below(bits, *count),
            Self::Zipf { low, zipf } => low + zipf.rank(bits) - 1,
            Self::Normal { low, high, mean, deviation } => clamped(mean + deviation * normal(bits), *low, *high),
            Self::Histogram { alias, ranges } => {
                let (low, count) = ranges[alias.pick(bits)];
                low + below(again(bits, 1), count)
            }
        }
    }
}

/// Returns a number from the standard normal distribution (Box and Muller 1958).
pub fn normal(bits: u64) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(bits)));
    radius * libm::cos(2.0 * std::f64::consts::PI * unit(again(bits, 1)))
}

#[allow(clippy::cast_precision_loss, reason = "ends are as near as an f64 can say")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn clamped(number: f64, low: u64, high: u64) -> u64 {
    (number.round().max(0.0) as u64).clamp(low, high)
}

/// Draws ranks from 1 to `count`, rank k with weight 1/k^exponent, in constant time by rejection-inversion (Hörmann and
/// Derflinger, ACM TOMACS 6(3), 1996). The functions are named as in the paper.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    first: f64,
    last: f64,
    near: f64,
}

impl Zipf {
    #[allow(clippy::cast_precision_loss, reason = "ranks are as near as an f64 can say")]
    pub fn new(count: u64, exponent: f64) -> Result<Self, String> {
        if count == 0 {
            return Err("there is nothing to pick from".to_owned());
        }
        if !(exponent > 0.0 && exponent <= 20.0) {
            return Err("an exponent above 0 and up to 20 is needed".to_owned());
        }
        let first = integral(1.5, exponent) - 1.0;
        let last = integral(count as f64 + 0.5, exponent);
        let near = 2.0 - inverse(integral(2.5, exponent) - power(2.0, exponent), exponent);
        Ok(Self { count, exponent, first, last, near })
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn rank(&self, bits: u64) -> u64 {
        // At worst one attempt in four fails. If 100 attempts fail, rank 1 is returned.
        for turn in 0..100 {
            let bits = if turn == 0 { bits } else { again(bits, turn) };
            let area = self.last + unit(bits) * (self.first - self.last);
            let at = inverse(area, self.exponent);
            let rank = ((at + 0.5) as u64).clamp(1, self.count);
            let edge = rank as f64;
            if edge - at <= self.near || area >= integral(edge + 0.5, self.exponent) - power(edge, self.exponent) {
                return rank;
            }
        }
        1
    }
}

/// h: the weight of x.
fn power(x: f64, exponent: f64) -> f64 {
    libm::exp(-exponent * libm::log(x))
}

/// H: the integral of the weights up to x.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = libm::log(x);
    growth((1.0 - exponent) * log) * log
}

/// The inverse of H.
fn inverse(area: f64, exponent: f64) -> f64 {
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    libm::exp(logarithm(scaled) * area)
}

/// log(1+x)/x, which is 1 at 0.
fn logarithm(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

/// (exp(x)-1)/x, which is 1 at 0.
fn growth(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

/// A weighted choice in constant time (Walker's alias method, built as in Vose 1991).
#[derive(Debug, Clone)]
pub struct Alias {
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// A draw below this number selects the cell itself. Any other draw selects `other`.
    stay: u32,
    other: u32,
}

impl Alias {
    /// Returns None if there are no weights, if a weight is not finite or not above 0, or if their sum is not finite.
    pub fn new(weights: &[f64]) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        let sound = weights.iter().all(|weight| weight.is_finite() && *weight > 0.0);
        if weights.is_empty() || !sound || !sum.is_finite() || u32::try_from(weights.len()).is_err() {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "fewer than 2^32")]
        let shares = weights.iter().map(|weight| weight / sum * weights.len() as f64).collect();
        Some(Self { cells: cells(shares) })
    }

    #[allow(clippy::cast_possible_truncation, reason = "both halves of the bits")]
    pub fn pick(&self, bits: u64) -> usize {
        // The upper 64 bits of the product select the cell. The lower bits are the position within the cell.
        let wide = u128::from(bits) * self.cells.len() as u128;
        let at = (wide >> 64) as usize;
        let within = (wide as u64 >> 32) as u32;
        let cell = self.cells[at];
        if within < cell.stay { at } else { cell.other as usize }
    }
}

/// Fills cells below the average share with shares of cells above it.
#[allow(clippy::cast_possible_truncation, reason = "Alias::new lets fewer than 2^32 in")]
fn cells(mut shares: Vec<f64>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = (0..shares.len()).map(|at| Cell { stay: u32::MAX, other: at as u32 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..shares.len()).partition(|&at| shares[at] < 1.0);
    while let (Some(little), Some(&much)) = (small.pop(), large.last()) {
        cells[little] = Cell { stay: part_of_range(shares[little]), other: much as u32 };
        shares[much] -= 1.0 - shares[little];
        if shares[much] < 1.0 {
            large.pop();
            small.push(much);
        }
    }
    cells
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1")]
fn part_of_range(share: f64) -> u32 {
    (share * f64::from(u32::MAX)) as u32
}

/// Returns an index below `count`, or 0 if `count` is 0. All indexes are equally likely.
pub fn even(bits: u64, count: usize) -> usize {
    usize::try_from(below(bits, count as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;

    const DRAWS: u32 = 200_000;

    fn drawn(distribution: &Distribution) -> impl Iterator<Item = u64> {
        let drawer = distribution.drawer().unwrap();
        let stream = Stream::new(1, &["distribution"]);
        (0..u64::from(DRAWS)).map(move |number| drawer.draw(stream.at(number)))
    }

    fn share(distribution: &Distribution, number: u64) -> f64 {
        let found = drawn(distribution).filter(|&one| one == number).count();
        f64::from(u32::try_from(found).unwrap()) / f64::from(DRAWS)
    }

    #[test]
    fn zipf_draws_each_rank_by_its_weight() {
        for exponent in [0.5, 1.0, 1.1, 2.0] {
            let sum: f64 = (1..=1000).map(|rank| power(f64::from(rank), exponent)).sum();
            let zipf = Distribution::Zipf { low: 1, high: 1000, exponent };
            for rank in [1_u32, 2, 3, 10] {
                let expected = power(f64::from(rank), exponent) / sum;
                let found = share(&zipf, u64::from(rank));
                assert!((found - expected).abs() < 0.005, "{exponent} {rank}: {found} {expected}");
            }
        }
    }

    #[test]
    fn zipf_stays_within_its_bounds() {
        for (low, high) in [(1, 1), (0, 2), (5, 1 << 60)] {
            let zipf = Distribution::Zipf { low, high, exponent: 1.2 };
            assert!(drawn(&zipf).all(|number| (low..=high).contains(&number)));
        }
    }

    #[test]
    fn normal_has_the_given_mean_and_deviation() {
        let normal = Distribution::Normal { low: 0, high: 1000, mean: 500.0, deviation: 50.0 };
        #[allow(clippy::cast_precision_loss)]
        let numbers: Vec<f64> = drawn(&normal).map(|number| number as f64).collect();
        let mean = numbers.iter().sum::<f64>() / f64::from(DRAWS);
        let squares = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
        assert!((mean - 500.0).abs() < 0.5, "{mean}");
        assert!(((squares / f64::from(DRAWS)).sqrt() - 50.0).abs() < 0.5);
    }

    #[test]
    fn a_histogram_keeps_its_weights() {
        let ranges = vec![Range { low: 0, high: 0, weight: 3.0 }, Range { low: 10, high: 19, weight: 1.0 }];
        let histogram = Distribution::Histogram(ranges);
        assert!((share(&histogram, 0) - 0.75).abs() < 0.01);
        assert!((share(&histogram, 15) - 0.025).abs() < 0.005);
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for wrong in [
            Distribution::Between { low: 2, high: 1 },
            Distribution::Between { low: 0, high: u64::MAX },
            Distribution::Zipf { low: 1, high: 9, exponent: 0.0 },
            Distribution::Zipf { low: 1, high: 9, exponent: f64::NAN },
            Distribution::Normal { low: 1, high: 9, mean: f64::INFINITY, deviation: 1.0 },
            Distribution::Histogram(Vec::new()),
        ] {
            assert!(wrong.drawer().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn weights_are_kept() {
        let weights = [1.0, 7.0, 0.5, 1.5];
        let alias = Alias::new(&weights).unwrap();
        let stream = Stream::new(1, &["alias"]);
        let mut counts = [0_u32; 4];
        (0..100_000).for_each(|number| counts[alias.pick(stream.at(number))] += 1);
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) / 10_000.0 - weight).abs() < 0.15, "{counts:?}");
        }
    }

    #[test]
    fn an_invalid_weight_is_refused() {
        for wrong in [&[][..], &[0.0], &[-1.0], &[f64::NAN], &[f64::MAX, f64::MAX]] {
            assert!(Alias::new(wrong).is_none(), "{wrong:?}");
        }
    }
}
