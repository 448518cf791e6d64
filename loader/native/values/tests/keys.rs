//! Index keys equal those that a real slapd stores, and have certain properties for all values.

use proptest::prelude::*;
use values::keys::{self, Key, Seed, Substrings, Width};

const DIRECTORY_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.15";
const IA5_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.26";
const OID: &str = "1.3.6.1.4.1.1466.115.121.1.38";

fn show(key: Key) -> String {
    format!("{key:?}")
}

#[test]
fn equality_keys_are_those_of_slapd() {
    let cases = [
        ("cn", DIRECTORY_STRING, "2.5.13.2", "user number 7", "db381418"),
        ("objectClass", OID, "2.5.13.0", "top", "0096defd"),
        ("objectClass", OID, "2.5.13.0", "inetOrgPerson", "860433ad"),
        ("uid", DIRECTORY_STRING, "2.5.13.2", "user0007", "57a43faf"),
        ("mail", IA5_STRING, "1.3.6.1.4.1.1466.109.114.2", "user7@example.com", "df7f724f"),
        ("member", "1.3.6.1.4.1.1466.115.121.1.12", "2.5.13.1", "uid=user0007,ou=people,dc=example,dc=com", "b36af30f"),
        ("telephoneNumber", "1.3.6.1.4.1.1466.115.121.1.50", "2.5.13.20", "+442079460007", "075c9673"),
    ];
    for (name, syntax, rule, value, key) in cases {
        let seed = Seed::new(Width::Four, name, "", syntax, rule);
        assert_eq!(show(seed.key(value.as_bytes())), key, "{name}={value}");
    }
    let seed = Seed::new(Width::Eight, "cn", "", DIRECTORY_STRING, "2.5.13.2");
    assert_eq!(show(seed.key(b"user number 7")), "b3783b44f30ad808");
}

fn cn_seeds(width: Width) -> [Seed; 3] {
    ["^", "*", "$"].map(|pre| Seed::new(width, "cn", pre, DIRECTORY_STRING, "2.5.13.4"))
}

#[test]
fn substring_keys_are_those_of_slapd() {
    let seeds = cn_seeds(Width::Four);
    let mut found = Vec::new();
    Substrings::default().each(&seeds, b"user number 7", |key| found.push(key));
    assert_eq!(found.len(), 10 + 3 + 3);
    for key in [0x045d_06f8, 0x296d_0476, 0xf9d7_f7f1, 0x3e9a_32c1, 0x5127_84df] {
        assert!(found.contains(&key), "{key:08x}");
    }
    Substrings::default().each(&seeds, b"x", |key| panic!("{key:08x} of a value that is too short"));
}

#[test]
fn integer_keys_are_those_of_slapd() {
    let cases = [
        (4, &[("0", "80000000"), ("1", "80000001"), ("-1", "7fffffff"), ("128", "80000080"), ("-129", "7fffff7f")][..]),
        (4, &[("65535", "8000ffff"), ("1073741823", "bfffffff"), ("1073741824", "c0400000")]),
        (4, &[("2147483647", "c07fffff"), ("2147483648", "c0800000"), ("1000000000000", "c1e8d4a5")]),
        (4, &[("-1073741824", "40000000"), ("-1073741825", "3fbfffff"), ("-2147483648", "3f800000")]),
        (4, &[("-2147483649", "3eff7fff"), ("-1000000000000", "3dff172b")]),
        (4, &[("1000000000000000000000000000000", "c93b9aca"), ("-1000000000000000000000000000000", "36c46536")]),
        (8, &[("1", "8000000000000001"), ("-1", "7fffffffffffffff")]),
        (8, &[("1000000000000000000000000000000", "c5152d02c7e14af6")]),
        (8, &[("-1000000000000000000000000000000", "3aead2fd381eb509")]),
    ];
    for (length, pairs) in cases {
        for (number, key) in pairs {
            assert_eq!(show(keys::integer(number.as_bytes(), length).unwrap()), *key, "{number}");
        }
    }
}

#[test]
fn long_integers_take_time_linear_in_their_digits() {
    let mut number = vec![b'9'; 10_000_000];
    assert!(keys::integer(&number, 8).is_ok());
    number[9_999_999] = b'x';
    assert!(keys::integer(&number, 8).is_err());
}

