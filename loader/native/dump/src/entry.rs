//! Decodes one entry and writes it as LDIF.

use backmdb::damaged_entry;
use codec::id2e::{self, Stored};
use codec::id2v;
use ldif::write::line;
use lmdbfile::TableReader;
use rustc_hash::FxHashMap;
use tree::Description;
use tree::fingerprint::{Fingerprinter, hash_value};

use crate::parents::ParentDn;
use crate::tables::Descriptions;
use crate::{Error, Result};

/// An entry whose stored value is borrowed from the pages of the database.
pub(crate) struct Entry<'a> {
    pub(crate) id: u64,
    pub(crate) place: &'a ParentDn,
    pub(crate) descriptions: &'a Descriptions,
    /// The value of the key `id` in id2e.
    pub(crate) value: &'a [u8],
    pub(crate) id2v: Option<TableReader<'a>>,
}

/// A value of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    pub(crate) description: &'a Description,
    pub(crate) bytes: &'a [u8],
    /// Position among the values of the attribute.
    at: usize,
    /// Whether the attribute has no other value.
    single: bool,
}

impl Value<'_> {
    #[inline]
    pub(crate) fn print(&self, printer: &mut Fingerprinter) {
        self.add(hash_value(self.description.hash, self.bytes), printer);
    }

    /// Adds the value to the fingerprint, and appends it to `out` as a line of LDIF.
    #[inline]
    pub(crate) fn record(&self, out: &mut Vec<u8>, printer: &mut Fingerprinter) {
        self.add(self.description.record(self.at, self.bytes, out, true), printer);
    }

    #[inline]
    fn add(&self, hash: u128, printer: &mut Fingerprinter) {
        if self.single {
            printer.add_single(hash);
        } else {
            printer.add(hash);
        }
    }
}

impl Entry<'_> {
    /// Appends the entry as LDIF, and returns its fingerprint.
    #[inline]
    pub(crate) fn record(&self, text: &mut Vec<u8>, printer: &mut Fingerprinter) -> Result<u128> {
        line(text, b"dn", &self.place.dn);
        let values = text.len();
        self.each(|value| {
            if let Some(value) = value {
                value.record(text, printer);
            } else {
                text.truncate(values);
                printer.begin();
            }
        })?;
        text.push(b'\n');
        Ok(printer.end(&self.place.dn).combined())
    }

    /// Appends the entry as LDIF. Calls `ended` after each line, with the offset at which the line starts.
    #[inline]
    pub(crate) fn ldif(&self, text: &mut Vec<u8>, ended: impl Fn(&mut Vec<u8>, usize)) -> Result<()> {
        let start = text.len();
        line(text, b"dn", &self.place.dn);
        ended(text, start);
        let values = text.len();
        self.each(|value| match value {
            Some(value) => {
                let start = text.len();
                value.description.line(value.bytes, text);
                ended(text, start);
            }
            None => text.truncate(values),
        })?;
        text.push(b'\n');
        Ok(())
    }

    /// Calls `see` for every value. All values of an attribute are passed together, because slapd 2.6.11 to 2.6.14
    /// corrupt entries that are loaded with the values apart. The first call passes `None`. If an attribute turns out
    /// to be stored in several places, `None` is passed again, and the caller must discard the values so far.
    #[inline]
    pub(crate) fn each(&self, mut see: impl FnMut(Option<&Value<'_>>)) -> Result<()> {
        self.shown(&mut see).map_err(|error| {
            let message = format!("entry {}: {}", self.id, error.message);
            Error { message, ..error }
        })
    }

    #[inline]
    fn shown(&self, see: &mut impl FnMut(Option<&Value<'_>>)) -> Result<()> {
        let (mut met, mut scattered) = (SeenDescriptions::default(), false);
        see(None);
        id2e::each(self.value, damaged_entry, |stored| {
            scattered = scattered || (met.add(stored.number) && self.has_repeated_number());
            if scattered { Ok(()) } else { self.attribute(stored, false, see) }
        })?;
        if scattered { self.together(see) } else { Ok(()) }
    }

    #[cold]
    fn has_repeated_number(&self) -> bool {
        let mut numbers: Vec<_> = id2e::numbers(self.value).collect();
        numbers.sort_unstable();
        numbers.windows(2).any(|pair| pair[0] == pair[1])
    }

    #[cold]
    fn together(&self, see: &mut impl FnMut(Option<&Value<'_>>)) -> Result<()> {
        see(None);
        let all = id2e::attributes(self.value).and_then(Iterator::collect);
        let mut all: Vec<_> = all.ok_or_else(damaged_entry)?;
        bring_together(&mut all);
        all.iter().try_for_each(|stored| self.attribute(stored, true, see))
    }

    #[allow(clippy::inline_always, reason = "as with the attribute that is shown")]
    #[inline(always)]
    fn attribute(&self, stored: &Stored<'_>, scattered: bool, see: &mut impl FnMut(Option<&Value<'_>>)) -> Result<()> {
        let number = stored.number;
        let description = self
            .descriptions
            .get(number)
            .ok_or_else(|| Error::damaged(format!("no attribute has the number {number} (table id2e)")))?;
        if stored.apart {
            return self.apart(stored, description, see);
        }
        let single = stored.count == 1 && !scattered && self.descriptions.distinct;
        let mut at = 0;
        stored.each_value(|bytes| {
            see(Some(&Value { description, bytes, at, single }));
            at += 1;
        });
        Ok(())
    }

    /// Passes the values in id2v. As in slapd, the entry is corrupt if their number differs from the recorded number.
    fn apart(
        &self,
        stored: &Stored<'_>,
        description: &Description,
        see: &mut impl FnMut(Option<&Value<'_>>),
    ) -> Result<()> {
        let wrong = |what: &str| {
            let name = String::from_utf8_lossy(description.text());
            Error::damaged(format!("{what} of {name} (table id2v)"))
        };
        let table = self.id2v.ok_or_else(|| wrong("the table with the values is missing"))?;
        #[allow(clippy::cast_possible_truncation, reason = "back-mdb keeps 16 bits of it")]
        let number = stored.number as u16;
        let key = id2v::key(self.id, number);
        let (mut cursor, mut count) = (table.cursor()?, 0);
        cursor.seek(&key)?;
        while let Some((_, row)) = cursor.next()?.filter(|(at, _)| *at == key) {
            let (_, bytes) = id2v::read_row(row, stored.has_normals).ok_or_else(|| wrong("a damaged value"))?;
            see(Some(&Value { description, bytes, at: count as usize, single: false }));
            count += 1;
        }
        if count == stored.count {
            return Ok(());
        }
        Err(wrong(&format!("{count} values instead of {}", stored.count)))
    }
}

/// A bitmap of the attribute numbers seen so far, indexed by their low 9 bits. A clear bit means that the number is
/// new; a set bit may belong to another number.
#[derive(Debug, Default)]
struct SeenDescriptions([u64; 8]);

impl SeenDescriptions {
    /// Sets the bit of `number`, and returns whether it was already set.
    #[inline]
    fn add(&mut self, number: u32) -> bool {
        let (word, bit) = (&mut self.0[number as usize / 64 % 8], 1 << (number % 64));
        let there = *word & bit != 0;
        *word |= bit;
        there
    }
}

/// Reorders attributes: all attributes with the same number are moved to the position of the first of them.
fn bring_together(all: &mut [Stored<'_>]) {
    let mut firsts = FxHashMap::default();
    for (at, one) in all.iter().enumerate() {
        firsts.entry(one.number).or_insert(at);
    }
    all.sort_by_key(|one| firsts.get(&one.number).copied());
}
