//! Compiles each [`Tag`] of a model into a [`Made`], which writes the value. A new tag needs a variant in both enums
//! and a spelling in each syntax that offers it.

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
use crate::distribution::{Distribution, Sampler};
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

/// Maximum number of decimal digits of a drawn number; a greater width is an error.
const DIGITS: usize = 18;
const HEX_DIGITS: usize = 16;
const WIDEST: usize = digits::WIDEST;
/// Maximum length of a random value, in bytes or characters; more is an error.
const LONGEST: u64 = 16 << 20;
const LONGEST_CERTIFICATE: u64 = 1 << 20;
const MOST_WORDS: u64 = 1 << 20;

/// The position of a tag and the template around it.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// A random stream that no other position of the template uses.
    pub stream: Stream,
    pub suffix: &'a str,
    pub lists: &'a [Arc<List>],
    pub learned: &'a Learned,
    /// The entry's values that are declared before this one.
    pub slots: &'a Slots,
    pub kinds: &'a [KindFacts],
    /// Index of the kind; None for a branch, which is a single entry.
    pub kind: Option<usize>,
    /// Whether the tag is inside a shape.
    pub in_shape: bool,
}

/// The values of an entry by name.
pub type Slots = HashMap<String, SlotFacts>;

#[derive(Debug, Clone, Copy, Default)]
pub struct SlotFacts {
    /// Index of the slot.
    pub at: usize,
    /// Maximum length of the value in bytes.
    pub most: u64,
    pub printable: bool,
}

#[derive(Debug, Clone)]
pub struct KindFacts {
    pub name: String,
    pub count: u64,
    /// Length of the longest DN of this kind, in bytes.
    pub dn: u64,
}

impl Scope<'_> {
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
        Ok(&self.lists[place(name, names, format_args!("list {name:?}"))?])
    }

    fn words(&self, name: &str) -> Result<Arc<Vocabulary>, String> {
        let all = &self.learned.vocabularies;
        let what = format_args!("vocabulary {name:?} in [words]");
        Ok(all[place(name, all.iter().map(|one| one.name()), what)?].clone())
    }
}

/// Returns the index of `name` in `known`, or an error that suggests a similar name.
fn place<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone, what: impl Display) -> Result<usize, String> {
    let found = known.clone().position(|one| one == name);
    found.ok_or_else(|| format!("there is no {what}{}", suggestion(name, known)))
}

/// The entry being written, and the number of its current value.
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
    /// Returns random bits for this value at one position of the template.
    pub const fn bits(&self, stream: Stream) -> u64 {
        let bits = stream.at(self.index);
        if self.occurrence == 0 { bits } else { again(bits, self.occurrence + OTHERS) }
    }
}

/// Offset of the draws for an entry's second and later values, which keeps them apart from repeated first draws.
const OTHERS: u64 = 1 << 32;

/// A value drawn for the entry; `text` is empty if the entry has no such value.
#[derive(Debug, Default, Clone)]
pub struct Slot {
    pub text: Vec<u8>,
    pub there: bool,
}

