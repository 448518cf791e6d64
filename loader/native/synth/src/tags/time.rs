//! Times as generalizedTime (RFC 4517, 3.3.13), in UTC.

use time::OffsetDateTime;

use super::Made;
use super::digits::pair;
use crate::draw::{again, below};

/// 9999-12-31, the last day that has four digits of a year.
const LAST: i64 = 253_402_300_799;
/// 0000-01-01.
const FIRST: i64 = -62_167_219_200;

/// Seconds since 1970, both included.
pub fn between(from: i64, to: i64) -> Result<Made, String> {
    if from < FIRST || to > LAST || from > to {
        return Err("the times must be of years 0 to 9999, the earlier one first".to_owned());
    }
    Ok(Made::Time { from, seconds: from.abs_diff(to) + 1 })
}

/// Appends the later one of two times, so that recent ones are likelier.
pub fn write(from: i64, seconds: u64, bits: u64, out: &mut Vec<u8>) {
    let later = bits.max(again(bits, 1));
    stamp(out, from.saturating_add_unsigned(below(later, seconds)));
    out.push(b'Z');
}

/// Appends the fourteen digits of a time of years 0 to 9999.
pub fn stamp(out: &mut Vec<u8>, seconds: i64) {
    let time = OffsetDateTime::from_unix_timestamp(seconds.clamp(FIRST, LAST))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
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
    for (place, part) in parts.into_iter().enumerate() {
        text[place * 2..place * 2 + 2].copy_from_slice(&pair(part));
    }
    out.extend_from_slice(&text);
}

/// Seconds since 1970 of `YYYYMMDD` or `YYYYMMDDhhmmss`, in UTC.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in ["19700101000000", "20260101000000", "20240229235959", "00000101000000"] {
            let mut out = Vec::new();
            stamp(&mut out, parse(text).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert_eq!(parse("20260101"), Some(crate::model::LOADED));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in ["", "2026", "20261301", "20260230", "2026010x", "20260101240000"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
