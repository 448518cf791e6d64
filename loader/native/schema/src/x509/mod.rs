//! X.509 as slapd reads it: the shape of certificates and lists, and what certificateExactMatch
//! compares (`servers/slapd/schema_init.c`, `ldap_X509dn2bv` in `libraries/libldap/tls2.c`).

mod name;
mod shape;
mod tlv;

use crate::{Refusal, Schema};

pub use shape::{certificate, is_attribute_certificate, is_certificate_list};

fn refuse<T>(message: &'static str) -> Result<T, Refusal> {
    Err(Refusal(message.into()))
}

/// Appends the normal form of a certificate: its serial number and issuer. What slapd would not
/// take as a certificate is refused, though slapadd stores some of that.
pub fn normalise(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let Some(certificate) = certificate(value) else {
        return refuse("not an X.509 certificate in DER");
    };
    out.extend_from_slice(b"{ serialNumber ");
    push_serial(certificate.serial, out)?;
    out.extend_from_slice(b", issuer rdnSequence:\"");
    schema.x509_name(certificate.issuer, out)?;
    out.extend_from_slice(b"\" }");
    Ok(())
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// `'HEX'H` without leading zeros; an encoding longer than needed is refused.
fn push_serial(mut serial: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
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
