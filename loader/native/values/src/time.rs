//! Parses Generalized Time (RFC 4517, 3.3.13) as slapd does (`servers/slapd/schema_init.c`).

use crate::{InvalidValue, Result};

const REFUSAL: InvalidValue = InvalidValue::new("not a valid Generalized Time");

/// Exclusive upper bounds of century, year, month, day, hour, minute and second. Months and days count from 0.
const CEILINGS: [i8; 7] = [100, 100, 12, 31, 24, 60, 60];
const MONTH: usize = 2;
const DAY: usize = 3;
const HOUR: usize = 4;
const MINUTE: usize = 5;
const SECOND: usize = 6;

pub fn check(value: &[u8]) -> Result<()> {
    Time::read(value).map(|_| ()).ok_or(REFUSAL)
}

/// Checks a time of slapo-accesslog, which must be in UTC.
pub fn check_logged(value: &[u8]) -> Result<()> {
    check(value)?;
    InvalidValue::unless(value.ends_with(b"Z"), "not a Generalized Time in UTC")
}

/// Does the same as [`normalise`], but keeps zeros at the end of the fraction, which distinguish log entries
/// (`overlays/accesslog.c`).
pub fn normalise_logged(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    check_logged(value)?;
    let Time { parts, .. } = Time::read(value).ok_or(REFUSAL)?;
    let fraction = value.iter().position(|byte| matches!(byte, b'.' | b','));
    let fraction = fraction.map_or(&[][..], |at| &value[at + 1..value.len() - 1]);
    write(Time { parts, fraction }, out);
    Ok(())
}

/// Appends a time as `YYYYmmddHHMMSS[.f]Z`. Like slapd, copies the digits of a fraction of an hour or minute as if they
/// were a fraction of a second.
pub fn normalise(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    write(Time::read(value).ok_or(REFUSAL)?, out);
    Ok(())
}

fn write(Time { parts, fraction }: Time<'_>, out: &mut Vec<u8>) {
    for (at, part) in parts.into_iter().enumerate() {
        let part = part.unsigned_abs() + u8::from(at == MONTH || at == DAY);
        out.extend_from_slice(&[b'0' + part / 10, b'0' + part % 10]);
    }
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    out.push(b'Z');
}

struct Time<'a> {
    parts: [i8; 7],
    /// Digits of the fraction, without trailing zeros.
    fraction: &'a [u8],
}

impl<'a> Time<'a> {
    fn read(value: &'a [u8]) -> Option<Self> {
        let mut rest = value;
        let mut parts = [0; 7];
        let mut count = 0;
        while count < parts.len() && rest.first().is_some_and(u8::is_ascii_digit) {
            let leap_second = i8::from(count == SECOND);
            parts[count] = part(&mut rest, count, CEILINGS[count] + leap_second)?;
            count += 1;
        }
        let days = days_of_months(parts);
        if count <= HOUR || parts[DAY] >= days[usize::try_from(parts[MONTH]).ok()?] {
            return None;
        }
        let fraction = fraction(&mut rest)?;
        let (&zone, rest) = rest.split_first()?;
        let time = Self { parts, fraction };
        match zone {
            b'Z' => rest.is_empty().then_some(time),
            b'+' => time.shifted(-1, rest, &days),
            b'-' => time.shifted(1, rest, &days),
            _ => None,
        }
    }

    /// Adds or subtracts the offset `HH[MM]` that begins `rest`.
    fn shifted(mut self, sign: i8, mut rest: &[u8], days: &[i8; 12]) -> Option<Self> {
        self.parts[HOUR] += sign * part(&mut rest, HOUR, CEILINGS[HOUR])?;
        if rest.first().is_some_and(u8::is_ascii_digit) {
            self.parts[MINUTE] += sign * part(&mut rest, MINUTE, CEILINGS[MINUTE])?;
        }
        for at in (0..=MINUTE).rev() {
            let month = self.parts[MONTH];
            let ceiling = match at {
                DAY if sign > 0 => days[usize::try_from(month).ok()?],
                DAY => days[usize::try_from((month + 11) % 12).ok()?],
                _ => CEILINGS[at],
            };
            let carry = if sign > 0 { i8::from(self.parts[at] >= ceiling) } else { -i8::from(self.parts[at] < 0) };
            if carry != 0 {
                self.parts[at] -= carry * ceiling;
                *self.parts.get_mut(at.checked_sub(1)?)? += carry;
            } else if at != MINUTE {
                break;
            }
        }
        rest.is_empty().then_some(self)
    }
}

/// Consumes two digits. Returns their value, less 1 for a month or day, if the result is below `ceiling`.
fn part(rest: &mut &[u8], at: usize, ceiling: i8) -> Option<i8> {
    let (&[tens, ones], tail) = rest.split_first_chunk()?;
    if !tens.is_ascii_digit() || !ones.is_ascii_digit() {
        return None;
    }
    *rest = tail;
    let first = i8::from(at == MONTH || at == DAY);
    let part = i8::try_from((tens - b'0') * 10 + (ones - b'0')).ok()? - first;
    (0..ceiling).contains(&part).then_some(part)
}

/// Consumes a fraction, if there is one: `.` or `,` and digits. Returns the digits.
fn fraction<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let Some((b'.' | b',', tail)) = rest.split_first() else { return Some(&[]) };
    let length = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, tail) = tail.split_at(length);
    *rest = tail;
    let zeros = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    (length > 0).then(|| &digits[..length - zeros])
}

fn days_of_months(parts: [i8; 7]) -> [i8; 12] {
    let [century, year, ..] = parts;
    let leap = if year == 0 { century % 4 == 0 } else { year % 4 == 0 };
    [31, 28 + i8::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}
