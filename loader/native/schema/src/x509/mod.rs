//! X.509 as slapd reads it: the shape of certificates and lists, and what certificateExactMatch
//! compares (`servers/slapd/schema_init.c`, `ldap_X509dn2bv` in `libraries/libldap/tls2.c`).

mod name;
mod shape;

use crate::{Result, Schema, refuse};

use shape::{attribute_certificate, certificate, certificate_list};
pub use shape::{is_attribute_certificate, is_certificate, is_certificate_list};

/// Appends the normal form of a certificate, or of what slapadd takes for one: its serial number and
/// issuer.
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

/// The same of a list of revoked certificates: its issuer and time.
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

/// The same of an attribute certificate: its serial number, and issuer and serial number of its
/// issuer's certificate.
pub fn normalise_attribute_certificate(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
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

/// `YYYYmmddHHMMSSZ` of that or of a time with two digits for its year, which is after 1969.
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

/// `'HEX'H` without leading zeros; an encoding longer than needed is refused.
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
