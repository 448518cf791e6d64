//! Encoded values can be decoded. The fuzz targets test that no input makes a decoder panic.

mod support;

use proptest::prelude::*;
use support::entry;
use wire::Message;
use wire::ber::{Element, OCTETS, Reader, SEQUENCE, Writer, frame};
use wire::message::tag;

const MOST: usize = 1 << 20;

fn attributes() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<Vec<u8>>)>> {
    let value = prop::collection::vec(any::<u8>(), 0..300);
    let values = prop::collection::vec(value, 0..4);
    prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), values), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_survive_encoding(number in any::<i32>()) {
        let mut out = Writer::default();
        out.integer(number);
        out.enumerated(number);
        let mut reader = Reader::new(out.bytes());
        prop_assert_eq!((reader.integer().unwrap(), reader.enumerated().unwrap()), (number, number));
        prop_assert!(reader.is_at_end());
        prop_assert!(out.bytes().len() <= 12);
    }

    #[test]
    fn entries_survive_encoding(dn in prop::collection::vec(any::<u8>(), 0..200), attributes in attributes()) {
        let bytes = entry(&dn, &attributes);
        prop_assert_eq!(frame(&bytes, SEQUENCE, MOST).unwrap(), Some(bytes.len()));
        let message = Message::read(&bytes).unwrap();
        prop_assert_eq!((message.id, message.tag), (7, tag::ENTRY));
        let read = message.entry().unwrap();
        prop_assert_eq!(read.dn, &dn[..]);
        let found: Vec<(Vec<u8>, Vec<Vec<u8>>)> = read
            .attributes
            .map(|attribute| {
                let (name, values) = attribute.unwrap();
                (name.to_vec(), values.map(|value| value.unwrap().to_vec()).collect())
            })
            .collect();
        prop_assert_eq!(found, attributes);
    }

    #[test]
    fn truncated_messages_are_errors(attributes in attributes(), at in any::<prop::sample::Index>()) {
        let bytes = entry(b"cn=a,dc=x", &attributes);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(Message::read(cut).is_err());
        // `frame` waits for more while the message is incomplete.
        prop_assert!(frame(cut, SEQUENCE, MOST).unwrap().is_none_or(|whole| whole == bytes.len()));
    }
}

#[test]
fn lengths_take_the_fewest_bytes() {
    for (length, header) in [(0, 2), (127, 2), (128, 3), (255, 3), (256, 4), (65_536, 5)] {
        let mut out = Writer::default();
        out.sequence(|out| out.raw(&vec![b'a'; length]));
        assert_eq!(out.bytes().len(), header + length);
        let element = Reader::new(out.bytes()).element().unwrap();
        assert_eq!(element, Element { tag: SEQUENCE, body: &vec![b'a'; length] });
    }
}

#[test]
fn impossible_lengths_are_refused() {
    // An indefinite length, a length in nine bytes, one larger than memory, one larger than the limit.
    let long: [&[u8]; 4] = [
        &[0x30, 0x80],
        &[0x30, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x30, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff],
    ];
    for bytes in long {
        assert!(frame(bytes, SEQUENCE, MOST).is_err(), "{bytes:x?}");
        assert!(Message::read(bytes).is_err(), "{bytes:x?}");
    }
}

#[test]
fn bytes_that_do_not_begin_a_message_are_refused() {
    assert!(frame(b"HTTP/1.1 400 Bad Request", SEQUENCE, MOST).is_err());
    assert!(Reader::new(&[0x1f, 0x81, 0x01, 0x00]).element().is_err(), "a tag of two bytes");
    assert!(Reader::new(&[OCTETS, 0x00]).expect(SEQUENCE).is_err());
}
