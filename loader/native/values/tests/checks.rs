//! Syntaxes accept the same values as in slapd, and orders equal those of slapd.

use std::cmp::Ordering;

use proptest::prelude::*;
use values::{Order, Syntax};

const RFC_4517: &str = "1.3.6.1.4.1.1466.115.121.1.";

fn accepts(oid: &str, value: &[u8]) -> bool {
    let oid = if oid.contains('.') { oid.to_owned() } else { format!("{RFC_4517}{oid}") };
    Syntax::from_oid(&oid).expect("a known syntax").check(value).is_ok()
}

/// An OID, values that slapd accepts, and values that it refuses.
type Case = (&'static str, &'static [&'static [u8]], &'static [&'static [u8]]);

const CASES: &[Case] = &[
    ("6", &[b"'0101'B", b"''B"], &[b"", b"'B", b"'2'B", b"'01'b"]),
    ("7", &[b"TRUE", b"FALSE"], &[b"true", b"", b"TRUE "]),
    ("10", &[b"\x30\x80"], &[b"\x30", b"\x31\x00"]),
    ("11", &[b"DE", b"D "], &[b"D", b"DEU", b"D$"]),
    ("14", &[b"any", b"mhs $  Telex$ia5"], &[b"", b"any ", b" any", b"any$", b"any\t$ mhs", b"fax"]),
    ("15", &[b"x", b"\xC3\xA9", b"\xED\xA0\x80"], &[b"", b"\xC3", b"\xC0\x80"]),
    ("22", &[b"+49 1$fine"], &[b"", b"a$", b"$a", b"a$*"]),
    ("24", &[b"2020010112Z"], &[b"20200101Z", b""]),
    ("26", &[b"", b"\x7F\x00"], &[b"\x80"]),
    ("27", &[b"0", b"-1", b"100"], &[b"", b"-", b"-0", b"01", b"+1", b"1x"]),
    ("36", &[b"1 2", b" "], &[b"", b"1a"]),
    ("40", &[b"", b"\xFF"], &[]),
    ("41", &[b"a$b", b"\\24\\5c\\5C", b""], &[b"\\", b"\\2", b"\\25", b"\\\\24", b"\xC3"]),
    ("44", &[b"aA0'()+,-./:? ="], &[b"", b"*", b"a$", b"\xC3\xA9"]),
    ("45", &[b"", b"{}"], &[b"\xC3"]),
    ("50", &[b"+1 (800) 555"], &[b"", b"#"]),
    ("58", &[b"anything"], &[]),
    ("1.3.6.1.1.1.0.0", &[b"(a,b,c)", b"(,-,)"], &[b"", b"(", b"()", b"(a,b)", b"(a,b,c,d)", b"((,,)"]),
    ("1.3.6.1.1.1.0.1", &[b"key=server:/path", b"=:"], &[b"", b"a=b", b"a:b", b"a=b:*"]),
    (
        "1.3.6.1.1.16.1",
        &[b"aabbccdd-0011-2233-4455-66778899AAFF"],
        &[b"", b"aabbccdd00112233445566778899AAFF----", b"aabbccdd-0011-2233-4455-66778899AAFFF"],
    ),
    ("1.3.6.1.4.1.4203.666.11.2.1", &[b"20230301123456.123456Z#00ABCD#0AB#00FFEE"], &[b"", b"#"]),
    ("1.3.6.1.4.1.4203.666.11.2.4", &[b"0aF"], &[b"", b"00", b"00g"]),
    ("1.3.6.1.4.1.4203.1.1.1", &[], &[b"", b"x"]),
];

#[test]
fn syntaxes_accept_and_refuse_as_slapd_does() {
    for (oid, good, bad) in CASES {
        for value in *good {
            assert!(accepts(oid, value), "{oid} {value:?}");
        }
        for value in *bad {
            assert!(!accepts(oid, value), "{oid} {value:?}");
        }
    }
}

#[test]
fn other_syntaxes_are_unknown() {
    for oid in ["8", "12", "34", "38", "53", "59", "06", "+6", ""] {
        assert_eq!(Syntax::from_oid(&format!("{RFC_4517}{oid}")), None, "{oid}");
    }
    assert_eq!(Syntax::from_oid(""), None);
}

#[track_caller]
fn assert_order(order: Order, values: &[&str]) {
    assert!(values.is_sorted_by(|a, b| {
        order.compare(a.as_bytes(), b.as_bytes()) == Ordering::Less
            && order.compare(b.as_bytes(), a.as_bytes()) == Ordering::Greater
            && order.compare(a.as_bytes(), a.as_bytes()) == Ordering::Equal
    }));
}

#[test]
fn values_are_ordered_as_in_slapd() {
    assert_order(Order::Octets, &["", "b", "aa", "ab"]);
    assert_order(Order::Integer, &["-100", "-99", "-1", "0", "1", "10", "99", "100"]);
    assert_order(Order::Boolean, &["FALSE", "TRUE"]);
    let names = ["ou=b#'0'B", "cn=bb#'0'B", "ou=a#'1'B", "cn=a#'00'B", "cn=a", "cn=b", "cn=a#'2'B"];
    assert_order(Order::NameUid, &names);
}

proptest! {
    #[test]
    fn integers_have_the_order_of_the_numbers(a: i128, b: i128, shift in 0..127u32) {
        let (a, b) = (a >> shift, b >> shift);
        let found = Order::Integer.compare(a.to_string().as_bytes(), b.to_string().as_bytes());
        prop_assert_eq!(found, a.cmp(&b));
    }

    #[test]
    fn any_utf8_is_a_directory_string(text in ".+") {
        prop_assert!(accepts("15", text.as_bytes()));
    }
}
