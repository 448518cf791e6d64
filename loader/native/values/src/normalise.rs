use crate::syntax::PRINTABLE;
use crate::uuid::{DIGITS, NO_DIGIT, octets};
use crate::{InvalidValue, Result, csn, text, time};

/// The way in which an equality rule converts values to comparable bytes (`servers/slapd/schema_init.c`).
///
/// Each normalizer has the name of a matching rule, and may serve several rules. Rules that compare unconverted values
/// (octetStringMatch, integerMatch, booleanMatch and others) have no normalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normaliser {
    /// Compatibility decomposition of Unicode 3.2, lower case, without insignificant spaces.
    CaseIgnore,
    /// As [`CaseIgnore`](Self::CaseIgnore), but in the original case.
    CaseExact,
    /// ASCII lower case, without insignificant spaces.
    CaseIgnoreIa5,
    /// Without insignificant spaces.
    CaseExactIa5,
    /// Without spaces and hyphens.
    Telephone,
    /// Without spaces.
    NumericString,
    /// Each line between `$` as by [`CaseIgnore`](Self::CaseIgnore); escapes are kept.
    CaseIgnoreList,
    /// Each line between `$` as by [`CaseExact`](Self::CaseExact); escapes are kept.
    CaseExactList,
    /// UTC as `YYYYmmddHHMMSS[.f]Z`.
    GeneralizedTime,
    /// The 16 octets of the UUID.
    Uuid,
    /// A change sequence number in the form of OpenLDAP 2.4 and later, in lower case from the server ID on.
    Csn,
    /// The server ID of a change sequence number: three digits in lower case.
    CsnSid,
    /// A time logged by slapo-accesslog: UTC, with the zeros at the end of the fraction.
    LogTime,
}

impl Normaliser {
    /// Appends the normal form of `value` to `out`. If the value is refused, `out` is unchanged.
    ///
    /// slapd validates values elsewhere, so this accepts many values that [`Syntax`](crate::Syntax) refuses.
    pub fn apply(self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let result = match self {
            Self::CaseIgnore => directory_string(value, true, out),
            Self::CaseExact => directory_string(value, false, out),
            Self::CaseIgnoreIa5 => ia5(value, true, out),
            Self::CaseExactIa5 => ia5(value, false, out),
            Self::Telephone => without(value, *b" -", out),
            Self::NumericString => without(before_nul(value), *b"  ", out),
            Self::CaseIgnoreList => list(value, true, out),
            Self::CaseExactList => list(value, false, out),
            Self::GeneralizedTime => time::normalise(value, out),
            Self::Uuid => uuid(value, out),
            Self::Csn => csn::normalise(value, out),
            Self::CsnSid => csn::normalise_sid(value, out),
            Self::LogTime => time::normalise_logged(value, out),
        };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

fn directory_string(value: &[u8], fold: bool, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    text::normalise(value, fold, out)?;
    let empty = out.len() == start;
    collapse_spaces(out, start);
    if out.len() == start && !empty {
        out.push(b' ');
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps)] // the same signature for all
fn ia5(value: &[u8], fold: bool, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    text::push_ascii(before_nul(value), fold, out);
    collapse_spaces(out, start);
    Ok(())
}

/// Trims both ends of `out[start..]`, and replaces each run of spaces by one space. A value of only spaces becomes
/// empty. Only the byte 0x20 is a space (`servers/slapd/schema_init.c`).
fn collapse_spaces(out: &mut Vec<u8>, start: usize) {
    if is_tidy(&out[start..]) {
        return;
    }
    let mut end = start;
    let mut after_space = true;
    for at in start..out.len() {
        let byte = out[at];
        let space = byte == b' ';
        if !(space && after_space) {
            out[end] = byte;
            end += 1;
        }
        after_space = space;
    }
    if end > start && out[end - 1] == b' ' {
        end -= 1;
    }
    out.truncate(end);
}

/// Whether the text has no spaces at its ends and no two adjacent spaces. The compiler vectorizes a fold, not a search.
fn is_tidy(text: &[u8]) -> bool {
    let [first, .., last] = text else { return text != b" " };
    let pairs = text.iter().zip(&text[1..]);
    let doubled = pairs.fold(0, |seen, (&a, &b)| seen | u8::from((a | b) == b' ' && a == b));
    *first != b' ' && *last != b' ' && doubled == 0
}

/// Returns the part before the first NUL, because slapd treats some values as C strings.
fn before_nul(value: &[u8]) -> &[u8] {
    &value[..memchr::memchr(0, value).unwrap_or(value.len())]
}

/// Appends the value without the bytes `dropped`. If nothing remains, appends a single space.
#[expect(clippy::unnecessary_wraps)] // the same signature for all
fn without(value: &[u8], dropped: [u8; 2], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(value);
    let (kept, mut length) = (&mut out[start..], 0);
    for at in 0..kept.len() {
        let byte = kept[at];
        kept[length] = byte;
        length += usize::from(!dropped.contains(&byte));
    }
    out.truncate(start + length);
    if out.len() == start {
        out.push(b' ');
    }
    Ok(())
}

/// Returns the normal form of a telephone number of at most 32 characters, and its length. Returns `None` if the number
/// is longer or invalid, or if its normal form is empty.
#[inline]
pub fn telephone(value: &[u8]) -> Option<([u8; 32], usize)> {
    let (mut kept, mut length, mut is_valid) = ([0; 32], 0, true);
    let value = Some(value).filter(|value| value.len() <= kept.len())?;
    for &byte in value {
        kept[length % 32] = byte;
        length += usize::from(byte != b' ') & usize::from(byte != b'-');
        is_valid &= PRINTABLE[usize::from(byte)];
    }
    (is_valid && length > 0).then_some((kept, length))
}

fn list(value: &[u8], fold: bool, out: &mut Vec<u8>) -> Result<()> {
    for (number, line) in value.split(|&byte| byte == b'$').enumerate() {
        if number > 0 {
            out.push(b'$');
        }
        directory_string(line, fold, out)?;
    }
    Ok(())
}

/// Appends the octets of a UUID. Like slapd, reads only the first 36 bytes, which may have hyphens anywhere.
fn uuid(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    const REFUSAL: InvalidValue = InvalidValue::new("not a UUID");
    let text: &[u8; 36] = value.first_chunk().ok_or(REFUSAL)?;
    if let Some(octets) = octets(text) {
        out.extend_from_slice(&octets);
        return Ok(());
    }
    let (mut octets, mut digits) = (0u128, 0);
    for &byte in text.iter().filter(|&&byte| byte != b'-') {
        let digit = DIGITS[usize::from(byte)];
        if digit == NO_DIGIT {
            return Err(REFUSAL);
        }
        octets = octets << 4 | u128::from(digit);
        digits += 1;
    }
    InvalidValue::unless(digits == 32, "not a UUID")?;
    out.extend_from_slice(&octets.to_be_bytes());
    Ok(())
}
