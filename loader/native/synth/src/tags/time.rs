//! Times as generalizedTime (RFC 4517, 3.3.13) in UTC, and the operational attributes that need them.

use time::OffsetDateTime;

use super::digits::{decimal, hexadecimal, pair};
use super::{CompiledTag, write_uuid};
use crate::draw::{Stream, again, below, unit};
use crate::model::Operational;

/// The last second of the year 9999, because later years have more than four digits.
const LAST: i64 = 253_402_300_799;
/// The time 0000-01-01.
const FIRST: i64 = -62_167_219_200;

/// Compiles a range of times in seconds since 1970, both bounds included.
pub fn between(from: i64, to: i64) -> Result<CompiledTag, String> {
    if from < FIRST || to > LAST || from > to {
        return Err("the times must be in the years 0 to 9999, the earlier time first".to_owned());
    }
    Ok(CompiledTag::Time { from, seconds: from.abs_diff(to) + 1 })
}

/// Appends the later of two random times, so that recent times are likelier.
pub fn write(from: i64, seconds: u64, bits: u64, out: &mut Vec<u8>) {
    let later = bits.max(again(bits, 1));
    stamp(out, from.saturating_add_unsigned(below(later, seconds)));
    out.push(b'Z');
}

/// Appends a time in the years 0 to 9999 as fourteen digits.
fn stamp(out: &mut Vec<u8>, seconds: i64) {
    let time = OffsetDateTime::from_unix_timestamp(seconds.clamp(FIRST, LAST)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    let year = usize::try_from(year).unwrap_or(0);
    let mut text = [0; 14];
    let parts = [
        year / 100,
        year % 100,
        usize::from(u8::from(month)),
        usize::from(day),
        usize::from(hour),
        usize::from(minute),
        usize::from(second),
    ];
    for (digits, part) in text.chunks_exact_mut(2).zip(parts) {
        digits.copy_from_slice(&pair(part));
    }
    out.extend_from_slice(&text);
}

/// Parses `YYYYMMDD` or `YYYYMMDDhhmmss` in UTC into seconds since 1970.
pub fn parse(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z').unwrap_or(text);
    let whole = match digits.len() {
        8 => format!("{digits}000000"),
        14 => digits.to_owned(),
        _ => return None,
    };
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: std::ops::Range<usize>| whole[at].parse::<u16>().ok();
    let small = |at: usize| part(at..at + 2).and_then(|number| u8::try_from(number).ok());
    let month = time::Month::try_from(small(4)?).ok()?;
    let date = time::Date::from_calendar_date(i32::from(part(0..4)?), month, small(6)?).ok()?;
    let time = time::Time::from_hms(small(8)?, small(10)?, small(12)?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp())
}

/// Generates the operational attributes. If slapd generated them, each load would have other values, and two builds
/// would differ.
#[derive(Debug)]
pub struct Clock {
    when: Operational,
    /// The lines of creatorsName and modifiersName.
    names: Vec<u8>,
    uuid: Stream,
    times: Stream,
    entries: u64,
}

/// Microseconds per second.
const MICROS: u64 = 1_000_000;
/// Share of entries that were never changed after their creation.
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

    /// Returns the maximum size of the operational attributes of an entry, in bytes of LDIF.
    pub fn most(&self) -> u64 {
        self.names.len() as u64 + 250
    }

    /// Appends the operational attributes of entry `number`.
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
        // Different microseconds or change counts make the CSNs of entries differ if the seconds are the same.
        out.push(b'.');
        decimal(out, number % MICROS, 6);
        out.extend_from_slice(b"Z#");
        let turn = if matches!(self.when, Operational::Load { .. }) { 0 } else { number / MICROS };
        hexadecimal(out, turn, 6);
        out.extend_from_slice(b"#000#000000\n");
    }

    /// Returns the times of an entry's creation and last change, in seconds since 1970.
    fn times(&self, number: u64) -> (i64, i64) {
        match self.when {
            Operational::Load { from } => {
                let now = from.saturating_add_unsigned(number / MICROS);
                (now, now)
            }
            Operational::Years { from, to } => self.grown(from, to, number),
        }
    }

    /// Spreads the creation times evenly over the period. Recent changes are likelier.
    #[allow(clippy::cast_possible_truncation, reason = "less than the span")]
    fn grown(&self, from: i64, to: i64, number: u64) -> (i64, i64) {
        let span = from.abs_diff(to);
        let bits = self.times.at(number);
        // The time as a fraction of the period, times 2^64: a random point in the entry's equal share of the period.
        let fraction = ((u128::from(number) << 64) + u128::from(bits)) / u128::from(self.entries.max(1));
        let created = from.saturating_add_unsigned(((u128::from(span) * fraction) >> 64) as u64);
        if unit(again(bits, 1)) < UNCHANGED {
            return (created, created);
        }
        let late = again(bits, 2).max(again(bits, 3));
        let rest = created.abs_diff(to) + 1;
        (created, created.saturating_add_unsigned(below(late, rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn written_times_can_be_parsed() {
        for text in ["19700101000000", "20260101000000", "20240229235959", "00000101000000"] {
            let mut out = Vec::new();
            stamp(&mut out, parse(text).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert_eq!(parse("20260101"), Some(crate::model::LOADED));
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for wrong in ["", "2026", "20261301", "20260230", "2026010x", "20260101240000"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
