//! DNs in pretty and normal form. The expected forms are those of slapd 2.5.13.

mod support;

use support::{schema, text};

#[test]
fn dns_have_slapds_pretty_and_normal_forms() {
    let schema = schema();
    for (dn, pretty, normal) in [
        ("", "", ""),
        ("uid=Bob,dc=Example", "uid=Bob,dc=Example", "uid=bob,dc=example"),
        ("  CN = A  B ; 2.5.4.10=x ", "cn=A  B,o=x", "cn=a b,o=x"),
        ("sn=B+cn=A", "cn=A+sn=B", "cn=a+sn=b"),
        ("cn;lang-en=x", "cn=x", "cn=x"),
        ("cn=\"a, \\\" \\2C b \"", "cn=a\\2C \\22 2C b\\20", "cn=a\\2C \\22 2c b"),
        ("cn=a\\,b\\3D\\c3\\a4\\ ", "cn=a\\2Cb\\3D\u{e4}\\20", "cn=a\\2Cb\\3D\u{e4}"),
        ("cn=a\\\\ ,dc=x", "cn=a\\5C\\20,dc=x", "cn=a\\5C,dc=x"),
        ("cn=\\#\\ x#", "cn=\\23 x#", "cn=\\23 x#"),
        ("cn=\\00", "cn=\\00", "cn=\\00"),
        ("objectClass=PERSON", "objectClass=person", "objectClass=person"),
        (
            "entryUUID=12345678-1234-1234-1234-1234567890AB",
            "entryUUID=12345678-1234-1234-1234-1234567890ab",
            "entryUUID=12345678-1234-1234-1234-1234567890ab",
        ),
        ("uniqueMember=CN=X\\#'01'B", "uniqueMember=cn\\3DX#'01'B", "uniqueMember=cn\\3Dx#'01'B"),
    ] {
        let found = schema.dn(dn.as_bytes()).unwrap();
        assert_eq!(text(&found.pretty()), pretty, "{dn}");
        assert_eq!(text(&found.normal()), normal, "{dn}");
    }
}

#[test]
fn invalid_dns_are_refused() {
    let schema = schema();
    for dns in [
        &["cn", "cn=", "cn=a,", ",cn=a", "cn=a+", "cn=a,,dc=x", " "][..],
        &["cn=a<b", "cn=a\0", "cn=a\\xb", "cn=a\\", "cn=\"a", "cn=\"a\"b", "seeAlso=CN=Foo\\, Bar"],
        &["cn=#0403616263", "cn=#x", "cn=#\\20x"],
        &["x_y=a", "nope=a", "1.2.3=a", "2.5.4.3;x=a", "cn=a+CN=b"],
        &["uidNumber=007", "dc=\u{e4}", "mail=\\20", "sorted={0}a", "seeAlso=x", "objectClass=nope"],
        &["userPassword=\\ff", "authzTo=x", "userCertificate=x"],
    ] {
        for dn in dns {
            assert!(schema.dn(dn.as_bytes()).is_err(), "{dn}");
        }
    }
    assert!(schema.dn(format!("cn={}", "x".repeat(8189)).as_bytes()).is_ok());
    assert!(schema.dn(format!("cn={}", "x".repeat(8190)).as_bytes()).is_err());
    assert!(schema.dn("seeAlso=".repeat(1000).as_bytes()).is_err());
}

#[test]
fn dn_values_are_normalised_from_their_text() {
    let schema = schema();
    let normal = |name: &[u8], value: &str| {
        let mut out = Vec::new();
        let kept = schema.normalise(schema.attribute(name).unwrap(), value.as_bytes(), &mut out);
        kept.map(|kept| kept.then(|| text(&out)))
    };
    assert_eq!(normal(b"member", "UID=Bob , OU=x").unwrap().unwrap(), "uid=bob,ou=x");
    assert_eq!(normal(b"member", "").unwrap().unwrap(), "");
    assert_eq!(normal(b"uniqueMember", "CN=A#'01'B").unwrap().unwrap(), "cn=a#'01'B");
    assert_eq!(normal(b"uniqueMember", "CN=A#'2'B").unwrap().unwrap(), "cn=a#'2'b");
    let uuid = "entryUUID=12345678-1234-1234-1234-1234567890AB";
    assert_eq!(normal(b"member", uuid).unwrap().unwrap(), uuid);
    assert_eq!(normal(b"sorted", "{1}A  B").unwrap().unwrap(), "{1}a b");
    assert_eq!(normal(b"sorted", "{x}A  B").unwrap().unwrap(), "{x}a b");
    assert_eq!(normal(b"userPassword", "A").unwrap(), None);
    assert!(normal(b"authzTo", "{0}UID=Bob").is_err());
}

#[test]
fn values_are_checked() {
    let schema = schema();
    let check =
        |name: &[u8], value: &str| schema.check_value(schema.attribute(name).unwrap(), value.as_bytes()).is_ok();
    assert!(check(b"member", "cn=x") && !check(b"member", "x") && !check(b"member", "cn="));
    assert!(check(b"uniqueMember", "cn=x#'1'B") && !check(b"uniqueMember", "x#'1'B"));
    assert!(check(b"objectClass", "2.5.6.6") && !check(b"objectClass", "nope"));
    assert!(check(b"sorted", "{0}x") && !check(b"sorted", "{0}") && check(b"sorted", "{a}"));
    assert!(check(b"uidNumber", "7") && !check(b"uidNumber", "x"));
}
