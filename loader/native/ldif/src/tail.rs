//! Detects files that were truncated between two lines, where the syntax alone is valid.

use crate::{Code, Error, Field, Record, Result};

/// Detects truncated files. Pass it each record with its fields, and call [`Self::end`] at the end of each file.
#[derive(Debug, Default)]
pub struct TruncationDetector {
    records: u64,
    /// Whether all records before the current one had each of the [`STAMPS`].
    always: [bool; 2],
    current: LastRecord,
}

/// Attributes that every complete entry of a server has near its end.
pub const STAMPS: [&str; 2] = ["entryCSN", "modifyTimestamp"];

const EMPTY: &str = "the last record has a DN and nothing else";

/// Minimum length in bytes of a line that may have a continuation: OpenLDAP folds at 76 columns (`LDIF_LINE_WIDTH`).
const FOLDED: usize = 76;

#[derive(Debug, Default)]
struct LastRecord {
    line: u64,
    dn: Vec<u8>,
    closed: bool,
    fields: u64,
    stamps: [bool; 2],
}

impl TruncationDetector {
    pub fn record(&mut self, record: &Record<'_>, dn: &[u8]) {
        for (always, had) in self.always.iter_mut().zip(self.current.stamps) {
            *always = had && (*always || self.records == 1);
        }
        self.records += 1;
        self.current.line = record.line;
        self.current.closed = record.closed;
        self.current.dn.clear();
        self.current.dn.extend_from_slice(dn);
        self.current.fields = 0;
        self.current.stamps = [false; 2];
    }

    pub fn field(&mut self, field: &Field<'_>) {
        self.current.fields += 1;
        for (had, stamp) in self.current.stamps.iter_mut().zip(STAMPS) {
            *had |= field.is(stamp);
        }
    }

    /// Ends a file; returns an error if the file was truncated. The next record belongs to another file.
    pub fn end(&mut self) -> Result<()> {
        let this = std::mem::take(self);
        let last = &this.current;
        if this.records == 0 {
            return Ok(());
        }
        let located = |error: Error| error.at(last.line).of_entry(Some(&last.dn));
        if last.closed && last.fields == 0 {
            return Err(located(Error::new(Code::Syntax, EMPTY)));
        }
        let missing = [0, 1].map(|at| !last.closed && this.always[at] && !last.stamps[at]);
        judge(last.fields == 0, missing).map_err(located)
    }
}

/// Whether the input ends in the middle of a line of this record. `open_end` means that the last line has no line end.
pub fn is_cut(record: &Record<'_>, open_end: bool) -> bool {
    if !record.last || record.closed {
        return false;
    }
    match record.fields().last() {
        Some(Ok(field)) => field.lacks_base64() && (open_end || field.span.len() >= FOLDED),
        Some(Err(error)) if open_end && error.code == Code::Syntax => {
            record.entry().is_ok() || b"dn".starts_with(record.bytes.trim_ascii_end())
        }
        _ => false,
    }
}

/// Returns an error for a truncated file: its last record is `empty`, or is the only one without one of the [`STAMPS`].
pub fn judge(empty: bool, missing: [bool; 2]) -> Result<()> {
    let stamp = STAMPS.iter().zip(missing).find(|(_, missing)| *missing);
    let message = match stamp {
        _ if empty => EMPTY.to_owned(),
        Some((stamp, _)) => format!("the last record alone has no {stamp}"),
        None => return Ok(()),
    };
    Err(Error::new(Code::Truncated, message))
}
