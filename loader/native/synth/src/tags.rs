//! Compiles each [`Tag`] of a model into a [`CompiledTag`], which writes values. A new tag needs a variant in both
//! enums, and a spelling in `toml/tags.rs`.

mod certificate;
pub mod digits;
mod password;
mod shape;
pub mod time;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization as _;

use crate::body::Step;
use crate::distribution::{Distribution, Sampler, even};
use crate::draw::{Stream, again, below};
use crate::list::List;
use crate::maker::Names;
use crate::model::{Class, Tag};
use crate::permute::Permutation;
use crate::problem::suggestion;
use crate::tree::{EntryRef, ParentChooser, Tree};
use crate::vocabulary::{Learned, Vocabulary};
use digits::{decimal, hexadecimal};
use shape::Shape;

/// Maximum widths of random numbers, in decimal and in hexadecimal digits. A greater width is an error.
const DIGITS: usize = 18;
const HEX_DIGITS: usize = 16;
/// Maximum lengths of random values: number of bytes or characters, size of a certificate in bytes, and number of words
/// of a text. A greater length is an error.
const LONGEST: u64 = 16 << 20;
const LONGEST_CERTIFICATE: u64 = 1 << 20;
const MOST_WORDS: u64 = 1 << 20;

/// The position of a tag, and the data to which the tag may refer.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// A random stream that no other position of the template uses.
    pub stream: Stream,
    pub suffix: &'a str,
    pub lists: &'a [Arc<List>],
    pub learned: &'a Learned,
    /// The values of the entry that are declared before the tag.
    pub slots: &'a Slots,
    pub kinds: &'a [KindFacts],
    /// Index of the kind; None for a branch, which is a single entry.
    pub kind: Option<usize>,
    /// Whether the tag is inside a shape.
    pub in_shape: bool,
}

/// The named values of an entry.
pub type Slots = HashMap<String, SlotFacts>;

#[derive(Debug, Clone, Copy, Default)]
pub struct SlotFacts {
    pub slot: usize,
    /// Maximum length of the value in bytes.
    pub most: u64,
    pub printable: bool,
}

#[derive(Debug, Clone)]
pub struct KindFacts {
    pub name: String,
    pub count: u64,
    /// Maximum length of a DN of this kind in bytes.
    pub dn: u64,
}

impl Scope<'_> {
    /// Returns the number of entries of the kind.
    pub fn count(&self) -> u64 {
        self.kind.map_or(1, |kind| self.kinds[kind].count)
    }

    fn slot(&self, name: &str) -> Result<SlotFacts, String> {
        self.slots.get(name).copied().ok_or_else(|| {
            let mut known: Vec<&str> = self.slots.keys().map(String::as_str).collect();
            known.sort_unstable();
            format!("there is no value {name:?} before it{}", suggestion(name, known))
        })
    }

    fn list(&self, name: &str) -> Result<&Arc<List>, String> {
        let names = self.lists.iter().map(|list| list.name.as_str());
        Ok(&self.lists[index_of(name, names, format_args!("list {name:?}"))?])
    }

    fn words(&self, name: &str) -> Result<Arc<Vocabulary>, String> {
        let all = &self.learned.vocabularies;
        let what = format_args!("vocabulary {name:?} in [words]");
        Ok(all[index_of(name, all.iter().map(|vocabulary| vocabulary.name()), what)?].clone())
    }
}

/// Returns the index of `name` in `known`, or an error that suggests a similar name. `what` describes the name in the
/// error.
fn index_of<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone, what: impl Display) -> Result<usize, String> {
    let index = known.clone().position(|other| other == name);
    index.ok_or_else(|| format!("there is no {what}{}", suggestion(name, known)))
}

