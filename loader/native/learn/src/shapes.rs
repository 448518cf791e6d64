//! Groups the values of an attribute by shape. For each token of a shape, learns either its words or the attribute
//! whose value the token repeats.

use common::Result;
use ldif::Record;
use rustc_hash::FxHashMap;
use synth::ascii;

use crate::LEAST_SEEN;
use crate::histogram::Histogram;
use crate::statistics::{Kind, described};
use crate::token::{self, Token, TokenKind};
use crate::vocabulary::Words;

/// Maximum number of shapes of an attribute; the most frequent shapes are kept.
const MOST_SHAPES: usize = 8;
/// A shape is kept only if at least one value in this many has the shape.
const LEAST_SHARE: u64 = 50;
/// Maximum number of entries, and of values in each entry, that are examined for repetitions.
const MOST_EXAMINED: usize = 3000;
const FIRST_VALUES: usize = 4;
/// Minimum percentage of the examined values in which a token must equal an attribute to count as its repetition.
const REPEAT_PERCENT: u64 = 95;

/// The decoded sample of one kind.
#[derive(Debug, Default)]
pub struct SampledEntries {
    /// Attribute names in lower case, in ascending order.
    pub names: Vec<String>,
    /// For each entry, and for each attribute in the order of `names`, the text values.
    pub rows: Vec<Vec<Vec<String>>>,
}

impl SampledEntries {
    pub fn of(kind: &Kind) -> Result<Self> {
        let mut names: Vec<String> = kind.attributes.keys().map(|name| (**name).into()).collect();
        names.sort_unstable();
        let numbers: FxHashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let rows = kind.records.sorted().into_iter().map(|(_, bytes)| row(bytes, &numbers)).collect::<Result<_>>()?;
        Ok(Self { names, rows })
    }

    /// Returns all values of an attribute.
    pub fn values(&self, number: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(move |row| row[number].iter().map(String::as_str))
    }
}

fn row(bytes: &[u8], numbers: &FxHashMap<&str, usize>) -> Result<Vec<Vec<String>>> {
    let record = Record { bytes, line: 1, closed: true, last: false };
    let mut row = vec![Vec::new(); numbers.len()];
    for field in record.entry()?.fields {
        let field = field?;
        let name = String::from_utf8_lossy(described(&field)).to_ascii_lowercase();
        let (Some(&number), value) = (numbers.get(name.as_str()), field.value()?) else { continue };
        if let Ok(text) = std::str::from_utf8(&value) {
            row[number].push(text.to_owned());
        }
    }
    Ok(row)
}

#[derive(Default)]
pub struct Shapes {
    /// The shapes by descending number of values.
    pub variants: Vec<Variant>,
    /// Words of the values that fit no shape, and the number of words per value.
    pub text: Words,
    pub text_counts: Histogram,
    /// Number of values in the sample.
    pub values: u64,
    /// The distinct values with their counts; case is ignored.
    pub whole: Words,
}

/// A shape with the statistics of its values.
pub struct Variant {
    pub shape: String,
    pub values: u64,
    pub places: Vec<ShapeToken>,
}

/// A token of a shape.
pub struct ShapeToken {
    pub kind: TokenKind,
    pub words: Words,
    pub repeats: Option<Repeat>,
    /// How often the token repeated each of the earlier attributes.
    tries: Vec<RepeatCounts>,
}

/// A repetition: the token equals the value of another attribute in the same entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    pub attribute: usize,
    /// Whether only the letters and digits are repeated, in lower case.
    pub ascii: bool,
}

/// Counts of examined values: all; those that repeat the attribute's value; those that repeat its [`ascii`] form.
#[derive(Debug, Clone, Copy, Default)]
struct RepeatCounts {
    seen: u64,
    same: u64,
    ascii: u64,
}

