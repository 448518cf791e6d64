//! Groups the values of an attribute by shape, and learns the words of each token and the attributes that it repeats.

use common::Result;
use ldif::Record;
use rustc_hash::FxHashMap;
use unicode_normalization::UnicodeNormalization as _;

use crate::histogram::Histogram;
use crate::statistics::{Kind, described};
use crate::token::{self, Token, TokenKind};
use crate::vocabulary::Words;

/// Limits of an attribute's shapes: their number, the reciprocal of the minimum share, the minimum number of values.
const MOST_SHAPES: usize = 8;
const LEAST_SHARE: u64 = 50;
pub const LEAST_SEEN: u64 = 5;
/// Maximum number of entries that are examined for repetitions.
const MOST_EXAMINED: usize = 3000;
const REPEAT_PERCENT: u64 = 95;
/// Maximum number of values that are examined in each entry.
const FIRST_VALUES: usize = 4;

/// The text values of an entry by attribute number; empty if the entry does not have the attribute.
pub type SampledEntry = Vec<Vec<String>>;

/// The decoded sample of one kind: for each entry, the values of each attribute.
#[derive(Debug, Default)]
pub struct SampledEntries {
    /// Attribute names in lower case, in ascending order.
    pub names: Vec<String>,
    pub rows: Vec<SampledEntry>,
}

impl SampledEntries {
    pub fn of(kind: &Kind) -> Result<Self> {
        let mut names: Vec<String> = kind.attributes.keys().map(|name| (**name).into()).collect();
        names.sort_unstable();
        let numbers: FxHashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let mut rows = Vec::with_capacity(kind.records.len());
        for (_, bytes) in kind.records.sorted() {
            rows.push(row(bytes, &numbers)?);
        }
        Ok(Self { names, rows })
    }

    /// Returns all values of an attribute.
    pub fn values(&self, number: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(move |row| row[number].iter().map(String::as_str))
    }
}

fn row(bytes: &[u8], numbers: &FxHashMap<&str, usize>) -> Result<SampledEntry> {
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
    pub variants: Vec<Variant>,
    /// Words of the values that fit no shape, and the number of words per value.
    pub text: Words,
    pub text_counts: Histogram,
    /// Number of values examined.
    pub values: u64,
    /// The distinct values with their counts; case is ignored.
    pub whole: Words,
}

pub struct Variant {
    pub shape: String,
    pub values: u64,
    pub places: Vec<Place>,
}

/// A token of a shape.
pub struct Place {
    pub sort: TokenKind,
    pub words: Words,
    pub repeats: Option<Repeat>,
    tries: Vec<RepeatCounts>,
}

/// Another attribute of the same entry whose value the token repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    pub attribute: usize,
    /// Whether only the letters and digits are repeated, in lower case.
    pub ascii: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct RepeatCounts {
    seen: u64,
    same: u64,
    ascii: u64,
}

/// Learns the shapes of an attribute. `earlier` lists the attributes that its tokens may repeat.
pub fn shapes(columns: &SampledEntries, number: usize, earlier: &[usize]) -> Shapes {
    let mut found = Shapes { variants: frequent(columns, number), ..Shapes::default() };
    let places: FxHashMap<String, usize> =
        found.variants.iter().enumerate().map(|(at, variant)| (variant.shape.clone(), at)).collect();
    let mut tokens = Vec::new();
    for (at, row) in columns.rows.iter().enumerate() {
        for (which, value) in row[number].iter().enumerate() {
            found.values += 1;
            found.whole.add(value);
            let shape = token::shape(value, &mut tokens);
            let Some(&place) = shape.and_then(|shape| places.get(&shape)) else {
                found.add_text(value);
                continue;
            };
            let variant = &mut found.variants[place];
            variant.add(&tokens);
            if at < MOST_EXAMINED && which < FIRST_VALUES {
                variant.compare(&tokens, row, earlier);
            }
        }
    }
    found.variants.iter_mut().for_each(|variant| variant.decide(earlier));
    found
}

/// Returns the shapes for the template in descending frequency.
fn frequent(columns: &SampledEntries, number: usize) -> Vec<Variant> {
    let (mut counts, mut tokens, mut all) = (FxHashMap::<String, u64>::default(), Vec::new(), 0);
    for value in columns.values(number) {
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

    /// Whether all or nearly all values have the same shape.
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
            let place = |token: &Token<'_>| Place {
                sort: token.sort,
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

    fn compare(&mut self, tokens: &[Token<'_>], row: &[Vec<String>], earlier: &[usize]) {
        for (place, token) in self.places.iter_mut().zip(tokens) {
            place.tries.resize(earlier.len(), RepeatCounts::default());
            for (tries, &attribute) in place.tries.iter_mut().zip(earlier) {
                let Some(value) = row[attribute].first() else { continue };
                tries.seen += 1;
                tries.same += u64::from(value == token.text);
                tries.ascii += u64::from(plain(value) == token.text);
            }
        }
    }

    fn decide(&mut self, earlier: &[usize]) {
        for place in &mut self.places {
            // A token with very few words repeats other attributes by chance.
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

/// Converts a value as the tag `ascii` does.
fn plain(value: &str) -> String {
    let kept = value.nfkd().filter(char::is_ascii_alphanumeric);
    kept.map(|one: char| one.to_ascii_lowercase()).collect()
}