/// The entry that is written, and the number of the current value.
#[derive(Debug)]
pub struct EntryContext<'a> {
    pub tree: &'a Tree,
    /// Index of the entry's kind; meaningless for branches.
    pub kind: usize,
    /// Number of the entry within its kind.
    pub index: u64,
    /// Number of the value within its item, counted from 0.
    pub occurrence: u64,
    /// The values drawn for the entry so far.
    pub slots: &'a [Slot],
    /// Buffers for building the DNs of other entries.
    pub names: &'a mut Names,
}

impl EntryContext<'_> {
    /// Returns the random bits for the current value. `stream` is the stream of the tag.
    pub const fn bits(&self, stream: Stream) -> u64 {
        let bits = stream.at(self.index);
        if self.occurrence == 0 { bits } else { again(bits, self.occurrence + LATER_VALUES) }
    }
}

/// Offset of the draws for the second and later values of an entry, so that they differ from repeated draws for the
/// first value.
const LATER_VALUES: u64 = 1 << 32;

/// A value of the entry. `text` is empty if the entry does not have the value.
#[derive(Debug, Default, Clone)]
pub struct Slot {
    pub text: Vec<u8>,
    pub is_present: bool,
}

#[derive(Debug)]
pub enum CompiledTag {
    Number { start: u64, width: usize },
    Random { limit: u64, base: u32, width: usize },
    Unique { all: Permutation, base: u32, width: usize },
    Drawn { drawer: Sampler, width: usize },
    Pick(Arc<List>),
    Uuid,
    Bytes { low: u64, count: u64 },
    Certificate { low: u64, count: u64 },
    Start { slot: usize, characters: usize },
    Ascii { slot: usize },
    Ssha { slot: usize },
    Argon2 { slot: usize, params: argon2::Params },
    Dn { kind: usize, chooser: ParentChooser },
    ParentDn,
    Time { from: i64, seconds: u64 },
    Word(Arc<Vocabulary>),
    NewWord { words: Arc<Vocabulary>, all: Permutation, count: u64 },
    Words { words: Arc<Vocabulary>, count: Sampler },
    Shape(Box<Shape>),
    Chars { alphabet: &'static [u8], length: Sampler },
}

/// A compiled piece of a text.
#[derive(Debug)]
pub struct Part {
    pub step: Step,
    /// Maximum length in bytes.
    pub most: u64,
    /// Whether the part has only characters from ` ` to `~`, so that LDIF needs no base64.
    pub printable: bool,
}

impl Part {
    pub fn literal(bytes: &[u8]) -> Self {
        let printable = ldif::write::is_printable(bytes);
        Self { step: Step::Literal(bytes.into()), most: bytes.len() as u64, printable }
    }
}

/// Compiles a tag at the position `scope`, or returns an error message.
pub fn compile(tag: &Tag, scope: &Scope<'_>) -> Result<Part, String> {
    let (most, printable, compiled) = match tag {
        Tag::Suffix => return Ok(Part::literal(scope.suffix.as_bytes())),
        Tag::Value { name } => {
            let SlotFacts { slot, most, printable } = scope.slot(name)?;
            return Ok(Part { step: Step::Slot(slot), most, printable });
        }
        Tag::ParentDn if scope.kind.is_none() => return Ok(Part::literal(b"")),
        Tag::ParentDn => (scope.kinds[scope.kind.unwrap_or(0)].dn, false, CompiledTag::ParentDn),
        Tag::Number { start, width } => {
            check_width(*width, 0, digits::WIDEST)?;
            let last = start.checked_add(scope.count()).ok_or("the numbers grow too large")?;
            (longest(last, *width), true, CompiledTag::Number { start: *start, width: *width })
        }
        Tag::Digits(width) | Tag::Hex(width) => {
            let base = if matches!(tag, Tag::Hex(_)) { 16 } else { 10 };
            let limit = limit(base, *width)?;
            (*width as u64, true, CompiledTag::Random { limit, base, width: *width })
        }
        Tag::Unique { base, width } => {
            let (limit, count) = (limit(*base, *width)?, scope.count());
            if count > limit {
                return Err(format!("{width} digits are too few for {count} entries"));
            }
            let all = Permutation::new(limit);
            (*width as u64, true, CompiledTag::Unique { all, base: *base, width: *width })
        }
        Tag::Drawn { distribution, width } => {
            check_width(*width, 0, digits::WIDEST)?;
            let most = longest(distribution.most(), *width);
            (most, true, CompiledTag::Drawn { drawer: distribution.drawer()?, width: *width })
        }
        Tag::Pick { list } => {
            let list = scope.list(list)?;
            (list.longest(), list.values().all(ldif::write::is_printable), CompiledTag::Pick(list.clone()))
        }
        Tag::Base64 { list } => {
            let list = scope.list(list)?.decoded()?;
            (list.longest(), false, CompiledTag::Pick(Arc::new(list)))
        }
        Tag::Uuid => (36, true, CompiledTag::Uuid),
        Tag::Bytes { low, high } => {
            let count = lengths(*low, *high, LONGEST)?;
            (*high, false, CompiledTag::Bytes { low: *low, count })
        }
        Tag::Certificate { low, high } => {
            let count = lengths(*low, *high, LONGEST_CERTIFICATE)?;
            (high + certificate::BARE + 33, false, CompiledTag::Certificate { low: *low, count })
        }
        Tag::Start { name, characters } => {
            let SlotFacts { slot, most, printable } = scope.slot(name)?;
            let most = most.min(4_u64.saturating_mul(*characters as u64));
            (most, printable, CompiledTag::Start { slot, characters: *characters })
        }
        // Three bytes become at most five letters or digits (U+33AF becomes `rads2`).
        Tag::Ascii { name } => {
            let SlotFacts { slot, most, .. } = scope.slot(name)?;
            (most.saturating_mul(3), true, CompiledTag::Ascii { slot })
        }
        Tag::Ssha { name } => (46, true, CompiledTag::Ssha { slot: scope.slot(name)?.slot }),
        Tag::Argon2 { name, memory, passes } => {
            let params = password::params(*memory, *passes)?;
            (128, true, CompiledTag::Argon2 { slot: scope.slot(name)?.slot, params })
        }
        Tag::Dn { kind, pick } => {
            let names = scope.kinds.iter().map(|kind| kind.name.as_str());
            let kind = index_of(kind, names, format_args!("kind {kind:?}"))?;
            let KindFacts { name, count, dn } = &scope.kinds[kind];
            if *count == 0 {
                return Err(format!("there are no entries of kind {name:?}"));
            }
            let chooser = ParentChooser::new(*pick, scope.stream, scope.count(), *count)?;
            (*dn, false, CompiledTag::Dn { kind, chooser })
        }
        Tag::Time { from, to } => (15, true, time::between(*from, *to)?),
        Tag::Word { vocabulary } => {
            let words = scope.words(vocabulary)?;
            (words.most(), words.is_ascii(), CompiledTag::Word(words))
        }
        Tag::NewWord { vocabulary } => {
            let (words, count) = (scope.words(vocabulary)?, scope.count());
            let all = Permutation::new(count);
            (words.most() + 20, words.is_ascii(), CompiledTag::NewWord { words, all, count })
        }
        Tag::Words { vocabulary, count } => {
            let most = bounded(count, MOST_WORDS, "words")?;
            let words = scope.words(vocabulary)?;
            let bytes = most.saturating_mul(words.most() + 1);
            (bytes, words.is_ascii(), CompiledTag::Words { words, count: count.drawer()? })
        }
        Tag::Shape { name } => {
            let shape = Shape::new(name, scope)?;
            (shape.most(), shape.is_printable(), CompiledTag::Shape(Box::new(shape)))
        }
        Tag::Chars { class, length } => {
            let most = bounded(length, LONGEST, "characters")?;
            (most, true, CompiledTag::Chars { alphabet: alphabet(*class), length: length.drawer()? })
        }
    };
    Ok(Part { step: Step::Tag(scope.stream, compiled), most, printable })
}

const fn alphabet(class: Class) -> &'static [u8] {
    match class {
        Class::Hex => b"0123456789abcdef",
        Class::Alpha => b"abcdefghijklmnopqrstuvwxyz",
        Class::Mixed => b"abcdefghijklmnopqrstuvwxyz0123456789",
        Class::Base64 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    }
}

