//! Index keys of integers and times, which have the same order as the values.

use super::Key;
use crate::{InvalidValue, Result, syntax};

/// slapd cuts off 7 decimal digits of a large number at a time, which add 3 bytes to the exponent.
const CHOP: (usize, usize) = (7, 3);

/// Returns the key for integerMatch: `length` bytes (`index_intlen`, 4 to 8) with the same order as the numbers. The
/// key of a large number has an exponent and only the number's leading bytes (`servers/slapd/schema_init.c`).
///
/// If the value is not an integer, slapd uses the number that C parses from the value. If this function cannot compute
/// that number, it refuses the value. On hosts with an unsigned C `char`, some large negative numbers have other keys.
///
/// # Panics
/// If `length` is not 4 to 8.
pub fn integer(value: &[u8], length: usize) -> Result<Key> {
    assert!((4..=8).contains(&length), "length of integer keys");
    let negative = value.first() == Some(&b'-');
    let limit = (8 * length - 1) * 146 / 485 + 3 - usize::from(!negative);
    if !syntax::is_integer(value) {
        let number = lenient(value).filter(|_| value.len() <= limit);
        let number = number.ok_or(InvalidValue::new("not an integer, and slapd's index key is not known"))?;
        let bytes = if negative { -number } else { number }.to_be_bytes();
        // slapd stores one byte for the zero in `-0`.
        let kept = if negative && number == 0 { &[0][..] } else { significant(&bytes) };
        return Ok(lay_out(kept, 0, length, negative));
    }
    let chops = (value.len().max(limit) - limit + 2) / CHOP.0;
    let number = parse(&value[..value.len() - chops * CHOP.0]).to_be_bytes();
    Ok(lay_out(significant(&number), chops * CHOP.1, length, negative))
}

