//! The marks of a file that was cut between two lines, where its syntax alone cannot tell.

use crate::{Code, Error, Field, Record, Result};

/// Show it every record and its fields, then ask once at the end of each file.
#[derive(Debug, Default)]
pub struct TruncationDetector {
    records: u64,
    /// For each of [`STAMPS`]: have all records before the current one had it?
    always: [bool; 2],
    current: LastRecord,
}

/// Every entry that a server wrote out whole has these, near its end.
pub const STAMPS: [&str; 2] = ["entryCSN", "modifyTimestamp"];

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

    /// Ends a file and starts anew.
    pub fn end(&mut self) -> Result<()> {
        let this = std::mem::take(self);
        let last = &this.current;
        if this.records == 0 {
            return Ok(());
        }
        let missing = [0, 1].map(|at| !last.closed && this.always[at] && !last.stamps[at]);
        judge(last.fields == 0, missing)
            .map_err(|error| error.at(last.line).of_entry(Some(&last.dn)))
    }
}

/// Was a file cut whose last record is `empty`, or which alone lacks one of [`STAMPS`]?
pub fn judge(empty: bool, missing: [bool; 2]) -> Result<()> {
    let stamp = STAMPS.iter().zip(missing).find(|(_, missing)| *missing);
    let message = match stamp {
        _ if empty => "the last record has a DN and nothing else".to_owned(),
        Some((stamp, _)) => format!("the last record alone has no {stamp}"),
        None => return Ok(()),
    };
    Err(Error::new(Code::Truncated, message))
}
