//! How unevenly children are shared out among parents.

use crate::kind::Kind;

/// How children are shared out among so many parents, those without any included.
#[allow(clippy::cast_precision_loss, reason = "moments")]
pub fn pick(kind: &Kind, parents: u64) -> String {
    let counts = kind.parents.sorted();
    let scale = kind.parents.scale();
    let all = parents.max(1) as f64;
    let mean = kind.entries as f64 / all;
    let squares: f64 =
        counts.iter().map(|(_, count)| (**count as f64).powi(2)).sum::<f64>() * scale;
    // The variance over the square of the mean; of even chances it is 1/mean.
    let spread = (squares / all / (mean * mean) - 1.0).max(0.0);
    if spread < 0.5 / mean {
        return "each".to_owned();
    }
    if spread < 1.5 / mean + 0.02 {
        return "uniform".to_owned();
    }
    let excess = spread - 1.0 / mean;
    let exponents = (1..=30).map(|tenths| f64::from(tenths) / 10.0);
    let off = |exponent: f64| (zipf_spread(parents, exponent).ln() - excess.ln()).abs();
    let best = exponents.min_by(|one, other| off(*one).total_cmp(&off(*other)));
    format!("zipf:{:.1}", best.unwrap_or(1.0))
}

/// The same of weights 1/k^exponent.
#[allow(clippy::cast_precision_loss, reason = "moments")]
fn zipf_spread(count: u64, exponent: f64) -> f64 {
    const EXACT: u64 = 10_000;
    let sum = |exponent: f64| {
        let exact: f64 = (1..=count.min(EXACT)).map(|rank| (rank as f64).powf(-exponent)).sum();
        let (from, to) = (EXACT as f64 + 0.5, count as f64 + 0.5);
        if count <= EXACT {
            exact
        } else if (exponent - 1.0).abs() < 1e-6 {
            exact + (to / from).ln()
        } else {
            exact + (to.powf(1.0 - exponent) - from.powf(1.0 - exponent)) / (1.0 - exponent)
        }
    };
    (count as f64 * sum(2.0 * exponent) / sum(exponent).powi(2) - 1.0).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert!(zipf_spread(1000, 0.1) < zipf_spread(1000, 1.0));
        let (near, far) = (zipf_spread(9_999, 1.2), zipf_spread(10_001, 1.2));
        assert!((near / far - 1.0).abs() < 0.01);
    }

    #[test]
    fn children_are_shared_out_as_they_were() {
        let kind_of = |counts: &[u64]| {
            let mut kind = Kind { entries: counts.iter().sum(), ..Kind::default() };
            for (parent, &count) in counts.iter().enumerate() {
                let hash = xxhash_rust::xxh3::xxh3_64(&parent.to_le_bytes());
                (0..count).for_each(|_| kind.parents.count(hash));
            }
            kind
        };
        assert_eq!(pick(&kind_of(&[10; 100]), 100), "each");
        let skewed: Vec<u64> = (1..=100).map(|rank| 1000 / rank).collect();
        assert_eq!(pick(&kind_of(&skewed), 100), "zipf:1.0");
    }
}
