//! What is known of an attribute description that comes in every entry.

use ldif::write::{is_safe, line, line_in_base64};

use crate::fingerprint::hash_text;
use crate::names::Names;

/// Bytes that are copied for the beginning of a line, longer or not: a copy of known size is a few instructions.
const SHORT: usize = 32;

/// One attribute description, options included.
#[derive(Debug, Clone)]
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
    /// Stands in base64, so that nobody reads it in passing; so does slapcat's.
    veiled: bool,
    pub stamp: Option<Stamp>,
}

/// Attributes that tell what an entry is, and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    EntryUuid,
    EntryCsn,
    HasSubordinates,
}

impl Description {
    /// `None` where `text` is no description (RFC 4512, 2.5).
    pub fn learn(text: &[u8], drop: &Names, ignore: &Names) -> Option<Self> {
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-;._".contains(byte);
        if text.is_empty() || !text.iter().all(letter) {
            return None;
        }
        let mut prefix = [text, b": "].concat();
        prefix.resize(prefix.len().max(SHORT), 0);
        let base = text.split(|&byte| byte == b';').next().unwrap_or_default();
        let is = |name: &[u8]| base.eq_ignore_ascii_case(name);
        Some(Self {
            prefix,
            length: text.len(),
            hash: hash_text(text, &mut Vec::new()),
            dropped: drop.contain(base),
            ignored: ignore.contain(base),
            veiled: is(b"userPassword"),
            stamp: match () {
                () if is(b"entryUUID") => Some(Stamp::EntryUuid),
                () if is(b"entryCSN") => Some(Stamp::EntryCsn),
                () if is(b"hasSubordinates") => Some(Stamp::HasSubordinates),
                () => None,
            },
        })
    }

    pub fn text(&self) -> &[u8] {
        &self.prefix[..self.length]
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
