//! Entries become the same records as in slapcat's output, and their rows match these records.

mod support;

use std::collections::BTreeMap;

use ldif::blocks::Block;
use ldif::records::Records;
use proptest::prelude::*;
use support::entry;
use tree::fingerprint::Fingerprinter;
use tree::{EntryRecord, Names};
use wire::{Message, Recorder};

type Attributes = Vec<(String, Vec<Vec<u8>>)>;

fn recorded(recorder: &mut Recorder, bytes: &[u8]) -> (String, EntryRecord) {
    let message = Message::read(bytes).unwrap();
    let (mut text, mut plain) = (Vec::new(), Vec::new());
    let row = recorder.record_with_row(&message.entry().unwrap(), &mut text).unwrap();
    recorder.record(&message.entry().unwrap(), &mut plain).unwrap();
    assert_eq!(text, plain);
    (String::from_utf8(text).unwrap(), row)
}

fn record(attributes: &[(&str, &[&str])], drop: &[&str]) -> String {
    let owned = |(name, values): &(&str, &[&str])| {
        ((*name).to_owned(), values.iter().map(|value| value.as_bytes().to_vec()).collect())
    };
    let bytes = entry("cn=a,dc=x", &attributes.iter().map(owned).collect::<Attributes>());
    recorded(&mut Recorder::new(Names::new(drop)), &bytes).0
}

/// Returns the row that arranging would derive from the text.
fn row_of(text: &str) -> EntryRecord {
    let block = Block { bytes: text.as_bytes(), line: 1, last: true };
    let record = Records::new(&block).next().unwrap().unwrap();
    EntryRecord::of(&record, &mut Fingerprinter::new(tree::join::context_csn())).unwrap()
}

#[test]
fn a_record_has_a_line_for_each_value() {
    let text = record(&[("cn", &["a", "b"]), ("description", &[" x", "\u{e9}"]), ("sn", &[""])], &[]);
    let expected = "dn: cn=a,dc=x\ncn: a\ncn: b\ndescription:: IHg=\ndescription:: w6k=\nsn:\n\n";
    assert_eq!(text, expected);
}

#[test]
fn values_sent_in_pieces_are_written_together() {
    let text = record(&[("cn", &["a"]), ("sn", &["b"]), ("CN", &["c"]), ("cn;x-y", &["d"])], &[]);
    assert_eq!(text, "dn: cn=a,dc=x\ncn: a\nCN: c\nsn: b\ncn;x-y: d\n\n");
}

#[test]
fn dropped_attributes_are_omitted_with_all_options() {
    let given: [(&str, &[&str]); 3] = [("entrydn", &["x"]), ("entryDN;x-y", &["x"]), ("sn", &["b"])];
    assert_eq!(record(&given, &["entryDN"]), "dn: cn=a,dc=x\nsn: b\n\n");
}

#[test]
fn a_name_that_would_break_a_line_is_refused() {
    for name in ["cn: a\nuserPassword", "", "c n", "cn\0"] {
        let bytes = entry("cn=a", &[(name, vec![b"x".to_vec()])]);
        let message = Message::read(&bytes).unwrap();
        let mut recorder = Recorder::new(Names::default());
        assert!(recorder.record(&message.entry().unwrap(), &mut Vec::new()).is_err(), "{name:?}");
    }
}

fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..4)
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let uuid = Just("0D1B35F4-2212-4427-B0AE-AA677D1C7867".as_bytes().to_vec());
    let csn = Just(b"20251231235959.999998Z#000000#001#000000".to_vec());
    let stamps = prop_oneof![
        ("entryUUID|ENTRYUUID", uuid.prop_map(|one| vec![one])),
        ("entryCSN|entryCSN;x-a", csn.prop_map(|one| vec![one])),
        ("contextCSN", values()),
    ];
    prop::collection::vec(prop_oneof![4 => ("[a-cA-C](;x-[ab])?", values()), 1 => stamps], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_row_matches_its_record(
        dn in r"(cn=[a-cA-C ,+=\\]{0,6},)?(OU=[ab]\\,c,)?dc=x",
        attributes in attributes(),
        others in attributes(),
    ) {
        let mut recorder = Recorder::new(Names::new(["b"]));
        recorded(&mut recorder, &entry("dc=x", &others));
        let (text, row) = recorded(&mut recorder, &entry(&dn, &attributes));
        prop_assert_eq!(row, row_of(&text));
        prop_assert_eq!(row, EntryRecord::from_bytes(&row.to_bytes()));

        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for (name, values) in &attributes {
            let name = name.to_lowercase();
            if name.split(';').next() != Some("b") {
                *expected.entry(name).or_default() += values.len();
            }
        }
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        let mut last = String::new();
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap().to_lowercase();
            prop_assert!(name == last || !found.contains_key(&name), "the values of {} are apart in {}", name, text);
            *found.entry(name.clone()).or_default() += 1;
            last = name;
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn earlier_entries_do_not_affect_a_record(
        entries in prop::collection::vec(attributes(), 1..60),
    ) {
        let mut recorder = Recorder::new(Names::default());
        for attributes in &entries {
            let bytes = entry("cn=a,dc=x", attributes);
            let fresh = recorded(&mut Recorder::new(Names::default()), &bytes);
            prop_assert_eq!(recorded(&mut recorder, &bytes), fresh);
        }
    }
}
