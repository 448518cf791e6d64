//! Writing TOML: texts with their escapes, and distributions as the template syntax spells them.

use std::fmt::Write as _;

use crate::histogram::{Bucket, Histogram};

/// A basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            one if one.is_control() => {
                let _ = write!(out, "\\u{:04X}", one as u32);
            }
            one => out.push(one),
        }
    }
    out.push('"');
    out
}

/// A mark as it stands in the text of a template.
pub fn literal(mark: char) -> String {
    match mark {
        '{' => "{{".to_owned(),
        '}' => "}}".to_owned(),
        mark => mark.to_string(),
    }
}

/// So many buckets of a histogram are told, and each was seen so often at least.
const MOST_BUCKETS: usize = 40;
const LEAST_SEEN: u64 = 5;
/// Weights are parts of this.
const WHOLE: u64 = 10_000;

/// As in `1=7000,2=2000,3-4=1000`: ranges with both ends, and their weights.
pub fn histogram(histogram: &Histogram) -> String {
    let all = histogram.total().max(1);
    let mut buckets = histogram.buckets();
    let least = |buckets: &[Bucket]| (0..buckets.len()).min_by_key(|&at| buckets[at].count);
    while let Some(at) = least(&buckets) {
        let enough = buckets.len() <= MOST_BUCKETS && buckets[at].count >= LEAST_SEEN;
        if enough || buckets.len() == 1 {
            break;
        }
        join(&mut buckets, at);
    }
    let one = |bucket: &Bucket| {
        let weight = (bucket.count * WHOLE).div_ceil(all);
        let (low, high) = range(bucket);
        if low == high { format!("{low}={weight}") } else { format!("{low}-{high}={weight}") }
    };
    buckets.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Even between both ends, numbers have the mean that they had.
fn range(bucket: &Bucket) -> (u64, u64) {
    let twice = (2 * bucket.sum + bucket.count / 2) / bucket.count.max(1);
    (bucket.low, twice.saturating_sub(bucket.low).max(bucket.low))
}

/// One bucket and the smaller one of its neighbours become one.
fn join(buckets: &mut Vec<Bucket>, at: usize) {
    let count = |at: usize| buckets.get(at).map_or(u64::MAX, |bucket| bucket.count);
    let before = at > 0 && count(at - 1) <= count(at + 1);
    let first = if before { at - 1 } else { at };
    let second = buckets.remove(first + 1);
    buckets[first].high = second.high;
    buckets[first].count += second.count;
    buckets[first].sum = buckets[first].sum.saturating_add(second.sum);
}

/// A number with so many digits behind the point, without zeros at its end.
pub fn decimal(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_numbers() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(
            (decimal(0.5, 3), decimal(10.0, 1), decimal(100.0, 0)),
            ("0.5".into(), "10".into(), "100".into())
        );
    }

    #[test]
    fn histograms() {
        let mut some = Histogram::default();
        some.add_many(1, 700);
        some.add_many(2, 300);
        some.add_many(64, 500);
        some.add_many(67, 500);
        assert_eq!(histogram(&some), "1=3500,2=1500,64-67=5000");
    }
}
