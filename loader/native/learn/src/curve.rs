//! How skewed a vocabulary is: how many distinct words there are, and which part of all draws goes to which ranks.

/// So many of what was drawn came once, or a hundredth: below it a sample has seen the whole vocabulary.
const SATURATED: f64 = 0.005;

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Distinct words.
    pub words: u64,
    pub steps: Vec<Step>,
}

/// The ranks after those of the step before, up to this one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub to: u64,
    /// Of all draws, 0 to 1.
    pub share: f64,
    /// Letters of a word on average, weighed by draws.
    pub letters: f64,
}

/// A word of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word {
    pub count: u64,
    pub letters: u64,
}

/// `known`: how many distinct words there are, where that is known.
#[allow(clippy::cast_precision_loss, reason = "shares")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
pub fn curve(mut words: Vec<Word>, known: Option<u64>) -> Curve {
    words.sort_unstable_by_key(|word| (std::cmp::Reverse(word.count), word.letters));
    let seen = words.len() as u64;
    let draws: u64 = words.iter().map(|word| word.count).sum();
    let once = words.iter().filter(|word| word.count == 1).count() as f64;
    let twice = words.iter().filter(|word| word.count == 2).count() as f64;
    let unseen_share = once / (draws.max(1) as f64);
    let saturated = unseen_share < SATURATED;
    // Chao 1984: what came once and twice tells how many did not come at all.
    let unseen = if saturated { 0.0 } else { once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0)) };
    let all = known.unwrap_or(seen + unseen as u64).max(seen);
    let kept = if all > seen { 1.0 - unseen_share } else { 1.0 };
    let mut steps = Vec::new();
    let (mut from, mut cumulated) = (0, 0.0);
    while from < seen {
        let to = next(from).min(seen);
        let inside = &words[from as usize..to as usize];
        let count: u64 = inside.iter().map(|word| word.count).sum();
        let letters: u64 = inside.iter().map(|word| word.count * word.letters).sum();
        let share = count as f64 / draws.max(1) as f64 * kept;
        cumulated += share;
        steps.push(Step { to, share, letters: letters as f64 / count.max(1) as f64 });
        from = to;
    }
    if all > seen {
        let letters = steps.last().map_or(1.0, |step| step.letters);
        steps.push(Step { to: all, share: (1.0 - cumulated).max(0.0), letters });
    }
    Curve { words: all, steps }
}

/// Two steps a doubling: 1 2 3 4 6 8 12 16 24 ...
pub fn next(rank: u64) -> u64 {
    if rank < 4 {
        return rank + 1;
    }
    let power = 1 << rank.ilog2();
    if rank < power + power / 2 { power + power / 2 } else { power * 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(counts: impl IntoIterator<Item = u64>) -> Vec<Word> {
        counts.into_iter().map(|count| Word { count, letters: 5 }).collect()
    }

    #[test]
    fn a_vocabulary_that_was_seen_whole() {
        let found = curve(words((1..=100).map(|rank| 100_000 / rank)), None);
        assert_eq!(found.words, 100);
        let first = found.steps[0];
        assert!(first.to == 1 && (first.share - 0.193).abs() < 0.01, "{first:?}");
        let sum: f64 = found.steps.iter().map(|step| step.share).sum();
        assert!((sum - 1.0).abs() < 1e-9 && found.steps.last().unwrap().to == 100);
    }

    #[test]
    fn a_sample_of_a_larger_one() {
        // 10,000 draws of 20,000 equally likely words: 6,065 once, 1,516 twice, 252 three times.
        let counts = [vec![1; 6065], vec![2; 1516], vec![3; 252]].concat();
        let found = curve(words(counts), None);
        assert!((17_000..23_000).contains(&found.words), "{}", found.words);
    }

    #[test]
    fn steps() {
        let mut rank = 0;
        let found = std::iter::from_fn(|| {
            rank = next(rank);
            Some(rank)
        })
        .take(10);
        assert_eq!(found.collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
    }
}
