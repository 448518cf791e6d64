//! Normal forms equal those that a real slapd stores, and have certain properties for all values.

use proptest::prelude::*;
use values::Normaliser::{self, *};

fn normal(normaliser: Normaliser, value: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"kept".to_vec();
    let result = normaliser.apply(value, &mut out);
    let added = out.strip_prefix(b"kept").expect("earlier output is kept");
    assert!(result.is_ok() || added.is_empty(), "a refused value appends nothing");
    result.is_ok().then(|| added.to_vec())
}

#[track_caller]
fn assert_normal(normaliser: Normaliser, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        let found = normal(normaliser, value.as_bytes()).map(String::from_utf8);
        assert_eq!(found, Some(Ok((*expected).to_owned())), "{value:?}");
    }
}

#[track_caller]
fn assert_refused(normaliser: Normaliser, values: &[&[u8]]) {
    for value in values {
        assert_eq!(normal(normaliser, value), None, "{value:?}");
    }
}

#[test]
fn insignificant_spaces_are_removed() {
    let cases = [
        ("  Ab  C ", "ab c"),
        ("a", "a"),
        (" ", " "),
        ("    ", " "),
        ("\u{A0}A\u{A0} \u{A0}B\u{A0}", "a b"),
        ("\tA\t ", "\ta\t"),
        ("", ""),
    ];
    assert_normal(CaseIgnore, &cases);
    assert_normal(CaseExact, &[("  Ab  C ", "Ab C")]);
    assert_normal(CaseIgnoreIa5, &[("  Ab  C ", "ab c"), ("   ", ""), (" A \0 B", "a")]);
    assert_normal(CaseExactIa5, &[("  Ab  C ", "Ab C")]);
    assert_normal(Telephone, &[(" +44 20-79 ", "+442079"), ("- -", " ")]);
    assert_normal(NumericString, &[("1 2  3", "123"), ("  ", " "), ("1\0 2", "1")]);
    assert_normal(CaseIgnoreList, &[(" A  b $ $$\\24 C", "a b$ $$\\24 c"), ("$", "$")]);
    assert_normal(CaseExactList, &[("A $B", "A$B")]);
}

#[test]
fn text_is_normalised_by_unicode_3_2() {
    let cases = [
        ("ÄÖÜß", "äöüß"),
        ("A\u{308}", "ä"),
        ("℃ Ⅷ №", "°C VIII No"), // symbols are not folded, so their letters are capitals
        ("ＦＵＬＬ", "full"),
        ("İ", "i"),
        ("\u{1E9E}", "\u{1E9E}"),                       // not a capital before Unicode 5.1
        ("\u{10A0}", "\u{10A0}"),                       // no small letter before Unicode 4.1
        ("\u{1D400}\u{1D60E}\u{1D60F}", "AG\u{1D60F}"), // the search in the table ends too early
        ("\u{F900}\u{F902}", "\u{F900}\u{8ECA}"),
        ("\u{F71}\u{F72}\u{F74}", "\u{F75}\u{F72}"), // a mark at the head of a segment is composed
        ("\u{1112}\u{1161}\u{11AB}", "한"),
        ("\u{AC00}\u{11C3}", "\u{AC1C}"),
        ("\u{D7A4}", "\u{1113}\u{1161}"),
        ("a\u{301}\u{328}", "\u{105}\u{301}"),
    ];
    assert_normal(CaseIgnore, &cases);
    assert_normal(CaseExact, &[("ÄÖÜß ﬁ", "ÄÖÜß fi")]);
}

#[test]
fn utf8_of_rfc_2279() {
    let longest = b"a\xFD\xBF\xBF\xBF\xBF\xBF";
    assert_eq!(normal(CaseIgnore, longest).unwrap(), longest);
    assert_eq!(normal(CaseExact, b"\xED\xA0\x80").unwrap(), b"\xED\xA0\x80");
    let wrong: [&[u8]; 6] = [b"\xC0\x80", b"a\x80", b"\xC3", b"\xC3A", b"\xE0\x80\x80", b"ok\xFE\x80\x80\x80\x80\x80"];
    assert_refused(CaseIgnore, &wrong);
    assert_refused(CaseIgnoreList, &[b"fine$\xC3$"]);
}

