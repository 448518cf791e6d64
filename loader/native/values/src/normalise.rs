use crate::syntax::PRINTABLE;
use crate::uuid::{DIGITS, NO_DIGIT, octets};
use crate::{InvalidValue, Result, csn, text, time};

/// How an equality rule converts values to comparable bytes (`servers/slapd/schema_init.c`).
///
/// The names are those of matching rules; several rules share a normaliser. Rules that compare
/// unconverted values (octetStringMatch, integerMatch, booleanMatch ...) have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normaliser {
    /// Unicode 3.2 compatibility form, lower case, insignificant spaces dropped.
    CaseIgnore,
    /// Like [`CaseIgnore`](Self::CaseIgnore), but keeps case.
    CaseExact,
    /// ASCII lower case, insignificant spaces dropped.
    CaseIgnoreIa5,
    /// Insignificant spaces dropped.
    CaseExactIa5,
    /// Spaces and hyphens dropped.
    Telephone,
    /// Spaces dropped.
    NumericString,
    /// Each `$`-separated line as [`CaseIgnore`](Self::CaseIgnore); escapes are kept.
    CaseIgnoreList,
    /// Each `$`-separated line as [`CaseExact`](Self::CaseExact).
    CaseExactList,
    /// UTC in the form `YYYYmmddHHMMSS[.f]Z`.
    GeneralizedTime,
    /// 16 octets.
    Uuid,
    /// Change sequence number in the form of OpenLDAP 2.4 and later, lower case from the server ID on.
    Csn,
    /// The server ID of a change sequence number, three digits in lower case.
    CsnSid,
    /// A time that slapo-accesslog logs: UTC, with all zeros of a fraction.
    LogTime,
}

impl Normaliser {
    /// Appends the normal form of `value` to `out`; if the value is rejected, `out` is unchanged.
    ///
    /// slapd checks values elsewhere, so this accepts much that [`Syntax`](crate::Syntax) refuses.
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

/// Trims both ends of `out[start..]`, and replaces each run of spaces with one space. If there are only
/// spaces, nothing remains. Only byte 0x20 is a space (`servers/slapd/schema_init.c`).
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

/// Uses a fold instead of a search, because that compiles to vector instructions.
fn is_tidy(text: &[u8]) -> bool {
    let [first, .., last] = text else { return text != b" " };
    let pairs = text.iter().zip(&text[1..]);
    let doubled = pairs.fold(0, |seen, (&a, &b)| seen | u8::from((a | b) == b' ' && a == b));
    *first != b' ' && *last != b' ' && doubled == 0
}

/// Returns the part before a NUL, because slapd treats some values as C strings.
fn before_nul(value: &[u8]) -> &[u8] {
    &value[..memchr::memchr(0, value).unwrap_or(value.len())]
}

/// Drops characters. If nothing remains, the normal form is a single space.
#[expect(clippy::unnecessary_wraps)]
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

/// Returns the normal form of a telephone number of at most 32 characters, and its length; `None` if the number is
/// longer or invalid, or if nothing of it remains.
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

/// Reads, as slapd does, only the first 36 bytes, with hyphens anywhere.
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
