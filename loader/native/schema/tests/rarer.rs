//! Rules for structured values: their normal forms, and hostile values.

mod support;

use proptest::prelude::*;
use schema::Schema;
use support::{text, with};

const MORE: [&str; 12] = [
    "S ( 1.3.6.1.4.1.1466.115.121.1.3 DESC 'Attribute Type Description' )",
    "S ( 1.3.6.1.4.1.1466.115.121.1.9 DESC 'Certificate List' )",
    "S ( 1.3.6.1.4.1.1466.115.121.1.17 DESC 'DIT Structure Rule Description' )",
    "S ( 1.3.6.1.4.1.1466.115.121.1.24 DESC 'Generalized Time' )",
    "S ( 1.3.6.1.4.1.4203.666.11.10.2.1 DESC 'X.509 AttributeCertificate' )",
    "S ( 1.3.6.1.4.1.4203.666.11.5.3.1 DESC 'Control' )",
    "A ( 1.2.2 NAME 'list' EQUALITY certificateListExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.9 )",
    "A ( 1.2.3 NAME 'attributes' EQUALITY attributeCertificateExactMatch SYNTAX 1.3.6.1.4.1.4203.666.11.10.2.1 )",
    "A ( 1.2.4 NAME 'structure' EQUALITY integerFirstComponentMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.17 )",
    "A ( 1.2.5 NAME 'reqControls' EQUALITY objectIdentifierFirstComponentMatch SYNTAX 1.3.6.1.4.1.4203.666.11.5.3.1 X-ORDERED 'VALUES' )",
    "A ( 1.2.6 NAME 'reqStart' EQUALITY generalizedTimeMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.24 )",
    "A ( 1.2.7 NAME 'pwdAttribute' EQUALITY objectIdentifierMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.38 )",
];
const NAMES: [&str; 7] = [
    "list",
    "attributes",
    "structure",
    "reqControls",
    "reqStart",
    "pwdAttribute",
    "userCertificate",
];

fn schema() -> Schema {
    with(&MORE).unwrap()
}

fn normal(schema: &Schema, name: &str, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let id = schema.attribute(name.as_bytes()).unwrap();
    schema.normalise(id, value, &mut out).ok()?.then_some(out)
}

#[test]
fn forms() {
    let schema = schema();
    for (name, value, expected) in [
        ("pwdAttribute", "USERPASSWORD", "2.5.4.35"),
        ("pwdAttribute", "2.5.4.3", "2.5.4.3"),
        ("reqStart", "20240102030405.100Z", "20240102030405.100Z"),
        ("reqStart", "2024010203Z", "20240102030000Z"),
        ("reqControls", "{0}{1.2.3 criticality TRUE}", "{0}1.2.3"),
        ("structure", "( 17 NAME 'x' )", "17"),
    ] {
        let found = normal(&schema, name, value.as_bytes()).map(|out| text(&out));
        assert_eq!(found.as_deref(), Some(expected), "{name}: {value}");
    }
}

#[test]
fn invalid_values_are_refused() {
    let schema = schema();
    for (name, value) in [
        ("pwdAttribute", "noSuchType"),
        ("reqStart", "20240102030405+01"),
        ("reqStart", "20240102030405.Z"),
        ("structure", "( x )"),
        ("structure", "( 1 }"),
        ("list", "x"),
        ("attributes", "x"),
    ] {
        assert_eq!(normal(&schema, name, value.as_bytes()), None, "{name}: {value}");
    }
}

proptest! {
    #[test]
    fn nothing_does_harm(at in 0..NAMES.len(), value in prop::collection::vec(any::<u8>(), 0..60)) {
        let schema = schema();
        let id = schema.attribute(NAMES[at].as_bytes()).unwrap();
        let _ = schema.check_value(id, &value);
        let _ = normal(&schema, NAMES[at], &value);
    }

    #[test]
    fn nor_does_what_looks_right(
        at in 0..NAMES.len(),
        pieces in prop::collection::vec(prop::sample::select(vec![
            ".", ":", "(", ")", "cn=a", "1.2", "#", ";", ",", " ", "{", "}",
            "criticality ", "TRUE", "controlValue ", "\"", "00", "\\", "=", "20240102030405", "Z", "+", "",
        ]), 0..16),
    ) {
        let (schema, value) = (schema(), pieces.concat());
        let id = schema.attribute(NAMES[at].as_bytes()).unwrap();
        let _ = schema.check_value(id, value.as_bytes());
        let _ = normal(&schema, NAMES[at], value.as_bytes());
    }
}
