//! How many distinct values would come if every place of a shape were drawn by itself.

use fastrand::Rng;
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_64;

use crate::curve::Curve;
use crate::shapes::{Place, Shapes};
use crate::token::TokenKind;
use crate::vocabulary::Words;

/// Same source, same template.
const SEED: u64 = 0x6C65_6172_6E00;

/// Cumulated shares with the ranks they lead to.
struct Ranks {
    steps: Vec<(f64, u64, u64)>,
}

impl Ranks {
    fn new(curve: &Curve) -> Self {
        let (mut cumulated, mut from) = (0.0, 0);
        let step = |step: &crate::curve::Step| {
            cumulated += step.share;
            let first = std::mem::replace(&mut from, step.to);
            (cumulated, first, step.to)
        };
        Self { steps: curve.steps.iter().map(step).collect() }
    }

    fn draw(&self, random: &mut Rng) -> u64 {
        let at = random.f64();
        let place = self.steps.partition_point(|(cumulated, ..)| *cumulated < at);
        let (_, from, to) = self.steps[place.min(self.steps.len() - 1)];
        random.u64(from..to.max(from + 1))
    }
}

/// Of as many draws as values were looked at.
pub fn distinct(shapes: &Shapes) -> u64 {
    let mut random = Rng::with_seed(SEED);
    let mut found: FxHashSet<u64> = FxHashSet::default();
    let mut made: Vec<u8> = Vec::new();
    let draws = |place: &Place| Draw::new(place);
    let variants: Vec<(u64, Vec<Draw>)> = shapes
        .variants
        .iter()
        .map(|variant| (variant.values, variant.places.iter().map(draws).collect()))
        .collect();
    for (number, (values, places)) in variants.iter().enumerate() {
        for _ in 0..*values {
            made.clear();
            made.push(u8::try_from(number).unwrap_or(u8::MAX));
            for place in places {
                made.extend_from_slice(&place.draw(&mut random).to_le_bytes());
            }
            found.insert(xxh3_64(&made));
        }
    }
    found.len() as u64 + text(shapes, &mut random)
}

/// The same of texts of words.
fn text(shapes: &Shapes, random: &mut Rng) -> u64 {
    if shapes.text.draws == 0 {
        return shapes.text_counts.total().min(1);
    }
    let ranks = Ranks::new(&shapes.text.vocabulary(false, None).curve);
    let mut found: FxHashSet<u64> = FxHashSet::default();
    let mut made: Vec<u8> = Vec::new();
    for bucket in shapes.text_counts.buckets() {
        for _ in 0..bucket.count {
            made.clear();
            for _ in 0..bucket.low {
                made.extend_from_slice(&ranks.draw(random).to_le_bytes());
            }
            found.insert(xxh3_64(&made));
        }
    }
    found.len() as u64
}

/// How a place is drawn.
enum Draw {
    Ranks(Ranks),
    /// Hardly ever the same.
    Fresh,
}

impl Draw {
    fn new(place: &Place) -> Self {
        match place.sort {
            TokenKind::Letters => {
                Self::Ranks(Ranks::new(&place.words.vocabulary(false, None).curve))
            }
            TokenKind::Digits if is_listed(&place.words) => {
                Self::Ranks(Ranks::new(&place.words.vocabulary(true, None).curve))
            }
            TokenKind::Digits | TokenKind::Hex | TokenKind::Mixed => {
                let width = u32::try_from(place.words.lengths.least()).unwrap_or(18).min(18);
                Self::Ranks(Ranks {
                    steps: vec![(1.0, 0, 10_u64.pow(width).max(place.words.distinct()))],
                })
            }
            TokenKind::Uuid => Self::Fresh,
        }
    }

    fn draw(&self, random: &mut Rng) -> u64 {
        match self {
            Self::Ranks(ranks) => ranks.draw(random),
            Self::Fresh => random.u64(..),
        }
    }
}

/// Numbers of which there are few are a vocabulary.
pub fn is_listed(numbers: &Words) -> bool {
    numbers.distinct() <= 4096 && numbers.distinct() * 4 <= numbers.draws && numbers.is_saturated()
}
