//! Filters as RFC 4515 writes them. The bytes are those that ldapsearch of OpenLDAP 2.5 sends.

use wire::filter::encode;

fn hex(text: &str) -> String {
    let bytes = encode(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[test]
fn comparisons() {
    assert_eq!(hex("(cn=a)"), "a3070402636e040161");
    assert_eq!(hex("cn=a"), "a3070402636e040161");
    assert_eq!(hex("(cn>=a)"), "a5070402636e040161");
    assert_eq!(hex("(cn<=a)"), "a6070402636e040161");
    assert_eq!(hex("(cn~=a)"), "a8070402636e040161");
    assert_eq!(hex("(cn=*)"), "8702636e");
    assert_eq!(hex("(cn=)"), "a3060402636e0400");
    assert_eq!(hex("(cn;lang-de=a)"), "a30f040a636e3b6c616e672d6465040161");
}

#[test]
fn combinations() {
    assert_eq!(hex("(&(cn=a)(sn=b))"), "a012a3070402636e040161a3070402736e040162");
    assert_eq!(hex("(|(cn=a)(sn=b))"), "a112a3070402636e040161a3070402736e040162");
    assert_eq!(hex("(!(cn=*))"), "a2048702636e");
    assert_eq!(hex("(&)"), "a000");
    assert_eq!(hex("(|)"), "a100");
}

#[test]
fn substrings() {
    assert_eq!(hex("(cn=a*b*c)"), "a40f0402636e3009800161810162820163");
    assert_eq!(hex("(cn=a*)"), "a4090402636e3003800161");
    assert_eq!(hex("(cn=*a)"), "a4090402636e3003820161");
    assert_eq!(hex("(cn=*a*)"), "a4090402636e3003810161");
}

#[test]
fn extensible_matches() {
    assert_eq!(hex("(cn:dn:2.4.6.8:=a)"), "a9138107322e342e362e388202636e8301618401ff");
    assert_eq!(hex("(cn:=a)"), "a9078202636e830161");
    assert_eq!(hex("(:dn:2.4:=a)"), "a90b8103322e348301618401ff");
}

#[test]
fn escapes() {
    assert_eq!(hex(r"(cn=\2a\28\29\5c\00)"), "a30b0402636e04052a28295c00");
    assert_eq!(hex("(cn=\u{e9})"), "a3080402636e0402c3a9");
    assert_eq!(hex(r"(cn=a\2a*)"), "a40a0402636e30048002612a");
}

#[test]
fn what_is_no_filter_is_refused() {
    let deep = format!("{}(cn=a){}", "(!".repeat(200), ")".repeat(200));
    for text in [
        "",
        "(",
        "()",
        "(cn)",
        "(cn=a",
        "cn=a)",
        "(cn=a)(sn=b)",
        "(=a)",
        "(c n=a)",
        r"(cn=\2)",
        r"(cn=\zz)",
        "(cn=**)",
        "(!(cn=a)(sn=b))",
        "(!)",
        "(&(cn=a)",
        "(cn=a(b)",
        "(:=a)",
        "(cn:a:b:=c)",
        &deep,
    ] {
        assert!(encode(text).is_err(), "{text}");
    }
}
