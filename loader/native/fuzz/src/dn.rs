//! Parses DNs as names of entries and as values.

use ::schema::{Dn, InvalidValue, Schema, dn_key, split_leaf};

use crate::definitions::schema;

/// Attributes whose values contain DNs.
const VALUES: [&str; 5] = ["member", "uniqueMember", "gDn", "gNameUid", "seeAlso"];
/// Attributes with other structured values.
const STRUCTURED: &str = "gCertificate gCertificateList gAttributeCertificate reqControls dITStructureRules reqStart \
                          pwdAttribute gOrdered objectClass uidNumber cn";

/// A pretty DN must parse to itself; the two halves of a DN must parse to the same RDNs as the whole; the normal form
/// of a value must be its own normal form.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let schema = schema();
    let whole = schema.dn(data);
    if let Ok(dn) = &whole {
        stays(schema, dn);
    }
    halves(schema, data, &whole);
    let _ = dn_key(data);
    let _ = (schema.rdn(data), schema.describe(data));
    for name in VALUES {
        value(schema, name, data);
    }
    for name in STRUCTURED.split(' ') {
        let id = schema.attribute(name.as_bytes()).expect("in the schema");
        let _ = (schema.check_value(id, data), schema.normalise(id, data, &mut Vec::new()));
    }
}

fn stays(schema: &Schema, dn: &Dn) {
    let Ok(again) = within_length(schema.dn(&dn.pretty())) else { return };
    assert_eq!(again.pretty(), dn.pretty(), "pretty");
    assert_eq!(again.normal(), dn.normal(), "normal");
    for rdn in &dn.rdns {
        let _ = schema.check_naming(rdn);
        for ava in &rdn.avas {
            assert!(!ava.value.is_empty());
        }
    }
}

/// Accepts that the escapes make a pretty DN too long or too deeply nested; any other refusal is a failure.
fn within_length(read: Result<Dn, InvalidValue>) -> Result<Dn, InvalidValue> {
    if let Err(refusal) = &read {
        let text = refusal.0.as_ref();
        assert!(text.contains("8192") || text.contains("too deep"), "a pretty DN is refused: {text}");
    }
    read
}

fn halves(schema: &Schema, text: &[u8], whole: &Result<Dn, InvalidValue>) {
    let Some((leaf, above)) = split_leaf(text) else {
        assert!(text.is_empty());
        return;
    };
    let parts = schema.rdn(leaf).and_then(|rdn| Ok((rdn, schema.dn(above)?)));
    match (parts, whole) {
        (Ok((rdn, above)), Ok(whole)) => {
            assert_eq!(Some((&rdn, above.rdns.as_slice())), whole.rdns.split_first());
        }
        (Err(_), Err(_)) => {}
        (parts, whole) => panic!("halves {parts:?}, whole {whole:?}"),
    }
}

fn value(schema: &Schema, name: &str, data: &[u8]) {
    let id = schema.attribute(name.as_bytes()).expect("in the schema");
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    let _ = schema.check_value(id, data);
    if let Ok(stored) = schema.normalise(id, data, &mut once) {
        assert!(stored);
        // Folding precedes decomposition, so a second pass may change characters beyond ASCII further.
        if data.is_ascii() && !data.contains(&b'\\') && schema.normalise(id, &once, &mut twice).is_ok() {
            assert_eq!(once, twice);
        }
    }
}