/// Parses a value without its `-` as C does. slapd splits the value into parts of eight characters, of which the first
/// may be shorter, and passes each part to `strtol` (`lutil_str2bin` in `libraries/liblutil/utils.c`).
fn lenient(value: &[u8]) -> Option<i128> {
    let text = match value.strip_prefix(b"-") {
        Some([]) => return None,
        rest => rest.unwrap_or(value),
    };
    if text.iter().all(u8::is_ascii_digit) && text.len() <= 28 {
        return Some(parse(text));
    }
    let hexadecimal = matches!(value, [b'0', b'x' | b'X', _, ..] | [b'\'', .., b'H']);
    if hexadecimal || text.len() > 8 {
        return None;
    }
    let spaces = text.iter().take_while(|&&byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let number = text[spaces..].strip_prefix(b"+").unwrap_or(&text[spaces..]);
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // slapd terminates if the value has a second `-`.
    (number.first() != Some(&b'-')).then(|| parse(&number[..digits]))
}

/// Parses a decimal number of at most 28 characters.
fn parse(text: &[u8]) -> i128 {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let number = digits.iter().fold(0, |number, digit| number * 10 + i128::from(digit - b'0'));
    if digits.len() < text.len() { -number } else { number }
}

/// Drops leading zero bytes, or for a negative number leading FF bytes, unless that changes the sign.
fn significant(number: &[u8]) -> &[u8] {
    let is_filler = |pair: &[u8]| matches!(pair, [0xFF, 0x80..=0xFF]);
    let fillers = match number[0] {
        0xFF => number.windows(2).take_while(|pair| is_filler(pair)).count(),
        _ => number.iter().take_while(|&&byte| byte == 0).count(),
    };
    &number[fillers..]
}

/// Returns the key of `length` bytes for `number`, from which `exponent` bytes were cut off.
fn lay_out(number: &[u8], exponent: usize, length: usize, negative: bool) -> Key {
    let sign = if negative { 0xFF } else { 0 };
    let size = number.len() + exponent;
    // The two upper bits, compared with the sign, tell keys with an exponent from keys without.
    let exact = size < length || size == length && (number[0] ^ sign) & 0xC0 == 0;
    let (head, used, marks) = if exact {
        ([sign; 8], length - size, 0x80)
    } else {
        let excess = (size - length) as u64;
        let used = exponent_width(excess);
        (excess.to_be_bytes().map(|byte| byte ^ sign), used, 0xFF << (7 - used))
    };
    let mut key = [0; 8];
    for (slot, byte) in key[..length].iter_mut().zip(head[8 - used..].iter().chain(number)) {
        *slot = *byte;
    }
    key[0] ^= marks;
    Key::new(&key[..length])
}

/// Returns the number of bytes for the exponent. Their upper bits are marks: one for each byte, and one that ends the
/// marks. Six bytes are enough for any number that fits into memory.
fn exponent_width(exponent: u64) -> usize {
    (1..6).find(|width| exponent >> (7 * width - 2) == 0).unwrap_or(6)
}

/// Number of days before each month, in a year that is not a leap year.
const MONTHS: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Returns the key for generalizedTimeMatch and `CSNMatch`: five bytes that count seconds
/// (`libraries/liblutil/utils.c`). Fractions and the rest of a CSN are ignored.
///
/// Returns `None` if the normal form does not begin with a time; slapd creates no key in this case either.
pub fn time(normalised: &[u8]) -> Option<Key> {
    let [year, month, day, hour, minute, second] = read_time(normalised)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = year - 1;
    let leap_days = if year > 0 { before / 4 - before / 100 + before / 400 + 1 } else { 0 };
    let days =
        year * 365 + leap_days + MONTHS[usize::try_from(month).ok()? - 1] + i64::from(leap && month > 2) + day - 1;
    // A day has 86,400 seconds, which is 675 times 128.
    let units = days * 675;
    let high = (units >> 25 & 0x7F) ^ 0x40;
    let low = ((units & 0x1FF_FFFF) << 7) + (hour * 60 + minute) * 60 + second;
    let bits = high << 32 | low & 0xFFFF_FFFF;
    Some(Key::new(&bits.to_be_bytes()[3..]))
}

/// Returns the key of slapd 2.4, which counts days from 1970 in 32 bits, with a leap year every fourth year.
pub fn time_of_2_4(normalised: &[u8]) -> Option<Key> {
    let parts = read_time(normalised)?;
    if parts == [0, 1, 1, 0, 0, 0] {
        return Some(Key::new(&[0; 5]));
    }
    let [year, month, day, hour, minute, second] = parts;
    let leap = year % 4 == 0 && month > 2;
    let days =
        (year - 1970) * 365 + ((year - 1969) >> 2) + MONTHS[usize::try_from(month).ok()? - 1] + i64::from(leap) + day
            - 1;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "slapd has 32 bits")]
    let (units, seconds) = ((days * 675) as u32, ((hour * 60 + minute) * 60 + second) as u32);
    let [high, ..] = (units >> 25 << 24).to_be_bytes();
    let [a, b, c, d] = ((units & 0x1FF_FFFF) << 7).wrapping_add(seconds).to_be_bytes();
    Some(Key::new(&[high, a, b, c, d]))
}

fn read_time(text: &[u8]) -> Option<[i64; 6]> {
    let (text, rest) = text.split_first_chunk::<14>()?;
    let digits = text.map(|byte| byte.wrapping_sub(b'0'));
    let fraction = rest.strip_prefix(b".").unwrap_or(rest);
    let zone = fraction.iter().find(|byte| !byte.is_ascii_digit());
    if digits.iter().any(|digit| *digit > 9) || zone != Some(&b'Z') {
        return None;
    }
    let number = |at: usize| i64::from(digits[at] * 10 + digits[at + 1]);
    let year = number(0) * 100 + number(2);
    let parts = [year, number(4), number(6), number(8), number(10), number(12)];
    let [_, month, day, hour, minute, second] = parts;
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 62;
    valid.then_some(parts)
}
