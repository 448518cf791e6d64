use crate::text::utf8;
use crate::{InvalidValue, csn, time, uid};

mod registered;
mod structured;

/// A syntax whose check needs no schema (RFC 4517, `servers/slapd/schema_init.c`).
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
    /// Any octets: also audio, JPEG, binary and supported algorithms.
    OctetString,
    PostalAddress,
    PrintableString,
    PrivateKey,
    SubtreeSpecification,
    TelephoneNumber,
    TelexNumber,
    Uuid,
    /// No value at all.
    Void,
    /// Registered without a validator: slapadd takes any value, LDAP operations take none. Accepts all.
    Unchecked,
}

impl Syntax {
    /// `None` for an OID that slapd does not register, and for syntaxes whose check needs the
    /// schema (names, OIDs) or belongs with its reading of certificates.
    pub fn from_oid(oid: &str) -> Option<Self> {
        registered::from_oid(oid)
    }

    /// Accepts what `slapadd -o value-check=yes` and LDAP operations accept, save for values of
    /// [`Unchecked`](Self::Unchecked) and malformed [`PrivateKey`](Self::PrivateKey)s.
    pub fn check(self, value: &[u8]) -> Result<(), InvalidValue> {
        let (holds, clause) = match self {
            Self::OctetString | Self::Unchecked => return Ok(()),
            Self::SubtreeSpecification => return utf8::check(value),
            Self::GeneralizedTime => return time::check(value),
            Self::LogTime => return time::check_logged(value),
            Self::Csn => return csn::check(value),
            Self::PostalAddress => return structured::postal_address(value),
            Self::DirectoryString if !value.is_empty() => return utf8::check(value),
            Self::DirectoryString => (false, "empty"),
            Self::BitString => (uid::is_bit_string(value), "not a bit string such as '0101'B"),
            Self::Boolean => (matches!(value, b"TRUE" | b"FALSE"), "neither TRUE nor FALSE"),
            Self::BootParameter => {
                (structured::boot_parameter(value), "not of the form key=server:path")
            }
            Self::CertificatePair => (value.len() > 1 && value[0] == 0x30, "not a BER sequence"),
            Self::CountryString => {
                (value.len() == 2 && is_printable(value), "not two printable characters")
            }
            Self::CsnSid => (csn::is_sid(value), "not three hexadecimal digits"),
            Self::DeliveryMethod => {
                (structured::delivery_method(value), "not a list of delivery methods")
            }
            Self::Ia5String => (value.is_ascii(), "not all ASCII"),
            Self::Integer => (is_integer(value), "not an integer"),
            Self::NisNetgroupTriple => {
                (structured::netgroup_triple(value), "not of the form (host,user,domain)")
            }
            Self::NumericString => (
                !value.is_empty()
                    && value.iter().all(|&byte| byte == b' ' || byte.is_ascii_digit()),
                "not all digits and spaces",
            ),
            Self::PrintableString | Self::TelephoneNumber => {
                (!value.is_empty() && is_printable(value), "not a printable string")
            }
            Self::FacsimileNumber | Self::TelexNumber => (
                value
                    .split(|&byte| byte == b'$')
                    .all(|part| !part.is_empty() && is_printable(part)),
                "not printable strings between `$`",
            ),
            Self::PrivateKey => (structured::private_key(value), "not a PKCS #8 private key"),
            Self::Uuid => (crate::uuid::is_spelled(value), "not a UUID"),
            Self::Void => (false, "this syntax has no values"),
        };
        InvalidValue::unless(holds, clause)
    }
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| PRINTABLE[usize::from(*byte)])
}

/// Characters of Printable Strings (RFC 4517, 3.2).
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

/// Decimal, without `+`, leading zeros or `-0`.
pub(crate) fn is_integer(value: &[u8]) -> bool {
    match value.strip_prefix(b"-").unwrap_or(value) {
        [b'0'] => value == b"0",
        [b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}
