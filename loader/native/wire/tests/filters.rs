//! Filters in the syntax of RFC 4515. The expected bytes were captured from ldapsearch of OpenLDAP 2.5.

use wire::filter::encode;

fn hex(text: &str) -> String {
    let bytes = encode(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Tests one filter of each kind; `tests/unit/native/test_wire.py` compares more filters with ldapsearch.
#[test]
fn each_kind_of_filter() {
    for (text, encoded) in [
        ("cn=a", "a3070402636e040161"),
        ("(cn>=a)", "a5070402636e040161"),
        ("(cn<=a)", "a6070402636e040161"),
        ("(cn~=a)", "a8070402636e040161"),
        ("(cn=*)", "8702636e"),
        ("(&(cn=a)(sn=b))", "a012a3070402636e040161a3070402736e040162"),
        ("(&)", "a000"),
        ("(|)", "a100"),
        ("(!(cn=*))", "a2048702636e"),
        ("(cn=a*b*c)", "a40f0402636e3009800161810162820163"),
        ("(cn:dn:2.4.6.8:=a)", "a9138107322e342e362e388202636e8301618401ff"),
        (r"(cn=\2a\28\29\5c\00)", "a30b0402636e04052a28295c00"),
    ] {
        assert_eq!(hex(text), encoded, "{text}");
    }
}

#[test]
fn an_invalid_filter_is_refused() {
    let deep = format!("{}(cn=a){}", "(!".repeat(200), ")".repeat(200));
    for texts in [
        &["", "(", "()", "(cn)", "(cn=a", "cn=a)", "(cn=a(b)", "(cn=a)(sn=b)"][..],
        &["(=a)", "(c n=a)", "(cn =a)", "(cn=a**b)", r"(cn=\2)", r"(cn=\zz)", "(cn=**)", "(:=a)", "(cn:a:b:=c)"],
        &["(!(cn=a)(sn=b))", "(!)", "(&(cn=a)", &deep],
    ] {
        for text in texts {
            assert!(encode(text).is_err(), "{text}");
        }
    }
}
