//! What is known of an attribute description that comes in every entry.

use std::cell::RefCell;

use ldif::write::{is_safe, line, line_in_base64};

use crate::fingerprint::{hash_text, hash_value};
use crate::names::Names;

/// Bytes that are copied for the beginning of a line, longer or not: a copy of known size is a few instructions.
const SHORT: usize = 32;

/// Values of an attribute that are remembered; of a group's members the next entry has none.
const PLACES: usize = 8;

const BINARY: &[u8] = b";binary";

/// So many other values in a row, and the attribute is taken for one that differs from entry to entry.
const MISSES: usize = 16;

/// One attribute description, options included.
#[derive(Debug)]
pub struct Description {
    /// The text, `: `, and at least as many bytes as are copied.
    prefix: Vec<u8>,
    length: usize,
    /// The same for all spellings.
    pub hash: u64,
    /// Not wanted at all.
    pub dropped: bool,
    /// Does not count in fingerprints.
    pub ignored: bool,
    /// Every value stands in base64, as slapcat has it (ldif.c, `ldif_must_b64_encode` and `;binary`): passwords, so that
    /// nobody reads them in passing, and whatever is binary, even where it happens to be text.
    veiled: bool,
    pub stamp: Option<IdentityAttributes>,
    memory: RefCell<LineCache>,
}

/// What entries are likely to have in common.
#[derive(Debug, Default)]
struct LineCache {
    /// By place among the attribute's values.
    usual: Vec<CachedValue>,
    /// Values in a row that were not the usual ones.
    misses: usize,
}

/// The last value at a place, which the next entry is likely to have too (`objectClass`, `creatorsName`), and what
/// was made of it.
#[derive(Debug, Default)]
struct CachedValue {
    value: Vec<u8>,
    line: Vec<u8>,
    hash: u128,
}

impl Description {
    /// `None` where `text` is no description (RFC 4512, 2.5).
    pub fn learn(text: &[u8], drop: &Names, ignore: &Names) -> Option<Self> {
        let mut prefix = [text, b": "].concat();
        prefix.resize(prefix.len().max(SHORT), 0);
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-;._".contains(byte);
        if text.is_empty() || !text.iter().all(letter) {
            return None;
        }
        let base = text.split(|&byte| byte == b';').next().unwrap_or_default();
        let is = |name: &[u8]| base.eq_ignore_ascii_case(name);
        Some(Self {
            prefix,
            length: text.len(),
            hash: hash_text(text, &mut Vec::new()),
            dropped: drop.contain(base),
            ignored: ignore.contain(base),
            veiled: is(b"userPassword") || text.windows(BINARY.len()).any(|at| at == BINARY),
            stamp: match () {
                () if is(b"entryUUID") => Some(IdentityAttributes::EntryUuid),
                () if is(b"entryCSN") => Some(IdentityAttributes::EntryCsn),
                () if is(b"hasSubordinates") => Some(IdentityAttributes::HasSubordinates),
                () => None,
            },
            memory: RefCell::default(),
        })
    }

    pub fn text(&self) -> &[u8] {
        &self.prefix[..self.length]
    }

    /// Appends the line of the value at a place, and tells the value's hash.
    #[inline]
    pub fn record(&self, place: usize, value: &[u8], out: &mut Vec<u8>) -> u128 {
        let mut memory = self.memory.borrow_mut();
        if let Some(usual) = memory.usual.get(place).filter(|usual| usual.value == value) {
            out.extend_from_slice(&usual.line);
            let hash = usual.hash;
            memory.misses = 0;
            return hash;
        }
        let start = out.len();
        self.line(value, out);
        let hash = hash_value(self.hash, value);
        if memory.misses < MISSES && place < PLACES {
            memory.remember(place, value, &out[start..], hash);
        }
        hash
    }

    /// Appends a line of LDIF.
    #[inline]
    pub fn line(&self, value: &[u8], out: &mut Vec<u8>) {
        if self.veiled || !is_safe(value) {
            return line_in_base64(out, self.text(), value);
        }
        if value.is_empty() {
            return line(out, self.text(), value);
        }
        let end = out.len() + self.length + 2;
        match self.prefix.first_chunk::<SHORT>() {
            Some(short) if self.length + 2 <= SHORT => out.extend_from_slice(short),
            _ => out.extend_from_slice(&self.prefix),
        }
        out.truncate(end);
        out.extend_from_slice(value);
        out.push(b'\n');
    }
}

impl LineCache {
    fn remember(&mut self, place: usize, value: &[u8], line: &[u8], hash: u128) {
        self.misses += 1;
        if self.misses == MISSES {
            return self.usual.clear();
        }
        if self.usual.len() == place {
            self.usual.push(CachedValue::default());
        }
        let Some(usual) = self.usual.get_mut(place) else { return };
        usual.value.clear();
        usual.value.extend_from_slice(value);
        usual.line.clear();
        usual.line.extend_from_slice(line);
        usual.hash = hash;
    }
}

/// Attributes that tell what an entry is, and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityAttributes {
    EntryUuid,
    EntryCsn,
    HasSubordinates,
}
