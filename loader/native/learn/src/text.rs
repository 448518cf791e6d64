//! Converts the statistics of an attribute into the text that generates its values.

use fastrand::Rng;
use rustc_hash::FxHashSet;
use synth::vocabulary::Step;
use xxhash_rust::xxh3::xxh3_64;

use crate::LEAST_SEEN;
use crate::histogram::Bucket;
use crate::shapes::{ShapeToken, Shapes, Variant};
use crate::template::{Choice, Registry};
use crate::token::TokenKind;
use crate::vocabulary::{Curve, Words};

/// The attribute for which a text is written.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The name of the attribute's shape, and the prefix of the names of its vocabularies.
    pub stem: &'a str,
    /// The name of each attribute by number, as spelled in texts.
    pub names: &'a [String],
    /// Whether no entry has more than one value. If so, the value may contain the entry's number.
    pub single: bool,
    /// Number of distinct values.
    pub distinct: u64,
    /// Number of entries of the kind.
    pub entries: u64,
}

/// Returns a text for values that need not be unique.
pub fn text(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    let phrases = phrases(shapes, subject);
    // If a value is a single token, the token has as many distinct words as the attribute has distinct values.
    let whole = shapes.variants.first().is_some_and(|variant| variant.places.len() == 1);
    let mut texts = Vec::new();
    for variant in &shapes.variants {
        let distinct = (whole && shapes.is_plain()).then_some(subject.distinct);
        let text = pieces(variant, |_, place| place_text(place, distinct, subject, registry));
        texts.push((text, variant.values));
    }
    if shapes.is_plain() && (phrases.is_none() || whole) {
        return texts.swap_remove(0).0;
    }
    if shapes.text_counts.total() >= LEAST_SEEN || texts.is_empty() {
        texts.push((words_text(shapes, subject, registry), shapes.text_counts.total().max(1)));
    }
    if texts.len() == 1 && phrases.is_none() {
        return texts.swap_remove(0).0;
    }
    let name = registry.add_shapes(subject.stem, Choice { texts, phrases });
    format!("{{shape:{name}}}")
}

/// Returns a text that generates a different value in every entry.
pub fn unique(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    let Some(variant) = shapes.variants.first() else {
        let words = if shapes.text.draws > 0 { words_text(shapes, subject, registry) } else { String::new() };
        return format!("{words} {{number}}").trim_start().to_owned();
    };
    let Some(bearer) = bearer(variant) else { return "{number}".to_owned() };
    pieces(variant, |token, place| {
        if token == bearer {
            unique_place(place, subject, registry)
        } else {
            place_text(place, None, &Subject { single: false, ..*subject }, registry)
        }
    })
}

/// Returns the index of the token that makes values unique: a UUID, a number that never repeats, or the token with the
/// most distinct words.
fn bearer(variant: &Variant) -> Option<usize> {
    let places = || variant.places.iter().enumerate();
    let is_number = |place: &ShapeToken| place.kind == TokenKind::Digits && place.words.is_unique();
    let number = places().find(|(_, place)| place.kind == TokenKind::Uuid || is_number(place));
    let most = || places().max_by_key(|(_, place)| place.words.distinct());
    number.or_else(most).map(|(index, _)| index)
}

/// Returns a tag that generates a different word in every entry.
fn unique_place(place: &ShapeToken, subject: &Subject<'_>, registry: &mut Registry) -> String {
    match place.kind {
        TokenKind::Digits => number(&place.words),
        TokenKind::Uuid => "{uuid}".to_owned(),
        _ => {
            let vocabulary = place.words.vocabulary(false, Some(subject.entries));
            format!("{{newword:{}}}", registry.add_words(subject.stem, vocabulary))
        }
    }
}

/// Returns the frequencies of the distinct values if the values repeat too often for independent draws of every token,
/// which would give more than 9/8 as many distinct values.
fn phrases(shapes: &Shapes, subject: &Subject<'_>) -> Option<Curve> {
    if shapes.repeats_any() || shapes.whole.is_unique() || shapes.values < LEAST_SEEN {
        return None;
    }
    let (independent, distinct) = (independent_draws(shapes), shapes.whole.distinct());
    (independent * 8 > distinct * 9).then(|| shapes.whole.vocabulary(false, Some(subject.distinct)).curve)
}

/// Copies the marks of a shape, and replaces each token by the text that `piece` returns for its index.
fn pieces(variant: &Variant, mut piece: impl FnMut(usize, &ShapeToken) -> String) -> String {
    let (mut out, mut places) = (String::new(), variant.places.iter().enumerate());
    for mark in variant.shape.chars() {
        if mark.is_ascii_alphabetic() {
            out.extend(places.next().map(|(index, place)| piece(index, place)));
        } else {
            // Braces are doubled, because a single brace begins a tag.
            out.extend(std::iter::repeat_n(mark, if matches!(mark, '{' | '}') { 2 } else { 1 }));
        }
    }
    out
}

/// Returns the tag for a token. `distinct` is the number of the token's distinct words, if that is known.
fn place_text(place: &ShapeToken, distinct: Option<u64>, subject: &Subject<'_>, registry: &mut Registry) -> String {
    if let Some(repeat) = place.repeats {
        let name = &subject.names[repeat.attribute];
        return if repeat.ascii { format!("{{ascii:{name}}}") } else { format!("{{{name}}}") };
    }
    let words = &place.words;
    let mut listed = |digits| {
        let name = registry.add_words(subject.stem, words.vocabulary(digits, distinct));
        format!("{{word:{name}}}")
    };
    match place.kind {
        TokenKind::Letters => listed(false),
        TokenKind::Digits if subject.single && words.is_unique() => number(words),
        TokenKind::Digits if is_listed(words) => listed(true),
        TokenKind::Digits => digits(words),
        TokenKind::Hex => format!("{{chars:hex:histogram:{}}}", words.lengths.to_text()),
        TokenKind::Mixed => format!("{{chars:mixed:histogram:{}}}", words.lengths.to_text()),
        TokenKind::Uuid => "{uuid}".to_owned(),
    }
}

