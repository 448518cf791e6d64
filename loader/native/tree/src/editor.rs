//! Records on their way to slapadd: some attributes left out, the rest untouched.

use std::ops::Range;

use common::Result;
use ldif::{Field, Record};

use crate::fingerprint::hash_description;
use crate::names::{Aliases, Names};

/// Copies records; keeps its buffers from one to the next.
///
/// Values of one attribute come out side by side: slapd 2.6.11 to 2.6.14 damage entries where they
/// do not. `changetype: add` is left out, since slapadd takes it for an attribute.
#[derive(Debug, Default)]
pub struct Editor {
    drop: Names,
    aliases: Aliases,
    /// Lines to be kept: which of `descriptions` it has, and where it stands in the record.
    lines: Vec<(usize, Range<usize>)>,
    descriptions: Vec<u64>,
    /// The record cannot be copied as it is.
    edited: bool,
    lower: Vec<u8>,
}

impl Editor {
    pub fn new(drop: Names) -> Self {
        Self { drop, ..Self::default() }
    }

    /// Values under these names come out side by side, too.
    #[must_use]
    pub fn with_aliases(self, aliases: Aliases) -> Self {
        Self { aliases, ..self }
    }

    /// Appends the record, then the lines `extra`, then a blank line.
    pub fn copy(&mut self, record: &Record<'_>, extra: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.begin();
        for field in record.entry()?.fields {
            let field = field?;
            let description = hash_description(&field, &mut self.lower);
            self.see(&field, description);
        }
        self.end(record, extra, out)
    }

    /// For those who read the fields anyway: `begin`, `see` every field, `end`.
    pub fn begin(&mut self) {
        self.lines.clear();
        self.descriptions.clear();
        self.edited = false;
    }

    pub fn see(&mut self, field: &Field<'_>, description: u64) {
        if self.drop.hold(field) {
            self.edited = true;
            return;
        }
        let description = self.aliases.hash(field, description);
        let previous = self.lines.last().map(|(known, _)| *known);
        let found = self.descriptions.iter().rposition(|known| *known == description);
        // A description that comes back after others: its values stand apart.
        self.edited |= found.is_some() && found != previous;
        let known = found.unwrap_or(self.descriptions.len());
        if found.is_none() {
            self.descriptions.push(description);
        }
        self.lines.push((known, field.span.clone()));
    }

    pub fn end(&mut self, record: &Record<'_>, extra: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let entry = record.entry()?;
        if self.edited || entry.change {
            self.lines.sort_by_key(|(known, _)| *known);
            out.extend_from_slice(&record.bytes[entry.dn_span]);
            for (_, line) in self.lines.drain(..) {
                out.extend_from_slice(&record.bytes[line]);
            }
        } else {
            out.extend_from_slice(record.bytes);
        }
        out.extend_from_slice(extra);
        out.push(b'\n');
        Ok(())
    }
}
