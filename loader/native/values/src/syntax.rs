//! Checks values as slapd's validators do, which deviate from the standards in places.

use crate::order::is_bit_string;
use crate::text::utf8;
use crate::{InvalidValue, Result, csn, time};

/// A syntax whose values can be checked without a schema (RFC 4517, `servers/slapd/schema_init.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    BitString,
    Boolean,
    BootParameter,
    CertificatePair,
    CountryString,
    Csn,
    CsnSid,
    DeliveryMethod,
    DirectoryString,
    FacsimileNumber,
    GeneralizedTime,
    Ia5String,
    Integer,
    /// A Generalized Time in UTC, as slapo-accesslog checks it.
    LogTime,
    NisNetgroupTriple,
    NumericString,
    /// Any octets. Audio, JPEG, binary and supported algorithms are checked in the same way.
    OctetString,
    PostalAddress,
    PrintableString,
    SubtreeSpecification,
    TelephoneNumber,
    TelexNumber,
    Uuid,
    /// A syntax without valid values.
    Void,
    /// slapd registers no validator, so slapadd accepts all values (LDAP operations refuse them).
    Unchecked,
}

impl Syntax {
    /// Returns `None` for an OID that slapd 2.5 does not register, and for syntaxes whose check needs the schema
    /// (names, OIDs) or parses certificates or keys.
    pub fn from_oid(oid: &str) -> Option<Self> {
        match oid.strip_prefix("1.3.6.1.4.1.1466.115.121.1.") {
            // `parse` alone would also accept `+6` and `06`.
            Some(number) if number.starts_with(|first| matches!(first, '1'..='9')) => of_rfc_4517(number.parse().ok()?),
            Some(_) => None,
            None => elsewhere(oid),
        }
    }

    /// Accepts the same values as `slapadd -o value-check=yes` and LDAP operations, except that it accepts all values
    /// of [`Unchecked`](Self::Unchecked).
    pub fn check(self, value: &[u8]) -> Result<()> {
        let (holds, clause) = match self {
            Self::OctetString | Self::Unchecked => return Ok(()),
            Self::SubtreeSpecification => return utf8::check(value),
            Self::GeneralizedTime => return time::check(value),
            Self::LogTime => return time::check_logged(value),
            Self::Csn => return csn::check(value),
            Self::PostalAddress => return postal_address(value),
            Self::DirectoryString if !value.is_empty() => return utf8::check(value),
            Self::DirectoryString => (false, "empty"),
            Self::BitString => (is_bit_string(value), "not a bit string such as '0101'B"),
            Self::Boolean => (matches!(value, b"TRUE" | b"FALSE"), "neither TRUE nor FALSE"),
            Self::BootParameter => (boot_parameter(value), "not of the form key=server:path"),
            Self::CertificatePair => (value.len() > 1 && value[0] == 0x30, "not a BER sequence"),
            Self::CountryString => (value.len() == 2 && is_printable(value), "not two printable characters"),
            Self::CsnSid => (csn::is_sid(value), "not three hexadecimal digits"),
            Self::DeliveryMethod => (delivery_method(value), "not a list of delivery methods"),
            Self::Ia5String => (value.is_ascii(), "not all ASCII"),
            Self::Integer => (is_integer(value), "not an integer"),
            Self::NisNetgroupTriple => (netgroup_triple(value), "not of the form (host,user,domain)"),
            Self::NumericString => (
                !value.is_empty() && value.iter().all(|&byte| byte == b' ' || byte.is_ascii_digit()),
                "not all digits and spaces",
            ),
            Self::PrintableString | Self::TelephoneNumber => {
                (!value.is_empty() && is_printable(value), "not a printable string")
            }
            Self::FacsimileNumber | Self::TelexNumber => (
                value.split(|&byte| byte == b'$').all(|part| !part.is_empty() && is_printable(part)),
                "not printable strings between `$`",
            ),
            Self::Uuid => (crate::uuid::octets(value).is_some(), "not a UUID"),
            Self::Void => (false, "this syntax has no values"),
        };
        InvalidValue::unless(holds, clause)
    }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| PRINTABLE[usize::from(*byte)])
}

/// The characters of Printable Strings (RFC 4517, 3.2), indexed by byte.
pub(crate) const PRINTABLE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        let special = matches!(byte, b' ' | b'\'' | b'(' | b')' | b'+'..=b'/' | b':' | b'=' | b'?');
        table[byte as usize] = byte.is_ascii_alphanumeric() || special;
        byte += 1;
    }
    table
};

