//! One of many by weight, in one step however many there are (Walker's alias method, as Vose 1991 builds it).

use crate::draw::below;

#[derive(Debug, Clone)]
pub struct Alias {
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// Draws below it stay in this cell.
    stay: u32,
    other: u32,
}

impl Alias {
    /// None unless there is a weight, all are finite and above 0, and they can be added up.
    pub fn new(weights: &[f64]) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        let sound = weights.iter().all(|weight| weight.is_finite() && *weight > 0.0);
        if weights.is_empty() || !sound || !sum.is_finite() || u32::try_from(weights.len()).is_err()
        {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "fewer than 2^32")]
        let shares = weights.iter().map(|weight| weight / sum * weights.len() as f64).collect();
        Some(Self { cells: cells(shares) })
    }

    #[allow(clippy::cast_possible_truncation, reason = "both halves of the bits")]
    pub fn pick(&self, bits: u64) -> usize {
        // The cell by the upper bits; what is left of the product says how far into it.
        let wide = u128::from(bits) * self.cells.len() as u128;
        let at = (wide >> 64) as usize;
        let within = (wide as u64 >> 32) as u32;
        let cell = self.cells[at];
        if within < cell.stay { at } else { cell.other as usize }
    }
}

/// Cells of less than their share are filled up from those of more.
#[allow(clippy::cast_possible_truncation, reason = "Alias::new lets fewer than 2^32 in")]
fn cells(mut shares: Vec<f64>) -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        (0..shares.len()).map(|at| Cell { stay: u32::MAX, other: at as u32 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|&at| shares[at] < 1.0);
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

/// Which of `count`, all alike.
pub fn even(bits: u64, count: usize) -> usize {
    usize::try_from(below(bits, count as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;

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
    fn what_is_no_weight_is_refused() {
        for wrong in [&[][..], &[0.0], &[-1.0], &[f64::NAN], &[f64::MAX, f64::MAX]] {
            assert!(Alias::new(wrong).is_none(), "{wrong:?}");
        }
    }
}