/// Returns a text for the values that fit no shape.
fn words_text(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    if shapes.text.draws == 0 {
        return "-".to_owned();
    }
    let name = registry.add_words(subject.stem, shapes.text.vocabulary(false, None));
    format!("{{words:{name}:histogram:{}}}", shapes.text_counts.to_text())
}

/// Returns a tag for the entry's number. The number is zero-padded if all sampled numbers have the same width, or if
/// any of them has a leading zero.
fn number(words: &Words) -> String {
    match (words.lengths.only(), words.zeros) {
        (Some(width), _) => format!("{{number:{width}}}"),
        (None, 0) => "{number}".to_owned(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some digits")]
        (None, _) => format!("{{number:{}}}", words.lengths.mean().round() as u64),
    }
}

/// Returns a tag for random digits. The numbers have leading zeros only if a sampled number has one.
fn digits(words: &Words) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some digits")]
    let mean = words.lengths.mean().round().max(1.0) as u64;
    if words.zeros > 0 || words.lengths.buckets().iter().any(|bucket| bucket.high > 18) {
        let parts = (0..mean.div_ceil(18)).map(|part| (mean - part * 18).min(18));
        return parts.fold(String::new(), |text, width| text + &format!("{{digits:{width}}}"));
    }
    let all = words.lengths.total().max(1);
    let range = |bucket: Bucket| {
        let (low, high) = (bucket.low.max(1), bucket.high.max(1));
        let least = if low == 1 { 0 } else { power(low - 1) };
        format!("{least}-{}={}", power(high) - 1, (bucket.count * 10_000).div_ceil(all))
    };
    let ranges: Vec<String> = words.lengths.buckets().into_iter().map(range).collect();
    format!("{{histogram:{}}}", ranges.join(","))
}

fn power(digits: u64) -> u64 {
    10_u64.pow(u32::try_from(digits).unwrap_or(18).min(18))
}

/// The seed of the simulation: constant, so that the same source yields the same template.
const SEED: u64 = 0x6C65_6172_6E00;

/// The frequencies of a token's words: cumulative shares, each with a half-open range of ranks. If the list is empty,
/// every draw yields a new word.
struct Ranks(Vec<(f64, u64, u64)>);

impl Ranks {
    fn new(curve: &Curve) -> Self {
        let (mut cumulated, mut from) = (0.0, 0);
        let step = |step: &Step| {
            cumulated += step.share;
            let first = std::mem::replace(&mut from, step.to);
            (cumulated, first, step.to)
        };
        Self(curve.steps.iter().map(step).collect())
    }

    fn of(place: &ShapeToken) -> Self {
        let words = &place.words;
        match place.kind {
            TokenKind::Letters => Self::new(&words.vocabulary(false, None).curve),
            TokenKind::Digits if is_listed(words) => Self::new(&words.vocabulary(true, None).curve),
            TokenKind::Digits | TokenKind::Hex | TokenKind::Mixed => {
                Self(vec![(1.0, 0, power(words.lengths.least()).max(words.distinct()))])
            }
            TokenKind::Uuid => Self(Vec::new()),
        }
    }

    fn draw(&self, random: &mut Rng) -> u64 {
        let Some(last) = self.0.len().checked_sub(1) else { return random.u64(..) };
        let at = random.f64();
        let step = self.0.partition_point(|(cumulated, ..)| *cumulated < at);
        let (_, from, to) = self.0[step.min(last)];
        random.u64(from..to.max(from + 1))
    }
}

/// Draws as many values as the sample has, each token independently. Returns the number of distinct values.
fn independent_draws(shapes: &Shapes) -> u64 {
    let mut random = Rng::with_seed(SEED);
    let mut distinct: FxHashSet<u64> = FxHashSet::default();
    let mut buffer: Vec<u8> = Vec::new();
    for (number, variant) in shapes.variants.iter().enumerate() {
        let places: Vec<Ranks> = variant.places.iter().map(Ranks::of).collect();
        for _ in 0..variant.values {
            buffer.clear();
            buffer.push(u8::try_from(number).unwrap_or(u8::MAX));
            for place in &places {
                buffer.extend_from_slice(&place.draw(&mut random).to_le_bytes());
            }
            distinct.insert(xxh3_64(&buffer));
        }
    }
    if shapes.text.draws == 0 {
        return distinct.len() as u64 + shapes.text_counts.total().min(1);
    }
    let ranks = Ranks::new(&shapes.text.vocabulary(false, None).curve);
    let mut texts: FxHashSet<u64> = FxHashSet::default();
    for bucket in shapes.text_counts.buckets() {
        for _ in 0..bucket.count {
            buffer.clear();
            for _ in 0..bucket.low {
                buffer.extend_from_slice(&ranks.draw(&mut random).to_le_bytes());
            }
            texts.insert(xxh3_64(&buffer));
        }
    }
    (distinct.len() + texts.len()) as u64
}

/// Whether the numbers become a vocabulary, because few distinct numbers occur often.
fn is_listed(numbers: &Words) -> bool {
    numbers.distinct() <= 4096 && numbers.distinct() * 4 <= numbers.draws && numbers.is_saturated()
}
