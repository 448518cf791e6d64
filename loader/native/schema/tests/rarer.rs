//! Rules for structured values, which few attributes use.

mod support;

use schema::Schema;
use support::{schema, text};

fn normal(schema: &Schema, name: &str, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let id = schema.attribute(name.as_bytes()).unwrap();
    schema.normalise(id, value, &mut out).ok()?.then_some(out)
}

#[test]
fn structured_values_are_normalised() {
    let schema = schema();
    for (name, value, expected) in [
        ("pwdAttribute", "USERPASSWORD", "2.5.4.35"),
        ("pwdAttribute", "2.5.4.3", "2.5.4.3"),
        ("reqStart", "20240102030405.100Z", "20240102030405.100Z"),
        ("reqStart", "2024010203Z", "20240102030000Z"),
        ("reqControls", "{0}{1.2.3 criticality TRUE}", "{0}1.2.3"),
        ("dITStructureRules", "( 17 NAME 'x' )", "17"),
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
        ("dITStructureRules", "( x )"),
        ("dITStructureRules", "( 1 }"),
        ("gCertificateList", "x"),
        ("gAttributeCertificate", "x"),
    ] {
        assert_eq!(normal(&schema, name, value.as_bytes()), None, "{name}: {value}");
    }
}
