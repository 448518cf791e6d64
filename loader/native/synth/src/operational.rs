//! What slapd would make up anew for each load: with these in the LDIF two builds are equal.

use crate::draw::{Stream, again, below, unit};
use crate::model::Operational;
use crate::tags::digits::{decimal, hexadecimal};
use crate::tags::time::stamp;
use crate::tags::write_uuid;

#[derive(Debug)]
pub struct Clock {
    when: Operational,
    /// creatorsName and modifiersName, as lines.
    names: Vec<u8>,
    uuid: Stream,
    times: Stream,
    entries: u64,
}

/// Microseconds to a second.
const MICROS: u64 = 1_000_000;
/// Of entries that were never changed.
const UNCHANGED: f64 = 0.4;

impl Clock {
    pub fn new(when: Operational, suffix: &str, seed: i64, entries: u64) -> Self {
        let mut names = Vec::new();
        let admin = format!("cn=admin,{suffix}");
        for attribute in ["creatorsName", "modifiersName"] {
            ldif::write::line(&mut names, attribute.as_bytes(), admin.as_bytes());
        }
        let stream = |name| Stream::new(seed, &["operational", name]);
        Self { when, names, uuid: stream("entryUUID"), times: stream("times"), entries }
    }

    /// Bytes of all its lines, at most.
    pub fn most(&self) -> u64 {
        self.names.len() as u64 + 250
    }

    /// Appends the lines of entry `number` of the tree.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let (created, modified) = self.times(number);
        out.extend_from_slice(b"entryUUID: ");
        write_uuid(out, self.uuid.at(number));
        out.push(b'\n');
        out.extend_from_slice(&self.names);
        out.extend_from_slice(b"createTimestamp: ");
        stamp(out, created);
        out.extend_from_slice(b"Z\nmodifyTimestamp: ");
        stamp(out, modified);
        out.extend_from_slice(b"Z\nentryCSN: ");
        stamp(out, modified);
        // Whatever the second, the rest is another for each entry.
        out.push(b'.');
        decimal(out, number % MICROS, 6);
        out.extend_from_slice(b"Z#");
        let turn = if matches!(self.when, Operational::Load { .. }) { 0 } else { number / MICROS };
        hexadecimal(out, turn, 6);
        out.extend_from_slice(b"#000#000000\n");
    }

    /// Seconds since 1970 of the creation and of the last change.
    fn times(&self, number: u64) -> (i64, i64) {
        match self.when {
            Operational::Load { from } => {
                let now = from.saturating_add_unsigned(number / MICROS);
                (now, now)
            }
            Operational::Years { from, to } => self.grown(from, to, number),
        }
    }

    /// Entries came one after another, evenly; a change is likelier short ago.
    #[allow(clippy::cast_possible_truncation, reason = "less than the span")]
    fn grown(&self, from: i64, to: i64, number: u64) -> (i64, i64) {
        let span = from.abs_diff(to);
        let bits = self.times.at(number);
        let place = (u128::from(number) << 64) + u128::from(bits);
        let all = u128::from(self.entries.max(1));
        let created =
            from.saturating_add_unsigned(((u128::from(span) * (place / all)) >> 64) as u64);
        if unit(again(bits, 1)) < UNCHANGED {
            return (created, created);
        }
        let late = again(bits, 2).max(again(bits, 3));
        let rest = created.abs_diff(to) + 1;
        (created, created.saturating_add_unsigned(below(late, rest)))
    }
}