/// Returns the maximum of a distribution, or an error if it is above `bound`.
fn bounded(count: &Distribution, bound: u64, what: &str) -> Result<u64, String> {
    let most = count.most();
    if most > bound { Err(format!("{most} {what}, at most {bound}")) } else { Ok(most) }
}

/// Returns the number of lengths from `low` to `high`.
fn lengths(low: u64, high: u64, longest: u64) -> Result<u64, String> {
    if low > high || high > longest {
        return Err(format!("{low} to {high}: write lengths up to {longest}, the smaller one first"));
    }
    Ok(high - low + 1)
}

/// Returns the exclusive upper bound of the numbers of this width.
fn limit(base: u32, width: usize) -> Result<u64, String> {
    check_width(width, 1, if base == 10 { DIGITS } else { HEX_DIGITS })?;
    // 16^16 does not fit into 64 bits, so the greatest number of 16 hexadecimal digits is never drawn.
    let power = u32::try_from(width).ok().and_then(|width| u64::from(base).checked_pow(width));
    Ok(power.unwrap_or(u64::MAX))
}

fn check_width(width: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&width) {
        return Ok(());
    }
    Err(format!("{width}: write a width from {} to {most}", least.max(1)))
}

/// Returns the number of digits of a number that is zero-padded to the width.
fn longest(number: u64, width: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0) + 1).max(width as u64)
}

