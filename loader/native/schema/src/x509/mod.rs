//! X.509 as slapd parses it: the form of certificates and revocation lists, and the values that certificateExactMatch
//! compares (`servers/slapd/schema_init.c`, `ldap_X509dn2bv` in `libraries/libldap/tls2.c`).

mod shape;

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{Result, Schema, refuse};

use shape::{BIT_STRING, BMP, OID, SEQUENCE, SET, TELETEX, Tlv, UNIVERSAL, elements};
use shape::{attribute_certificate, certificate, certificate_list};
pub use shape::{is_attribute_certificate, is_certificate, is_certificate_list, is_private_key};

/// Appends the normal form of a value that slapadd accepts as a certificate: its serial number and its issuer.
pub fn normalise(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Some((serial, issuer)) = certificate(value).filter(|_| !value.is_empty()) else {
        return refuse("not an X.509 certificate in DER");
    };
    out.extend_from_slice(b"{ serialNumber ");
    push_serial(serial, out)?;
    out.extend_from_slice(b", issuer rdnSequence:\"");
    schema.x509_name(issuer, out)?;
    out.extend_from_slice(b"\" }");
    Ok(())
}

/// Appends the normal form of a certificate revocation list: its issuer and its time.
pub fn normalise_list(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Some((issuer, time)) = certificate_list(value) else {
        return refuse("not an X.509 certificate list in DER");
    };
    out.extend_from_slice(b"{ issuer rdnSequence:\"");
    schema.x509_name(issuer, out)?;
    out.extend_from_slice(b"\", thisUpdate \"");
    push_time(time, out)?;
    out.extend_from_slice(b"\" }");
    Ok(())
}

/// Appends the normal form of an attribute certificate: its serial number, and the issuer and serial number of its
/// issuer's certificate.
pub fn normalise_attribute_certificate(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Some([serial, issuer, issuer_serial]) = attribute_certificate(value) else {
        return refuse("not an X.509 attribute certificate whose issuer is named by a certificate");
    };
    out.extend_from_slice(b"{ serialNumber ");
    push_serial(serial, out)?;
    out.extend_from_slice(b", issuer { baseCertificateID { issuer { directoryName:rdnSequence:\"");
    schema.x509_name(issuer, out)?;
    out.extend_from_slice(b"\" }, serial ");
    push_serial(issuer_serial, out)?;
    out.extend_from_slice(b" } } }");
    Ok(())
}

/// Appends a time as `YYYYmmddHHMMSSZ`. Two-digit years begin at 1970.
fn push_time(time: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let digits = time.strip_suffix(b"Z").filter(|text| text.iter().all(u8::is_ascii_digit));
    let Some(digits) = digits.filter(|digits| matches!(digits.len(), 12 | 14)) else {
        return refuse("the time of the list is not in UTC and to the second");
    };
    let start = out.len();
    if digits.len() == 12 {
        out.extend_from_slice(if digits[0] < b'7' { b"20" } else { b"19" });
    }
    out.extend_from_slice(time);
    values::Syntax::GeneralizedTime.check(&out[start..])
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Appends a serial number as `'HEX'H` without leading zeros. An encoding with a needless first byte is an error.
fn push_serial(mut serial: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match serial {
        [0xff, 0x80..=0xff, ..] | [0, 0..=0x7f, ..] => {
            return refuse("the serial number has a needless first byte");
        }
        [0, rest @ ..] if !rest.is_empty() => serial = rest,
        [] => serial = &[0],
        _ => {}
    }
    let nibbles = serial.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let skipped = usize::from(serial[0] < 16);
    out.push(b'\'');
    out.extend(nibbles.skip(skipped).map(|nibble| DIGITS[usize::from(nibble)]));
    out.extend_from_slice(b"'H");
    Ok(())
}

impl Schema {
    /// Appends the DN of a sequence of RDN sets. The RDNs of the DN have the reverse order of the sets.
    fn x509_name(&self, sequence: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let sets = inner(sequence, SET)?;
        for (number, set) in sets.iter().rev().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let avas = inner(set, SEQUENCE)?.into_iter().map(type_and_value);
            self.normal_rdn_escaped(&avas.collect::<Result<Vec<_>, _>>()?, out)?;
        }
        Ok(())
    }
}

/// Returns the contents of the elements; all must have the tag `tag`.
fn inner(bytes: &[u8], tag: u8) -> Result<Vec<&[u8]>> {
    let fits = |element| match element {
        Ok(Tlv { tag: found, content }) if found == tag => Ok(content),
        _ => refuse("a name in the certificate is damaged"),
    };
    elements(bytes).map(fits).collect()
}

/// Returns the OID of the attribute type, and the value.
fn type_and_value(sequence: &[u8]) -> Result<(String, Cow<'_, [u8]>)> {
    let mut fields = elements(sequence);
    match (fields.next(), fields.next(), fields.next()) {
        (Some(Ok(Tlv { tag: OID, content: oid })), Some(Ok(value)), None) => match dotted(oid) {
            Some(oid) => Ok((oid, text(value)?)),
            None => refuse("a name in the certificate has a bad OID"),
        },
        _ => refuse("a name in the certificate is damaged"),
    }
}

/// Returns the dotted form of an OID in BER.
fn dotted(bytes: &[u8]) -> Option<String> {
    let mut oid = String::new();
    let mut number = 0_u64;
    let mut inside = false;
    for byte in bytes {
        if !inside && *byte == 0x80 {
            return None;
        }
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        inside = byte & 0x80 != 0;
        if inside {
            continue;
        }
        if oid.is_empty() {
            // In BER, the first number of an OID encodes its first two arcs.
            let first = (number / 40).min(2);
            (oid, number) = (first.to_string(), number - 40 * first);
        }
        write!(oid, ".{number}").ok()?;
        number = 0;
    }
    (!inside && !oid.is_empty()).then_some(oid)
}

/// Returns the value in UTF-8. Like libldap, copies the bytes of any unlisted type, even if it is no string.
fn text(value: Tlv<'_>) -> Result<Cow<'_, [u8]>> {
    match value.tag {
        UNIVERSAL => wide(value.content, 4),
        BMP => wide(value.content, 2),
        TELETEX => wide(value.content, 1),
        BIT_STRING => Ok(Cow::Owned(bits(value.content))),
        _ => Ok(Cow::Borrowed(value.content)),
    }
}

/// Converts characters of `width` bytes to UTF-8. Surrogates are not detected.
fn wide(content: &[u8], width: usize) -> Result<Cow<'_, [u8]>> {
    let mut out = Vec::with_capacity(content.len());
    for unit in content.chunks_exact(width) {
        let code = unit.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte));
        if code > 0x10_ffff {
            return refuse("a name in the certificate contains a character beyond Unicode");
        }
        values::utf8::encode(code, &mut out);
    }
    Ok(Cow::Owned(out))
}

/// Formats a BIT STRING as `'0101'B`. The first byte of `content` is the number of unused bits in the last byte.
fn bits(content: &[u8]) -> Vec<u8> {
    let (unused, bytes) = content.split_first().map_or((0, content), |(first, rest)| (usize::from(*first), rest));
    let count = (8 * bytes.len()).saturating_sub(unused);
    let bit = |at: usize| if bytes[at / 8] & 0x80 >> (at % 8) == 0 { b'0' } else { b'1' };
    let mut out = vec![b'\''];
    out.extend((0..count).map(bit));
    out.extend_from_slice(b"'B");
    out
}
