//! Meaningless X.509 certificates (RFC 5280) of a given length. The signature is random, because LDAP servers check
//! only the syntax.

use super::random_bytes;

/// Approximate size in bytes of a certificate with an empty extension.
pub const BARE: u64 = 236;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const UTF8: u8 = 0x0C;
const UTC_TIME: u8 = 0x17;
/// Object identifiers of Ed25519, commonName and subjectKeyIdentifier.
const ED25519: [u8; 5] = [0x06, 0x03, 0x2B, 0x65, 0x70];
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
const KEY_IDENTIFIER: [u8; 5] = [0x06, 0x03, 0x55, 0x1D, 0x0E];

/// Returns a certificate of about `length` bytes, but at least [`BARE`].
pub fn certificate(bits: u64, length: u64) -> Vec<u8> {
    let padding = length.saturating_sub(BARE);
    let algorithm = element(SEQUENCE, &[&ED25519]);
    let key = element(BITS, &[&[0], &random(bits, 1, 32)]);
    // Serial numbers must be positive.
    let serial = element(INTEGER, &[&[1], &random(bits, 2, 8)]);
    let date = element(UTC_TIME, &[b"260101000000Z"]);
    let name = named("nobody");
    let extension = element(OCTETS, &[&element(OCTETS, &[&random(bits, 3, padding)])]);
    let extension = element(SEQUENCE, &[&KEY_IDENTIFIER, &extension]);
    let to_be_signed = element(
        SEQUENCE,
        &[
            &element(0xA0, &[&element(INTEGER, &[&[2]])]),
            &serial,
            &algorithm,
            &name,
            &element(SEQUENCE, &[&date, &date]),
            &name,
            &element(SEQUENCE, &[&algorithm, &key]),
            &element(0xA3, &[&element(SEQUENCE, &[&extension])]),
        ],
    );
    let signature = element(BITS, &[&[0], &random(bits, 4, 64)]);
    element(SEQUENCE, &[&to_be_signed, &algorithm, &signature])
}

fn named(name: &str) -> Vec<u8> {
    let value = element(UTF8, &[name.as_bytes()]);
    let pair = element(SEQUENCE, &[&COMMON_NAME, &value]);
    element(SEQUENCE, &[&element(SET, &[&pair])])
}

/// Builds a DER element (X.690): tag, length and content.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    if let Ok(short @ 0..=127) = u8::try_from(length) {
        out.push(short);
    } else {
        let bytes = (length as u64).to_be_bytes();
        let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
        out.extend_from_slice(digits);
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

fn random(bits: u64, which: u64, length: u64) -> Vec<u8> {
    let mut out = Vec::new();
    random_bytes(bits, which << 32, length, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_the_requested_length() {
        for length in [300, 1000, 1500, 70_000] {
            let size = certificate(7, length).len() as u64;
            assert!(size.abs_diff(length) < 20, "{length}: {size}");
        }
        assert_ne!(certificate(1, BARE + 100), certificate(2, BARE + 100));
        assert_eq!(certificate(1, BARE + 100)[..2], [SEQUENCE, 0x82]);
    }
}