/// A compiled tag.
#[derive(Debug)]
pub enum Made {
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

/// A part of a text, with the maximum number of bytes that it writes.
#[derive(Debug)]
pub struct Part {
    pub step: Step,
    pub most: u64,
    /// Whether the part only writes characters from ` ` to `~`, so that LDIF needs no base64.
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
            let SlotFacts { at, most, printable } = scope.slot(name)?;
            return Ok(Part { step: Step::Slot(at), most, printable });
        }
        Tag::ParentDn if scope.kind.is_none() => return Ok(Part::literal(b"")),
        Tag::ParentDn => (scope.kinds[scope.kind.unwrap_or(0)].dn, false, Made::ParentDn),
        Tag::Number { start, width } => {
            checked(*width, 0, WIDEST)?;
            let last = start.checked_add(scope.count()).ok_or("the numbers grow too large")?;
            (longest(last, *width), true, Made::Number { start: *start, width: *width })
        }
        Tag::Digits(width) | Tag::Hex(width) => {
            let base = if matches!(tag, Tag::Hex(_)) { 16 } else { 10 };
            let limit = limit(base, *width)?;
            (*width as u64, true, Made::Random { limit, base, width: *width })
        }
        Tag::Unique { base, width } => {
            let (limit, count) = (limit(*base, *width)?, scope.count());
            if count > limit {
                return Err(format!("{width} digits are too few for {count} entries"));
            }
            let all = Permutation::new(limit);
            (*width as u64, true, Made::Unique { all, base: *base, width: *width })
        }
        Tag::Drawn { distribution, width } => {
            checked(*width, 0, WIDEST)?;
            let most = longest(distribution.most(), *width);
            (most, true, Made::Drawn { drawer: distribution.drawer()?, width: *width })
        }
        Tag::Pick { list } => picked(scope.list(list)?.clone()),
        Tag::Base64 { list } => {
            let (most, _, compiled) = picked(Arc::new(scope.list(list)?.decoded()?));
            (most, false, compiled)
        }
        Tag::Uuid => (36, true, Made::Uuid),
        Tag::Bytes { low, high } => {
            let count = span(*low, *high, LONGEST)?;
            (*high, false, Made::Bytes { low: *low, count })
        }
        Tag::Certificate { low, high } => {
            let count = span(*low, *high, LONGEST_CERTIFICATE)?;
            (high + certificate::BARE + 33, false, Made::Certificate { low: *low, count })
        }
        Tag::Start { name, characters } => {
            let SlotFacts { at, most, printable } = scope.slot(name)?;
            let most = most.min(4_u64.saturating_mul(*characters as u64));
            (most, printable, Made::Start { slot: at, characters: *characters })
        }
        // Each letter becomes at most three, as for the character 3/4.
        Tag::Ascii { name } => {
            let SlotFacts { at, most, .. } = scope.slot(name)?;
            (most.saturating_mul(3), true, Made::Ascii { slot: at })
        }
        Tag::Ssha { name } => (46, true, Made::Ssha { slot: scope.slot(name)?.at }),
        Tag::Argon2 { name, memory, passes } => {
            let params = password::params(*memory, *passes)?;
            (128, true, Made::Argon2 { slot: scope.slot(name)?.at, params })
        }
        Tag::Dn { kind, pick } => {
            let names = scope.kinds.iter().map(|kind| kind.name.as_str());
            let kind = place(kind, names, format_args!("kind {kind:?}"))?;
            let KindFacts { name, count, dn } = &scope.kinds[kind];
            if *count == 0 {
                return Err(format!("there are no entries of kind {name:?}"));
            }
            let chooser = ParentChooser::new(*pick, scope.stream, scope.count(), *count)?;
            (*dn, false, Made::Dn { kind, chooser })
        }
        Tag::Time { from, to } => (15, true, time::between(*from, *to)?),
        Tag::Word { vocabulary } => {
            let words = scope.words(vocabulary)?;
            (words.most(), words.is_ascii(), Made::Word(words))
        }
        Tag::NewWord { vocabulary } => {
            let (words, count) = (scope.words(vocabulary)?, scope.count());
            let all = Permutation::new(count);
            (words.most() + 20, words.is_ascii(), Made::NewWord { words, all, count })
        }
        Tag::Words { vocabulary, count } => {
            let most = bounded(count, MOST_WORDS, "words")?;
            let words = scope.words(vocabulary)?;
            let bytes = most.saturating_mul(words.most() + 1);
            (bytes, words.is_ascii(), Made::Words { words, count: count.drawer()? })
        }
        Tag::Shape { name } => {
            let shape = Shape::new(name, scope)?;
            (shape.most(), shape.is_printable(), Made::Shape(Box::new(shape)))
        }
        Tag::Chars { class, length } => {
            let most = bounded(length, LONGEST, "characters")?;
            (most, true, Made::Chars { alphabet: alphabet(*class), length: length.drawer()? })
        }
    };
    Ok(Part { step: Step::Tag(scope.stream, compiled), most, printable })
}

fn picked(list: Arc<List>) -> (u64, bool, Made) {
    let most = list.values().map(<[u8]>::len).max().unwrap_or(0) as u64;
    let printable = list.values().all(ldif::write::is_printable);
    (most, printable, Made::Pick(list))
}

