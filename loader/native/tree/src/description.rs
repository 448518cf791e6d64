//! Attribute descriptions, with values cached from entry to entry.

use std::cell::RefCell;

use ldif::write::{is_safe, line, line_in_base64};

use crate::fingerprint::{hash_text, hash_value};
use crate::names::Names;

/// Number of bytes that are copied for a prefix, even if it is shorter: copying a constant size takes few instructions.
const COPIED: usize = 32;

/// Maximum number of cached values per attribute: the many members of a group do not recur in the next entry.
const MOST_CACHED: usize = 8;

const BINARY: &[u8] = b";binary";

/// Number of consecutive cache misses after which an attribute is no longer cached: its values seem to be unique.
const MOST_MISSES: usize = 16;

/// An attribute description with its options.
#[derive(Debug)]
pub struct Description {
    /// The description and `: `, padded to at least `COPIED` bytes.
    prefix: Vec<u8>,
    length: usize,
    /// Hash that is the same for all spellings of the description.
    pub hash: u64,
    /// Whether the attribute is omitted from the output.
    pub dropped: bool,
    /// Whether the attribute is omitted from fingerprints.
    pub ignored: bool,
    /// Whether every value is written in base64, as slapcat does (ldif.c, `ldif_must_b64_encode` and `;binary`):
    /// passwords, so that nobody reads them by chance, and binary attributes, even if a value is text.
    in_base64: bool,
    pub stamp: Option<IdentityAttributes>,
    cache: RefCell<LineCache>,
}

/// Values that consecutive entries are likely to share.
#[derive(Debug, Default)]
struct LineCache {
    /// Cached values, indexed by their position among the attribute's values.
    values: Vec<CachedValue>,
    /// Number of consecutive values that were not in the cache.
    misses: usize,
}

/// The last value at a position, with its line and hash. The next entry is likely to have the same value
/// (`objectClass`, `creatorsName`).
#[derive(Debug, Default)]
struct CachedValue {
    value: Vec<u8>,
    line: Vec<u8>,
    hash: u128,
}

impl Description {
    /// Prepares a description for writing. Returns `None` if `text` is not a description (RFC 4512, 2.5).
    pub fn learn(text: &[u8], drop: &Names, ignore: &Names) -> Option<Self> {
        let mut prefix = [text, b": "].concat();
        prefix.resize(prefix.len().max(COPIED), 0);
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
            dropped: drop.has_name(base),
            ignored: ignore.has_name(base),
            in_base64: is(b"userPassword") || text.windows(BINARY.len()).any(|at| at == BINARY),
            stamp: match () {
                () if is(b"entryUUID") => Some(IdentityAttributes::EntryUuid),
                () if is(b"entryCSN") => Some(IdentityAttributes::EntryCsn),
                () if is(b"hasSubordinates") => Some(IdentityAttributes::HasSubordinates),
                () => None,
            },
            cache: RefCell::default(),
        })
    }

    pub fn text(&self) -> &[u8] {
        &self.prefix[..self.length]
    }

    /// Appends the line of a value, and returns the value's hash, or 0 if no caller is `hashed`. `place` is the value's
    /// position among the attribute's values.
    #[inline]
    pub fn record(&self, place: usize, value: &[u8], out: &mut Vec<u8>, hashed: bool) -> u128 {
        let mut cache = self.cache.borrow_mut();
        if let Some(cached) = cache.values.get(place).filter(|cached| cached.value == value) {
            out.extend_from_slice(&cached.line);
            let hash = cached.hash;
            cache.misses = 0;
            return hash;
        }
        let start = out.len();
        self.line(value, out);
        let hash = if hashed { hash_value(self.hash, value) } else { 0 };
        if cache.misses < MOST_MISSES && place < MOST_CACHED {
            cache.remember(place, value, &out[start..], hash);
        }
        hash
    }

    /// Appends a line of LDIF.
    #[inline]
    pub fn line(&self, value: &[u8], out: &mut Vec<u8>) {
        if self.in_base64 || !is_safe(value) {
            return line_in_base64(out, self.text(), value);
        }
        if value.is_empty() {
            return line(out, self.text(), value);
        }
        let end = out.len() + self.length + 2;
        match self.prefix.first_chunk::<COPIED>() {
            Some(short) if self.length + 2 <= COPIED => out.extend_from_slice(short),
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
        if self.misses == MOST_MISSES {
            return self.values.clear();
        }
        if self.values.len() == place {
            self.values.push(CachedValue::default());
        }
        let Some(cached) = self.values.get_mut(place) else { return };
        cached.value.clear();
        cached.value.extend_from_slice(value);
        cached.line.clear();
        cached.line.extend_from_slice(line);
        cached.hash = hash;
    }
}

/// Attributes that identify an entry or say whether it has children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityAttributes {
    EntryUuid,
    EntryCsn,
    HasSubordinates,
}
