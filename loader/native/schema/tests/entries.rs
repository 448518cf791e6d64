//! Entries are accepted and refused as by slapadd 2.5.13.

mod support;

use schema::{Ava, Definition, InvalidValue, ObjectClassSet, Schema, Settings};
use support::{definitions, schema};

fn profile(schema: &Schema, classes: &[&str]) -> Result<ObjectClassSet, InvalidValue> {
    let classes: Vec<&[u8]> = classes.iter().map(|class| class.as_bytes()).collect();
    schema.profile(&classes, None)
}

/// Checks an entry with one value for each attribute, or two values if the name ends in `*`.
fn judge(classes: &[&str], attributes: &[&str]) -> Result<(), String> {
    let schema = schema();
    let profile = profile(&schema, classes).map_err(|refusal| refusal.to_string())?;
    let present = attributes.iter().chain(&["objectClass"]).map(|name| {
        let base = name.trim_end_matches('*');
        (schema.attribute(base.as_bytes()).unwrap(), base != *name)
    });
    profile.check(&schema, &present.collect::<Vec<_>>()).map_err(|refusal| refusal.to_string())
}

#[test]
fn valid_entries_are_accepted() {
    for (classes, attributes) in [
        (&["person"][..], &["cn", "sn"][..]),
        (&["top", "person", "organizationalPerson"], &["cn", "sn", "ou*", "entryUUID"]),
        (&["person", "uidObject"], &["cn", "sn", "uid"]),
        (&["person", "extensibleObject"], &["cn", "sn", "mail", "uidNumber"]),
        (&["person", "shapely"], &["cn", "sn", "o", "mail"]),
        (&["person", "shapely", "shape"], &["cn", "sn", "o"]),
        (&["2.5.6.6"], &["cn", "sn"]),
        (&["alias"], &["aliasedObjectName"]),
        (&["subentry"], &["cn", "subtreeSpecification"]),
        (&["ruled", "uidObject"], &["cn", "o", "uid", "mail"]),
    ] {
        assert_eq!(judge(classes, attributes), Ok(()), "{classes:?} {attributes:?}");
    }
}

#[test]
fn invalid_entries_are_refused_with_a_reason() {
    for (classes, attributes, reason) in [
        (&["person"][..], &["cn"][..], "object class 'person' requires attribute 'sn'"),
        (&["person"], &["cn", "sn", "mail"], "attribute 'mail' is not allowed"),
        (&["uidObject"], &["uid"], "no structural object class"),
        (&["person", "organizationalUnit"], &[], "'person' and 'organizationalUnit'"),
        (&["person", "nope"], &[], "unknown object class 'nope'"),
        (&["ancient"], &["cn"], "object class 'ancient' is obsolete"),
        (&["person", "shape"], &["cn", "sn", "o"], "'shape' is abstract"),
        (&["person", "shapely"], &["cn", "sn"], "object class 'shapely' requires attribute 'o'"),
        (&["extensibleObject", "person"], &["cn", "sn", "c*"], "'c' is single-valued"),
        (&["extensibleObject", "person"], &["cn", "sn", "shared"], "'shared' is collective"),
        (&["extensibleObject", "person"], &["cn", "sn", "vendorName"], "root DSE"),
        (&["extensibleObject", "person"], &["cn", "sn", "ref"], "belongs in a referral"),
        (&["extensibleObject", "person"], &["cn", "sn", "subtreeSpecification"], "in a subentry"),
        (&["extensibleObject", "person"], &["cn", "sn", "aliasedObjectName"], "in an alias"),
        (&["person", "dynamicObject"], &["cn", "sn"], "needs the overlay dds"),
        (&["ruled"], &["cn"], "content rule 'rule' requires attribute 'o'"),
        (&["ruled"], &["cn", "o", "description"], "precluded by a content rule"),
        (&["ruled", "shapely"], &["cn", "o"], "not allowed by content rule 'rule'"),
    ] {
        let message = judge(classes, attributes).unwrap_err();
        assert!(message.contains(reason), "{classes:?} {attributes:?}: {message}");
    }
}

#[test]
fn the_overlay_dds_makes_dynamic_objects() {
    let all: Vec<Definition> = definitions();
    let settings = Settings { dynamic_objects: true, ..Settings::default() };
    let schema = Schema::read(&all, settings).unwrap();
    assert!(profile(&schema, &["person", "dynamicObject"]).is_ok());
}

#[test]
fn an_explicit_structural_class_must_be_right() {
    let schema = schema();
    let classes: [&[u8]; 2] = [b"person", b"organizationalPerson"];
    let with = |structural: &[u8]| schema.profile(&classes, Some(structural));
    let own = schema.class(b"organizationalPerson").unwrap();
    assert_eq!(with(b"ORGANIZATIONALPERSON").unwrap().structural, own);
    assert!(!with(b"organizationalPerson").unwrap().replaces_structural);
    assert!(with(b"glue").unwrap().replaces_structural);
    for wrong in [&b"person"[..], b"uidObject", b"nope"] {
        assert!(with(wrong).is_err());
    }
}

#[test]
fn flags_and_index_values_follow_from_the_classes() {
    let schema = schema();
    let flags = |classes: &[&str]| profile(&schema, classes).unwrap().flags;
    assert_eq!(flags(&["person"]), 0x100);
    assert_eq!(flags(&["top", "person"]), 0x1_0100);
    assert_eq!(flags(&["alias"]), 0x1_4101);
    assert_eq!(flags(&["glue"]), 0x1_c120);
    assert!(profile(&schema, &["glue"]).unwrap().is_glue());
    let classes: [&[u8]; 3] = [b"UIDOBJECT", b"Nope", b"organizationalPerson"];
    let values = schema.class_index_values(&classes).into_iter().map(|value| support::text(&value));
    let expected = ["uidObject", "Nope", "organizationalPerson", "top", "person"];
    assert_eq!(values.collect::<Vec<_>>(), expected);
}

#[test]
fn some_attributes_cannot_name_an_entry() {
    let schema = schema();
    let names = |dn: &str| schema.check_naming(&schema.rdn(dn.as_bytes()).unwrap()).is_ok();
    assert!(names("cn=x") && names("cn=x+uid=y"));
    for wrong in ["ref=x", "shared=x", "outdated=x", "plain=x", "cn=x+plain=y"] {
        assert!(!names(wrong), "{wrong}");
    }
}

#[test]
fn rdn_values_are_compared_by_their_rule() {
    let schema = schema();
    let has_value = |name: &str, asserted: &str, stored: &str| {
        let attribute = schema.attribute(name.as_bytes()).unwrap();
        let ava = Ava { attribute, value: Vec::new() };
        schema.rdn_value_held(&ava, asserted.as_bytes(), [stored.as_bytes()])
    };
    assert!(has_value("cn", "x", "x") && !has_value("cn", "x", "y"));
    assert!(has_value("objectClass", "person", "organizationalPerson"));
    assert!(!has_value("objectClass", "organizationalPerson", "person"));
}