impl CompiledTag {
    pub fn write(&self, stream: Stream, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Number { start, width } => decimal(out, start + at.index, *width),
            Self::Random { limit, base, width } => in_base(out, below(at.bits(stream), *limit), *base, *width),
            Self::Unique { all, base, width } => in_base(out, all.of(stream, at.index), *base, *width),
            Self::Drawn { drawer, width } => decimal(out, drawer.draw(at.bits(stream)), *width),
            Self::Pick(list) => out.extend_from_slice(list.pick(at.bits(stream))),
            Self::Uuid => write_uuid(out, at.bits(stream)),
            Self::Bytes { low, count } => {
                let bits = at.bits(stream);
                random_bytes(bits, 1, low + below(bits, *count), out);
            }
            Self::Certificate { low, count } => {
                let bits = at.bits(stream);
                out.extend_from_slice(&certificate::certificate(bits, low + below(bits, *count)));
            }
            Self::Start { slot, characters } => out.extend_from_slice(first(&at.slots[*slot].text, *characters)),
            Self::Ascii { slot } => ascii(&at.slots[*slot].text, out),
            Self::Ssha { slot } => password::ssha(&at.slots[*slot].text, at.bits(stream), out),
            Self::Argon2 { slot, params } => password::argon2(&at.slots[*slot].text, params, at.bits(stream), out),
            Self::Dn { kind, chooser } => {
                let index = chooser.choose_another(at.index, at.occurrence);
                at.names.dn(at.tree, EntryRef::Entry { kind: *kind, index }, out);
            }
            Self::ParentDn => at.names.dn(at.tree, at.tree.parent(at.kind, at.index), out),
            Self::Time { from, seconds } => time::write(*from, *seconds, at.bits(stream), out),
            Self::Word(words) => words.draw(at.bits(stream), out),
            Self::NewWord { words, all, count } => {
                // Only an entry's first value can be in its RDN. Later values may equal values of other entries.
                let number = all.of(stream, at.index);
                words.new_word(at.bits(stream.part(1)), number, *count, out);
            }
            Self::Words { words, count } => {
                let bits = at.bits(stream);
                for turn in 0..count.draw(bits) {
                    if turn > 0 {
                        out.push(b' ');
                    }
                    words.draw(again(bits, turn + 1), out);
                }
            }
            Self::Shape(shape) => shape.write(at, out),
            Self::Chars { alphabet, length } => {
                let bits = at.bits(stream);
                // Each draw yields eight characters. A byte for each character is close enough to uniform.
                for turn in 0..length.draw(bits) {
                    let byte = again(bits, turn / 8 + 1) << (turn % 8 * 8);
                    out.push(alphabet[even(byte, alphabet.len())]);
                }
            }
        }
    }
}

