//! `support/multi.der` is a certificate with a serial number of 17 bytes, a multi-valued RDN, and domain components.
//! The expected normal forms are those that slapd 2.5.13 stored.

mod support;

use schema::Schema;
use support::{schema, text, with};

const CERTIFICATE: &[u8] = include_bytes!("support/multi.der");
const LIST: &[u8] = include_bytes!("support/list.der");

fn normal(schema: &Schema, value: &[u8]) -> Option<Vec<u8>> {
    let id = schema.attribute(b"userCertificate").unwrap();
    let mut out = Vec::new();
    schema.normalise(id, value, &mut out).ok().map(|_| out)
}

fn takes(schema: &Schema, value: &[u8]) -> bool {
    schema.check_value(schema.attribute(b"userCertificate").unwrap(), value).is_ok()
}

#[test]
fn a_certificate_is_normalised_to_serial_number_and_issuer() {
    let expected = "{ serialNumber 'FFEEDDCCBBAA99887766554433221100AA'H, issuer rdnSequence:\
                    \"serialNumber=ser 1+uid=joe,cn=multi,dc=example,dc=com\" }";
    assert_eq!(text(&normal(&schema(), CERTIFICATE).unwrap()), expected);
}

#[test]
fn other_values_are_not_certificates() {
    let schema = schema();
    assert!(takes(&schema, CERTIFICATE));
    assert!(!takes(&schema, LIST));
    assert!(!takes(&schema, b""));
    assert!(!takes(&schema, &CERTIFICATE[..CERTIFICATE.len() - 1]));
    let longer = [CERTIFICATE, b"\x30\x01x"].concat();
    assert!(!takes(&schema, &longer));
}

#[test]
fn a_value_that_begins_like_a_certificate_is_stored() {
    let (schema, own) = (schema(), normal(&schema(), CERTIFICATE));
    let longer = [CERTIFICATE, b"\x30\x01x"].concat();
    assert_eq!(normal(&schema, &longer), own);
    assert_eq!(normal(&schema, &CERTIFICATE[..CERTIFICATE.len() - 1]), own);
    let empty = "{ serialNumber '0'H, issuer rdnSequence:\"\" }";
    assert_eq!(text(&normal(&schema, b"x").unwrap()), empty);
    assert!(normal(&schema, b"").is_none());
}

#[test]
fn types_of_the_issuer_must_be_known() {
    // 0.9.2342.19200300.100.1.1 (uid) becomes ...1.99.
    let at = CERTIFICATE.windows(3).position(|window| window == [0x64, 0x01, 0x01]).unwrap();
    let mut unknown = CERTIFICATE.to_vec();
    unknown[at + 2] = 99;
    let schema = schema();
    assert!(takes(&schema, &unknown));
    assert!(normal(&schema, &unknown).is_none());
}

#[test]
fn private_keys_are_accepted_and_refused_as_in_slapd() {
    let schema = with(&["a ( 1.3.6.1.4.1.99999.9 NAME 'key' SYNTAX 1.2.840.113549.1.8.1.1 )"]).unwrap();
    let accepts = |value: &[u8]| schema.check_value(schema.attribute(b"key").unwrap(), value).is_ok();
    assert!(accepts(b"\x30\x08\x02\x01\x00\x30\x00\x04\x01k"));
    assert!(accepts(b"\x30\x0A\x02\x01\x00\x30\x00\x04\x01k\x31\x00"));
    let longer = b"\x30\x88\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02";
    for wrong in [&b""[..], b"\x30\x00", b"\x30\x05\x02\x01\x00\x30\x00", longer] {
        assert!(!accepts(wrong), "{wrong:?}");
    }
}
