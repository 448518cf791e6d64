//! Edits records for slapadd: removes some attributes and copies the rest.

use std::ops::Range;

use common::Result;
use ldif::{Field, Record};

use crate::fingerprint::hash_description;
use crate::names::{Aliases, Names};

/// Copies records, and reuses its buffers from record to record.
///
/// The values of an attribute are grouped, because slapd 2.6.11 to 2.6.14 corrupt an entry with other lines between
/// them. `changetype: add` is removed, because slapadd takes it for an attribute.
#[derive(Debug, Default)]
pub struct Editor {
    drop: Names,
    aliases: Aliases,
    /// The lines to keep: for each its index in `descriptions`, and its range in the record.
    lines: Vec<(usize, Range<usize>)>,
    descriptions: Vec<u64>,
    /// Whether the copy must differ from the record.
    edited: bool,
    lower: Vec<u8>,
}

impl Editor {
    pub fn new(drop: Names) -> Self {
        Self { drop, ..Self::default() }
    }

    /// Also groups values that are under different names of one attribute type.
    #[must_use]
    pub fn with_aliases(self, aliases: Aliases) -> Self {
        Self { aliases, ..self }
    }

    /// Appends the record, the lines `extra` and a blank line.
    pub fn copy(&mut self, record: &Record<'_>, extra: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.begin();
        for field in record.entry()?.fields {
            let field = field?;
            let description = hash_description(&field, &mut self.lower);
            self.see(&field, description);
        }
        self.end(record, extra, out)
    }

    /// Begins a record whose fields the caller reads. The caller then calls `see` with every field, and `end`.
    pub fn begin(&mut self) {
        self.lines.clear();
        self.descriptions.clear();
        self.edited = false;
    }

    pub fn see(&mut self, field: &Field<'_>, description: u64) {
        if self.drop.has_field(field) {
            self.edited = true;
            return;
        }
        let description = self.aliases.hash(field, description);
        let previous = self.lines.last().map(|(index, _)| *index);
        let found = self.descriptions.iter().rposition(|index| *index == description);
        // Lines with other descriptions are between this value and the previous one.
        self.edited |= found.is_some() && found != previous;
        let index = found.unwrap_or(self.descriptions.len());
        if found.is_none() {
            self.descriptions.push(description);
        }
        self.lines.push((index, field.span.clone()));
    }

    pub fn end(&mut self, record: &Record<'_>, extra: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let entry = record.entry()?;
        if self.edited || entry.change {
            self.lines.sort_by_key(|(index, _)| *index);
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