fn in_base(out: &mut Vec<u8>, number: u64, base: u32, width: usize) {
    if base == 10 { decimal(out, number, width) } else { hexadecimal(out, number, width) }
}

/// Appends 128 random bits as a UUID of version 4 (RFC 4122).
pub fn write_uuid(out: &mut Vec<u8>, bits: u64) {
    let high = bits & !0xF000 | 0x4000;
    let low = again(bits, 1) & !(0b11 << 62) | 0b10 << 62;
    out.extend_from_slice(&values::uuid::spelled(u128::from(high) << 64 | u128::from(low)));
}

/// Appends `length` random bytes, eight from each draw; `from` is the number of the first draw.
fn random_bytes(bits: u64, from: u64, length: u64, out: &mut Vec<u8>) {
    for turn in 0..length.div_ceil(8) {
        let rest = usize::try_from(length - turn * 8).unwrap_or(8).min(8);
        out.extend_from_slice(&again(bits, turn + from).to_le_bytes()[..rest]);
    }
}

/// Returns the first characters of a UTF-8 text.
fn first(text: &[u8], characters: usize) -> &[u8] {
    // A byte of the form 0b10xx_xxxx continues a UTF-8 character. Any other byte begins a character.
    let mut starts = (0..text.len()).filter(|&at| text[at] & 0xC0 != 0x80);
    &text[..starts.nth(characters).unwrap_or(text.len())]
}

/// Appends a text reduced to lower-case ASCII letters and digits: "Zoë O'Neil" becomes "zoeoneil".
pub fn ascii(text: &[u8], out: &mut Vec<u8>) {
    if text.is_ascii() {
        let kept = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
        out.extend(kept.map(u8::to_ascii_lowercase));
        return;
    }
    let text = String::from_utf8_lossy(text);
    let kept = text.nfkd().filter(char::is_ascii_alphanumeric);
    out.extend(kept.map(|letter| letter.to_ascii_lowercase() as u8));
}

/// Returns the names of the entry's values that a tag refers to.
pub fn named(tag: &Tag) -> &[String] {
    match tag {
        Tag::Value { name }
        | Tag::Start { name, .. }
        | Tag::Ascii { name }
        | Tag::Ssha { name }
        | Tag::Argon2 { name, .. } => std::slice::from_ref(name),
        _ => &[],
    }
}

/// Whether the tag writes a different text in each entry of a kind.
pub const fn is_unique(tag: &Tag) -> bool {
    matches!(tag, Tag::Number { .. } | Tag::Unique { .. } | Tag::Uuid | Tag::NewWord { .. })
}

/// Whether an RDN may contain the tag. A tag that refers to other DNs could recurse forever.
pub const fn may_name(tag: &Tag) -> bool {
    use Tag::{Bytes, Certificate, Dn, ParentDn, Shape};
    !matches!(tag, Dn { .. } | ParentDn | Bytes { .. } | Certificate { .. } | Shape { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_never_splits_a_character() {
        for (characters, expected) in [(0, ""), (1, "\u{141}"), (2, "\u{141}u"), (9, "\u{141}uk")] {
            assert_eq!(first("\u{141}uk".as_bytes(), characters), expected.as_bytes());
        }
    }

    #[test]
    fn ascii_fits_into_a_mail_address() {
        for (name, expected) in [("Zo\u{eb}", "zoe"), ("O'Brien", "obrien"), ("Smith", "smith"), ("\u{141}uk", "uk")] {
            let mut out = Vec::new();
            ascii(name.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
