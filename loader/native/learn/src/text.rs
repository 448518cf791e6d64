//! From what was learned of an attribute to the text that makes its values.

use crate::curve::Curve;
use crate::histogram::Bucket;
use crate::registry::{Choice, Registry};
use crate::shapes::{LEAST_SEEN, Place, Shapes, Variant};
use crate::simulate;
use crate::token::TokenKind;
use crate::toml::{histogram, literal};
use crate::vocabulary::Words;

/// The attribute whose text is made.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// For names of vocabularies.
    pub stem: &'a str,
    /// Attributes by their number, as texts name them.
    pub names: &'a [String],
    /// Entries have one value at most, so that it may hold their number.
    pub single: bool,
    /// Distinct values of all entries.
    pub distinct: u64,
    /// Entries of the kind.
    pub entries: u64,
}

/// A text for any of the values.
pub fn text(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    let phrases = phrases(shapes, subject);
    // One place that holds the whole value: its vocabulary is that of the values.
    let whole = shapes.variants.first().is_some_and(|variant| variant.places.len() == 1);
    let mut texts = Vec::new();
    for variant in &shapes.variants {
        let known = (whole && shapes.is_plain()).then_some(subject.distinct);
        texts.push((variant_text(variant, known, subject, registry), variant.values));
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

/// A text that is another one for every entry.
pub fn unique(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    let Some(variant) = shapes.variants.first() else {
        let words = if shapes.text.draws > 0 {
            words_text(shapes, subject, registry)
        } else {
            String::new()
        };
        return format!("{words} {{number}}").trim_start().to_owned();
    };
    let Some(bearer) = bearer(variant) else { return "{number}".to_owned() };
    let mut out = String::new();
    each_piece(variant, &mut out, |at, place| {
        if at == bearer {
            unique_place(place, subject, registry)
        } else {
            place_text(place, None, &Subject { single: false, ..*subject }, registry)
        }
    });
    out
}

/// The place that is to tell entries apart: numbers that do so already, else where most differ.
fn bearer(variant: &Variant) -> Option<usize> {
    let places = || variant.places.iter().enumerate();
    let counts = |place: &Place| place.sort == TokenKind::Digits && place.words.is_unique();
    let numbered = places().find(|(_, place)| place.sort == TokenKind::Uuid || counts(place));
    let most = || places().max_by_key(|(_, place)| place.words.distinct());
    numbered.or_else(most).map(|(at, _)| at)
}

fn unique_place(place: &Place, subject: &Subject<'_>, registry: &mut Registry) -> String {
    match place.sort {
        TokenKind::Digits => number(&place.words),
        TokenKind::Uuid => "{uuid}".to_owned(),
        _ => {
            let vocabulary = place.words.vocabulary(false, Some(subject.entries));
            format!("{{newword:{}}}", registry.add_words(subject.stem, vocabulary))
        }
    }
}

/// Whether there are fewer distinct values than would come of drawing every place by itself.
fn phrases(shapes: &Shapes, subject: &Subject<'_>) -> Option<Curve> {
    if shapes.repeats_any() || shapes.whole.is_unique() || shapes.values < LEAST_SEEN {
        return None;
    }
    let (alone, seen) = (simulate::distinct(shapes), shapes.whole.distinct());
    (alone * 8 > seen * 9).then(|| shapes.whole.vocabulary(false, Some(subject.distinct)).curve)
}

fn variant_text(
    variant: &Variant,
    known: Option<u64>,
    subject: &Subject<'_>,
    registry: &mut Registry,
) -> String {
    let mut out = String::new();
    each_piece(variant, &mut out, |_, place| place_text(place, known, subject, registry));
    out
}

/// Marks as they are, and for each place what `piece` says.
fn each_piece(variant: &Variant, out: &mut String, mut piece: impl FnMut(usize, &Place) -> String) {
    let mut at = 0;
    for mark in variant.shape.chars() {
        if mark.is_ascii_alphabetic() {
            out.push_str(&piece(at, &variant.places[at]));
            at += 1;
        } else {
            out.push_str(&literal(mark));
        }
    }
}

fn place_text(
    place: &Place,
    known: Option<u64>,
    subject: &Subject<'_>,
    registry: &mut Registry,
) -> String {
    if let Some(repeat) = place.repeats {
        let name = &subject.names[repeat.attribute];
        return if repeat.ascii { format!("{{ascii:{name}}}") } else { format!("{{{name}}}") };
    }
    let words = &place.words;
    let mut listed = |digits| {
        let name = registry.add_words(subject.stem, words.vocabulary(digits, known));
        format!("{{word:{name}}}")
    };
    match place.sort {
        TokenKind::Letters => listed(false),
        TokenKind::Digits if subject.single && words.is_unique() => number(words),
        TokenKind::Digits if simulate::is_listed(words) => listed(true),
        TokenKind::Digits => digits(words),
        TokenKind::Hex => chars("hex", words),
        TokenKind::Mixed => chars("mixed", words),
        TokenKind::Uuid => "{uuid}".to_owned(),
    }
}

fn words_text(shapes: &Shapes, subject: &Subject<'_>, registry: &mut Registry) -> String {
    if shapes.text.draws == 0 {
        return "-".to_owned();
    }
    let name = registry.add_words(subject.stem, shapes.text.vocabulary(false, None));
    format!("{{words:{name}:histogram:{}}}", histogram(&shapes.text_counts))
}

fn chars(class: &str, words: &Words) -> String {
    format!("{{chars:{class}:histogram:{}}}", histogram(&words.lengths))
}

/// The entry's number, as wide as numbers were.
fn number(words: &Words) -> String {
    match (words.lengths.only(), words.zeros) {
        (Some(width), _) => format!("{{number:{width}}}"),
        (None, 0) => "{number}".to_owned(),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some digits")]
        (None, _) => format!("{{number:{}}}", words.lengths.mean().round() as u64),
    }
}

/// Random digits: numbers without zeros at their head, unless there were some.
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