const fn alphabet(class: Class) -> &'static [u8] {
    match class {
        Class::Hex => b"0123456789abcdef",
        Class::Alpha => b"abcdefghijklmnopqrstuvwxyz",
        Class::Mixed => b"abcdefghijklmnopqrstuvwxyz0123456789",
        Class::Base64 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    }
}

fn bounded(count: &Distribution, bound: u64, what: &str) -> Result<u64, String> {
    let most = count.most();
    if most > bound { Err(format!("{most} {what}, at most {bound}")) } else { Ok(most) }
}

/// Returns how many lengths there are from `low` to `high`.
fn span(low: u64, high: u64, longest: u64) -> Result<u64, String> {
    if low > high || high > longest {
        return Err(format!("{low} to {high}: write lengths up to {longest}, the smaller one first"));
    }
    Ok(high - low + 1)
}

fn limit(base: u32, width: usize) -> Result<u64, String> {
    checked(width, 1, if base == 10 { DIGITS } else { HEX_DIGITS })?;
    // 16^16 does not fit into 64 bits, so the greatest number of that width is never drawn.
    let power = u32::try_from(width).ok().and_then(|width| u64::from(base).checked_pow(width));
    Ok(power.unwrap_or(u64::MAX))
}

fn checked(width: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&width) {
        return Ok(());
    }
    Err(format!("{width}: write a width from {} to {most}", least.max(1)))
}

fn longest(number: u64, width: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0) + 1).max(width as u64)
}

impl Made {
    pub fn write(&self, stream: Stream, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Number { start, width } => decimal(out, start + at.index, *width),
            Self::Random { limit, base, width } => {
                in_base(out, below(at.bits(stream), *limit), *base, *width);
            }
            Self::Unique { all, base, width } => {
                in_base(out, all.of(stream, at.index), *base, *width);
            }
            Self::Drawn { drawer, width } => decimal(out, drawer.draw(at.bits(stream)), *width),
            Self::Pick(list) => out.extend_from_slice(list.pick(at.bits(stream))),
            Self::Uuid => write_uuid(out, at.bits(stream)),
            Self::Bytes { low, count } => {
                let bits = at.bits(stream);
                random_bytes(bits, 1, low + below(bits, *count), out);
            }
            Self::Certificate { low, count } => {
                let bits = at.bits(stream);
                certificate::write(bits, low + below(bits, *count), out);
            }
            Self::Start { slot, characters } => {
                out.extend_from_slice(first(&at.slots[*slot].text, *characters));
            }
            Self::Ascii { slot } => plain(&at.slots[*slot].text, out),
            Self::Ssha { slot } => password::ssha(&at.slots[*slot].text, at.bits(stream), out),
            Self::Argon2 { slot, params } => {
                password::argon2(&at.slots[*slot].text, params, at.bits(stream), out);
            }
            Self::Dn { kind, chooser } => {
                let index = chooser.choose_another(at.index, at.occurrence);
                at.names.dn(at.tree, EntryRef::Entry { kind: *kind, index }, out);
            }
            Self::ParentDn => at.names.dn(at.tree, at.tree.parent(at.kind, at.index), out),
            Self::Time { from, seconds } => time::write(*from, *seconds, at.bits(stream), out),
            Self::Word(words) => words.draw(at.bits(stream), out),
            Self::NewWord { words, all, count } => {
                // Only an entry's first value can be its name; a later value may equal a value of another entry.
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
                // Each draw yields eight characters; one byte for each is close enough to uniform.
                for turn in 0..length.draw(bits) {
                    let byte = again(bits, turn / 8 + 1) << (turn % 8 * 8);
                    let place = below(byte, alphabet.len() as u64);
                    out.push(alphabet[usize::try_from(place).unwrap_or(0)]);
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

fn first(text: &[u8], characters: usize) -> &[u8] {
    // A byte of the form 0b10xx_xxxx continues a UTF-8 character; any other begins one.
    let mut starts = (0..text.len()).filter(|&place| text[place] & 0xC0 != 0x80);
    &text[..starts.nth(characters).unwrap_or(text.len())]
}

/// Reduces a text to lower-case ASCII letters and digits: "Zoë O'Neil" becomes "zoeoneil".
fn plain(text: &[u8], out: &mut Vec<u8>) {
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

/// Whether an RDN may contain the tag: one that refers to other DNs could recurse forever.
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
            plain(name.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
