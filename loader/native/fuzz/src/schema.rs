//! Reads schema definitions of any kind, and asks the resulting schema the questions of a build.

use ::schema::{AttributeId, ObjectClassSet, Schema, Settings};

use crate::definitions::definitions;

/// Number of attribute types and classes to ask about, so that a large schema takes no longer than a small one.
const ASKED: usize = 12;

/// A schema that was read must answer every question, and must find its own names.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (options, text) = text.split_once('\n').unwrap_or(("", &text));
    let settings = Settings {
        attribute_options: vec![options.to_owned()],
        dynamic_objects: options.contains('!'),
        password_policy: options.contains('?'),
    };
    match Schema::read(&definitions(text), settings) {
        Ok(schema) => ask(&schema, options),
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
}

fn ask(schema: &Schema, options: &str) {
    for kind in schema.attributes().take(ASKED) {
        assert_eq!(schema.attribute(kind.oid.as_bytes()), Some(kind.id));
        assert_eq!(schema.attribute(kind.name.as_bytes()), Some(kind.id));
        assert!(kind.chain.contains(&kind.id));
        let _ = kind.unsupported_rule();
        describe(schema, &kind.name, options);
        value(schema, kind.id, &kind.name);
    }
    let classes: Vec<&[u8]> = schema
        .attributes()
        .map(|kind| kind.name.as_bytes())
        .chain([&b"top"[..], b"person", b"a", b"b", b"alias", b"subentry", b"glue", b"extensibleObject"])
        .filter(|name| schema.class(name).is_some())
        .take(ASKED)
        .collect();
    profiles(schema, &classes);
}

fn describe(schema: &Schema, name: &str, options: &str) {
    for text in [name.to_owned(), format!("{name};{options}"), format!("{name};binary;lang-en;x-b;x-a")] {
        let Ok(found) = schema.describe(text.as_bytes()) else { continue };
        let again = schema.describe(found.text.as_bytes()).expect("its text is a description");
        assert_eq!(again, found);
        let _ = schema.describe_stored(text.as_bytes());
    }
}

/// Checks and normalizes values and DNs of this attribute type.
fn value(schema: &Schema, id: AttributeId, name: &str) {
    for value in [&b"{1}a=b"[..], b"0", b"TRUE", name.as_bytes(), b"{2}", b"{", b""] {
        let mut out = b"kept".to_vec();
        let _ = schema.normalise(id, value, &mut out);
        assert!(out.starts_with(b"kept"));
        let _ = schema.check_value(id, value);
        let text = [name.as_bytes(), b"=", value].concat();
        let _ = schema.dn(&text);
    }
}

fn profiles(schema: &Schema, classes: &[&[u8]]) {
    let _ = (schema.flags(classes), schema.class_index_values(classes));
    for (at, class) in classes.iter().enumerate() {
        for (list, structural) in [(vec![*class], None), (classes[at..].to_vec(), Some(*class))] {
            if let Ok(profile) = schema.profile(&list, structural) {
                check(schema, &profile);
            }
        }
    }
}

fn check(schema: &Schema, profile: &ObjectClassSet) {
    let all: Vec<_> = schema.attributes().map(|kind| (kind.id, kind.id.index() % 2 == 0)).collect();
    let _ = profile.check(schema, &[]);
    for (at, present) in all.iter().enumerate() {
        let _ = profile.check(schema, &[*present]);
        let _ = profile.check(schema, &all[..at]);
    }
}