/// Learns the shapes of an attribute's values. The tokens of the values may repeat the attributes in `earlier`.
pub fn shapes(sample: &SampledEntries, number: usize, earlier: &[usize]) -> Shapes {
    let mut shapes = Shapes { variants: frequent(sample, number), ..Shapes::default() };
    let indexes: FxHashMap<String, usize> =
        shapes.variants.iter().enumerate().map(|(at, variant)| (variant.shape.clone(), at)).collect();
    let mut tokens = Vec::new();
    for (entry, row) in sample.rows.iter().enumerate() {
        for (occurrence, value) in row[number].iter().enumerate() {
            shapes.values += 1;
            shapes.whole.add(value);
            let shape = token::shape(value, &mut tokens);
            let Some(&index) = shape.and_then(|shape| indexes.get(&shape)) else {
                shapes.add_text(value);
                continue;
            };
            let variant = &mut shapes.variants[index];
            variant.add(&tokens);
            if entry < MOST_EXAMINED && occurrence < FIRST_VALUES {
                variant.compare(&tokens, row, earlier);
            }
        }
    }
    shapes.variants.iter_mut().for_each(|variant| variant.decide(earlier));
    shapes
}

/// Returns the most frequent shapes, by descending frequency.
fn frequent(sample: &SampledEntries, number: usize) -> Vec<Variant> {
    let (mut counts, mut tokens, mut all) = (FxHashMap::<String, u64>::default(), Vec::new(), 0);
    for value in sample.values(number) {
        all += 1;
        if let Some(shape) = token::shape(value, &mut tokens) {
            *counts.entry(shape).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= LEAST_SEEN && *count * LEAST_SHARE >= all);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts.truncate(MOST_SHAPES);
    let variant = |(shape, values)| Variant { shape, values, places: Vec::new() };
    counts.into_iter().map(variant).collect()
}

impl Shapes {
    fn add_text(&mut self, value: &str) {
        let mut count = 0;
        for word in token::words(value) {
            self.text.add(word);
            count += 1;
        }
        self.text_counts.add(count);
    }

    /// Whether at least 98 percent of the values have the same shape.
    pub fn is_plain(&self) -> bool {
        self.variants.len() == 1 && self.variants[0].values * 50 >= self.values * 49
    }

    pub fn repeats_any(&self) -> bool {
        let mut places = self.variants.iter().flat_map(|variant| &variant.places);
        places.any(|place| place.repeats.is_some())
    }
}

impl Variant {
    fn add(&mut self, tokens: &[Token<'_>]) {
        if self.places.is_empty() {
            let place = |token: &Token<'_>| ShapeToken {
                kind: token.kind,
                words: Words::default(),
                repeats: None,
                tries: Vec::new(),
            };
            self.places = tokens.iter().map(place).collect();
        }
        for (place, token) in self.places.iter_mut().zip(tokens) {
            place.words.add(token.text);
        }
    }

    /// For each token and each earlier attribute, counts how often the token repeats the attribute's first value.
    fn compare(&mut self, tokens: &[Token<'_>], row: &[Vec<String>], earlier: &[usize]) {
        for (place, token) in self.places.iter_mut().zip(tokens) {
            place.tries.resize(earlier.len(), RepeatCounts::default());
            for (tries, &attribute) in place.tries.iter_mut().zip(earlier) {
                let Some(value) = row[attribute].first() else { continue };
                tries.seen += 1;
                tries.same += u64::from(value == token.text);
                let mut reduced = Vec::new();
                ascii(value.as_bytes(), &mut reduced);
                tries.ascii += u64::from(reduced == token.text.as_bytes());
            }
        }
    }

    /// Decides which attribute each token repeats.
    fn decide(&mut self, earlier: &[usize]) {
        for place in &mut self.places {
            // A token with few distinct words may repeat an attribute by chance.
            if place.words.distinct() < LEAST_SEEN {
                continue;
            }
            let enough =
                |tries: &RepeatCounts, same: u64| tries.seen >= LEAST_SEEN && same * 100 >= tries.seen * REPEAT_PERCENT;
            place.repeats = place.tries.iter().zip(earlier).find_map(|(tries, &attribute)| {
                let ascii = !enough(tries, tries.same);
                let repeated = !ascii || enough(tries, tries.ascii);
                repeated.then_some(Repeat { attribute, ascii })
            });
        }
    }
}