/// Whether the value is a decimal number without `+`, leading zeros or `-0`.
pub(crate) fn is_integer(value: &[u8]) -> bool {
    match value.strip_prefix(b"-").unwrap_or(value) {
        [b'0'] => value == b"0",
        [b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn of_rfc_4517(number: u8) -> Option<Syntax> {
    Some(match number {
        4 | 5 | 28 | 40 | 49 => Syntax::OctetString,
        6 => Syntax::BitString,
        7 => Syntax::Boolean,
        10 => Syntax::CertificatePair,
        11 => Syntax::CountryString,
        14 => Syntax::DeliveryMethod,
        15 => Syntax::DirectoryString,
        22 => Syntax::FacsimileNumber,
        24 => Syntax::GeneralizedTime,
        26 | 39 => Syntax::Ia5String,
        27 => Syntax::Integer,
        36 => Syntax::NumericString,
        41 => Syntax::PostalAddress,
        44 => Syntax::PrintableString,
        45 => Syntax::SubtreeSpecification,
        50 => Syntax::TelephoneNumber,
        52 => Syntax::TelexNumber,
        1..=3 | 13 | 16 | 17 | 19..=21 | 23 | 25 | 29..=33 | 35 | 37 | 42 | 43 | 51 | 54..=58 => Syntax::Unchecked,
        _ => return None,
    })
}

fn elsewhere(oid: &str) -> Option<Syntax> {
    Some(match oid {
        "1.3.6.1.1.1.0.0" => Syntax::NisNetgroupTriple,
        "1.3.6.1.1.1.0.1" => Syntax::BootParameter,
        "1.3.6.1.1.16.1" => Syntax::Uuid,
        "1.3.6.1.4.1.4203.666.11.2.1" => Syntax::Csn,
        "1.3.6.1.4.1.4203.666.11.2.4" => Syntax::CsnSid,
        "1.3.6.1.4.1.4203.1.1.1" => Syntax::Void,
        // Assertion syntaxes for certificates.
        "1.3.6.1.1.15.2" | "1.3.6.1.1.15.3" | "1.3.6.1.1.15.4" | "1.3.6.1.1.15.6" | "1.3.6.1.1.15.7" => {
            Syntax::Unchecked
        }
        _ => return None,
    })
}

/// Checks lines of UTF-8 separated by `$`; `\24` and `\5C` are the only escapes.
fn postal_address(value: &[u8]) -> Result<()> {
    let mut escapes = memchr::memchr_iter(b'\\', value).map(|at| &value[at + 1..]);
    let known = escapes.all(|tail| matches!(tail, [b'2', b'4', ..] | [b'5', b'C' | b'c', ..]));
    InvalidValue::unless(known, "an escape other than \\24 and \\5C")?;
    utf8::check(value)
}

/// Whether `text` has only the characters of attribute descriptions.
pub(crate) fn is_name(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-.;".contains(&byte))
}

/// Whether the value is `(host,user,domain)` (RFC 2307); each part may be empty.
fn netgroup_triple(value: &[u8]) -> bool {
    let inner = value.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|inner| {
        let parts = inner.split(|&byte| byte == b',');
        parts.clone().count() == 3 && parts.clone().all(is_name)
    })
}

/// Whether the value is `key=server:path` (RFC 2307).
fn boot_parameter(value: &[u8]) -> bool {
    let Some((key, rest)) = split_at_byte(value, b'=') else { return false };
    let Some((server, path)) = split_at_byte(rest, b':') else { return false };
    is_name(key) && is_name(server) && is_printable(path)
}

fn split_at_byte(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(byte, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Whether the value is a list of delivery methods separated by `$` (RFC 4517, 3.3.5).
fn delivery_method(value: &[u8]) -> bool {
    const METHODS: [&[u8]; 10] =
        [b"any", b"mhs", b"physical", b"telex", b"teletex", b"telephone", b"g3fax", b"g4fax", b"ia5", b"videotex"];
    // Spaces are allowed only around `$`.
    let outer = [value.first(), value.last()];
    !outer.contains(&Some(&b' '))
        && value
            .split(|&byte| byte == b'$')
            .map(trim)
            .all(|part| METHODS.iter().any(|method| method.eq_ignore_ascii_case(part)))
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}