#[test]
fn times_are_converted_to_utc() {
    let cases = [
        ("2020010112Z", "20200101120000Z"),
        ("202001011234,500Z", "20200101123400.5Z"),
        ("20200101123456.000Z", "20200101123456Z"),
        ("20200101000000+0100", "20191231230000Z"),
        ("20200228233000-0130", "20200229010000Z"),
        ("20191231235960Z", "20191231235960Z"),
        ("00000229000000Z", "00000229000000Z"),
    ];
    assert_normal(GeneralizedTime, &cases);
    assert_refused(GeneralizedTime, &[b"20200101Z", b"20200101120000", b"20200101000000.Z", b"20200101000000Z "]);
    assert_refused(GeneralizedTime, &[b"20190229000000Z", b"20201301000000Z", b"20200101240000Z"]);
    assert_refused(GeneralizedTime, &[b"00000101000000+01", b"99991231235959-01"]);
}

#[test]
fn uuids_and_csns_are_normalised() {
    let uuid = normal(Uuid, b"AABBCCDD-0011-2233-4455-66778899aaff").unwrap();
    assert_eq!(uuid, b"\xAA\xBB\xCC\xDD\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xAA\xFF");
    let elsewhere = normal(Uuid, b"AABBCCDD00112-233-445-5667788-99aaff").unwrap();
    assert_eq!(elsewhere, uuid);
    assert_refused(Uuid, &[b"", b"AABBCCDD-0011-2233-4455-66778899aag", &[b'-'; 36]]);
    let cases = [
        ("20230301123456.123456Z#00ABCD#0AB#00FFEE", "20230301123456.123456Z#00ABCD#0ab#00ffee"),
        ("20230301123456.123456Z#00ABCD#0AB#0#FFE#", "20230301123456.123456Z#00ABCD#0ab#0#ffe#"),
        ("20200101000000Z#00000A#AB#00000A", "20200101000000.000000Z#00000A#0ab#00000a"),
        ("2020010112:34:56Z#0x00AB#0#00Ab", "20200101123456.000000Z#0000AB#000#0000ab"),
    ];
    assert_normal(Csn, &cases);
    let wrong: [&[u8]; 6] = [
        b"",
        b"20230301123456.123456Z#00ABCD#0AB#00FFEE0",
        b"2023#301123456.123456Z#00ABCD#0AB#00FFEE",
        b"20230301123456.123456Z#00ABC#D0AB#00FFEE",
        b"20200101000000Z#00000A#AG#00000A",
        b"2020010112-34:56Z#0x00AB#0#00Ab",
    ];
    assert_refused(Csn, &wrong);
}

proptest! {

    #[test]
    fn words_keep_their_order(value in "[ a-zA-Z]{1,60}") {
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let expected = if words.is_empty() { " ".to_owned() } else { words.join(" ") };
        prop_assert_eq!(normal(CaseExact, value.as_bytes()).unwrap(), expected.as_bytes());
    }

    #[test]
    fn marks_of_different_classes_are_sorted(
        base in "[a-zα-ω]", mut marks in Just(vec!['\u{301}', '\u{323}', '\u{328}']).prop_shuffle(),
    ) {
        let text = |marks: &[char]| base.chars().chain(marks.iter().copied()).collect::<String>();
        let shuffled = normal(CaseExact, text(&marks).as_bytes());
        marks.sort_unstable();
        prop_assert_eq!(shuffled, normal(CaseExact, text(&marks).as_bytes()));
    }

    #[test]
    fn utf8_is_decoded_as_by_the_standard_library(text: String) {
        prop_assert!(normal(CaseIgnore, text.as_bytes()).is_some());
    }
}

#[test]
fn many_marks_do_not_take_quadratic_time() {
    let text = "a".to_owned() + &"\u{301}\u{323}".repeat(500_000);
    assert!(normal(CaseIgnore, text.as_bytes()).is_some());
}