#[test]
fn time_keys_are_those_of_slapd() {
    let cases = [
        ("19700101000000Z", "4e79747c00"),
        ("20200229123456Z", "4ed7ced670"),
        ("20200229123456.5Z", "4ed7ced670"),
        ("00010101000000Z", "4001e28500"),
        ("99991231235959Z", "097968bd7f"),
    ];
    for (time, key) in cases {
        assert_eq!(keys::time(time.as_bytes()).map(show).as_deref(), Some(key), "{time}");
    }
    for no_time in ["2020022912345Z", "20201301000000Z", "20200229123456", "", "20200229123456.5"] {
        assert_eq!(keys::time(no_time.as_bytes()), None, "{no_time}");
    }
}

fn codes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    keys::phonetic(text.as_bytes(), |key| {
        found.push(String::from_utf8(key.as_bytes().to_vec()).unwrap());
    })
    .unwrap();
    found
}

#[test]
fn phonetic_keys_are_those_of_slapd() {
    let words = "smith schmidt knight wright xavier jones thomas";
    assert_eq!(codes(words), ["SM0", "SKMT", "NKT", "RKT", "SFR", "JNS", "0MS"]);
    assert_eq!(codes("dr. o'neil 42 é ?"), ["TR", "O", "E"]);
    assert_eq!(codes("box axt who signed"), ["KS", "AKS", "W", "SNT"]);
    assert_eq!(codes("only\0what stands before NUL"), ["ONL"]);
}

#[test]
fn keys_are_ordered_by_bytes_then_length() {
    let ordered: [&[u8]; 5] = [b"\0", b"\0\0", b"\0\x01", b"A", b"AB"];
    assert!(ordered.map(Key::new).is_sorted_by(|a, b| a < b));
}

#[test]
fn name_uid_part_ends_at_a_bit_string_only() {
    assert_eq!(keys::name_uid_part(b"cn=a#b#'01'B"), b"cn=a#b");
    assert_eq!(keys::name_uid_part(b"cn=a#'2'B"), b"cn=a#'2'B");
    assert_eq!(keys::name_uid_part(b"cn=a#''B"), b"cn=a");
    assert_eq!(keys::name_uid_part(b""), b"");
}

/// Computes FNV-1 by its definition.
fn fnv32(parts: &[&[u8]]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(16_777_619) ^ u32::from(*byte);
    parts.concat().iter().fold(0x811C_9DC5, step).swap_bytes()
}

proptest! {
    #[test]
    fn substring_keys_are_the_hashes_of_all_pieces(
        value: Vec<u8>, min in 1..4usize, more in 0..3usize, any in 1..7usize,
    ) {
        let sizes = Substrings { min, max: min + more, any };
        let mut found = Vec::new();
        sizes.each(&cn_seeds(Width::Four), &value, |key| found.push(key));
        let hash = |pre: &str, piece: &[u8]| {
            fnv32(&[b"cn", pre.as_bytes(), DIRECTORY_STRING.as_bytes(), b"2.5.13.4", piece])
        };
        let mut expected = Vec::new();
        for at in 0..value.len() {
            expected.extend(value.get(at..at + any).map(|piece| hash("*", piece)));
        }
        for length in min..=min + more {
            expected.extend(value.get(..length).map(|piece| hash("^", piece)));
            let start = value.len().checked_sub(length);
            expected.extend(start.map(|start| hash("$", &value[start..])));
        }
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn integer_keys_have_the_order_of_the_numbers(
        a: i128, b: i128, shift_a in 0..127u32, shift_b in 0..127u32, length in 4..=8usize,
    ) {
        let (a, b) = (a >> shift_a, b >> shift_b);
        let key = |number: i128| keys::integer(number.to_string().as_bytes(), length).unwrap();
        prop_assert_eq!(key(a).len(), length);
        if a <= b {
            prop_assert!(key(a) <= key(b));
        } else {
            prop_assert!(key(a) >= key(b));
        }
    }

    #[test]
    fn small_integers_have_exact_keys(number in -(1i64 << 30)..1i64 << 30) {
        let key = keys::integer(number.to_string().as_bytes(), 4).unwrap();
        let stored = u32::try_from(key.bits() >> 32).unwrap();
        prop_assert_eq!(i64::from(stored) - (1 << 31), number);
    }
}
