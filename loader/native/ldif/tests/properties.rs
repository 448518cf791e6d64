//! Properties for any input: written records can be read, and division into blocks loses nothing. The fuzz targets test
//! that no input makes the reader panic.

use std::io::{self, Read};

use ldif::blocks::{Block, Blocks};
use ldif::records::Records;
use ldif::walk::each_record;
use ldif::{Counters, Fields, Input, LineHead, write};
use proptest::prelude::*;

type Pairs = Vec<(String, Vec<u8>)>;

/// A reader that returns at most `step` bytes per call.
struct Trickle<'a> {
    rest: &'a [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (now, later) = self.rest.split_at(self.step.min(buffer.len()).min(self.rest.len()));
        buffer[..now.len()].copy_from_slice(now);
        self.rest = later;
        Ok(now.len())
    }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "[ -~]{0,80}".prop_map(String::into_bytes),
        "( |:|<|\r|\n|#|a){0,6}".prop_map(String::into_bytes),
    ]
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let name = "[a-zA-Z][a-zA-Z0-9-]{0,8}(;[a-z]{1,4})?";
    let reserved = ["dn", "changetype", "control", "version"];
    let name = name
        .prop_filter("has a meaning of its own", move |name| !reserved.contains(&name.to_ascii_lowercase().as_str()));
    prop::collection::vec((name, value()), 1..8)
}

fn write_record(dn: &[u8], pairs: &Pairs) -> Vec<u8> {
    let mut text = Vec::new();
    write::line(&mut text, b"dn", dn);
    for (name, value) in pairs {
        write::line(&mut text, name.as_bytes(), value);
    }
    text
}

fn read_all(text: &[u8]) -> Vec<(Vec<u8>, Pairs)> {
    let mut found = Vec::new();
    let visit = |record: &ldif::Record<'_>| {
        let entry = record.entry()?;
        let mut pairs = Pairs::new();
        for field in entry.fields {
            let field = field?;
            let name = String::from_utf8(field.description().to_vec()).unwrap();
            pairs.push((name, field.value()?.into_owned()));
        }
        found.push((entry.dn.into_owned(), pairs));
        Ok(())
    };
    each_record(Input::from_reader(text), &Counters::default(), visit).unwrap();
    found
}

/// Folds every line at `width` columns; slapcat folds at 76.
fn fold(text: &[u8], width: usize, line_end: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let (head, tail) = line.split_at(width.min(line.len()));
        out.extend_from_slice(head);
        for piece in tail.chunks(width) {
            out.extend_from_slice(line_end.as_bytes());
            out.push(b' ');
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(line_end.as_bytes());
    }
    out.truncate(out.len() - line_end.len());
    out
}

fn records() -> impl Strategy<Value = Vec<(Vec<u8>, Pairs)>> {
    prop::collection::vec((value(), pairs()), 1..12)
}

fn text_of(records: &[(Vec<u8>, Pairs)]) -> Vec<u8> {
    text_apart(records, 1)
}

fn text_apart(records: &[(Vec<u8>, Pairs)], blank_lines: usize) -> Vec<u8> {
    let blanks = vec![b'\n'; blank_lines];
    let texts: Vec<_> = records.iter().map(|(dn, pairs)| write_record(dn, pairs)).collect();
    [texts.join(&blanks[..]), blanks].concat()
}

proptest! {
    // A failure prints its minimal input, which then becomes a test instead of a seed file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_records_can_be_read(records in records()) {
        prop_assert_eq!(read_all(&text_of(&records)), records);
    }

    #[test]
    fn folds_and_line_ends_do_not_matter(records in records(), width in 1_usize..90) {
        let text = text_of(&records);
        prop_assert_eq!(&read_all(&fold(&text, width, "\n")), &records);
        prop_assert_eq!(&read_all(&fold(&text, width, "\r\n")), &records);
    }

    #[test]
    fn a_record_ends_before_the_first_empty_line(
        lines in prop::collection::vec("(|a|a\rb|a\r\r)(\n|\r\n)", 1..20),
    ) {
        let text = lines.concat();
        let (mut expected, mut goes_on) = (Vec::<(String, u64)>::new(), false);
        for (line, number) in lines.iter().flat_map(|one| one.split_inclusive('\n')).zip(1..) {
            let empty = matches!(line, "\n" | "\r\n");
            match expected.last_mut() {
                Some((record, _)) if goes_on && !empty => record.push_str(line),
                _ if !empty => expected.push((line.to_owned(), number)),
                _ => {}
            }
            goes_on = !empty;
        }
        let block = Block { bytes: text.as_bytes(), line: 1, last: false };
        let found = Records::new(&block).map(|record| {
            let record = record.unwrap();
            (String::from_utf8(record.bytes.to_vec()).unwrap(), record.line)
        });
        prop_assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn joined_blocks_equal_the_input(
        records in records(), step in 1_usize..40, size in 1_usize..300,
        blank_lines in 1_usize..4, crlf: bool, takes: bool,
    ) {
        let text = text_apart(&records, blank_lines);
        let text = fold(&text, 76, if crlf { "\r\n" } else { "\n" });
        let mut blocks = Blocks::with_sizes(Trickle { rest: &text, step }, size, 1 << 20);
        let (mut joined, mut found, mut line, mut spare) = (Vec::new(), Vec::new(), 1, Vec::new());
        while let Some(block) = blocks.next_block().unwrap() {
            prop_assert_eq!(block.line, line);
            // If a record were split, its second part would not begin with a DN.
            for record in Records::new(&block).map(Result::unwrap) {
                found.push((record.entry().is_ok(), record.closed, record.last));
            }
            line += block.bytes.split(|&byte| byte == b'\n').count() as u64 - 1;
            joined.extend_from_slice(block.bytes);
            let length = block.bytes.len();
            prop_assert_eq!(block.last, joined.len() == text.len());
            if takes {
                spare = blocks.take(length, length, spare);
                prop_assert_eq!(&spare, &joined[joined.len() - length..]);
            }
        }
        prop_assert_eq!(joined, text);
        let expected: Vec<_> = (1..=records.len()).map(|at| (true, true, at == records.len())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_line_with_the_expected_head_is_parsed_as_any_other(
        name in "[e-z]{1,20}", other in "[e-z]{1,20}", mark in "(: |:: |:|:< |:  )",
        value in "(a|bc| |\r|\n |\0|é){0,30}", rest in "(\n|\n a: b\n|\na: b\n)",
    ) {
        let text = format!("dn: a\n{name}{mark}{value}{rest}");
        let block = Block { bytes: text.as_bytes(), line: 1, last: true };
        let record = Records::new(&block).next().unwrap().unwrap();
        let mut fields = record.entry().unwrap().fields;
        let (mut other_way, mut decoded) = (fields.clone(), Vec::new());
        prop_assert!(other == name || fields.next_value(&LineHead::new(other.as_bytes()), &mut decoded).is_none());
        if let Some(found) = fields.next_value(&LineHead::new(name.as_bytes()), &mut decoded) {
            let field = other_way.next().unwrap().unwrap();
            prop_assert_eq!((field.description(), &*field.value().unwrap()), (name.as_bytes(), found));
        }
        let lines = |fields: Fields<'_>| fields.map(|field| field.map(|field| field.line)).map(Result::ok).collect::<Vec<_>>();
        let (head, mut again) = (LineHead::new(name.as_bytes()), record.entry().unwrap().fields);
        let value = record.entry().unwrap().fields.next_plain(&head);
        let mut in_run = again.clone();
        prop_assert!(value.is_none_or(|value| again.pass_value(&head, value)));
        let text = [name.as_bytes(), b": ", value.unwrap_or_default(), b"\n"].concat();
        prop_assert!(value.is_none() || in_run.pass_text(&text, 1) && lines(in_run) == lines(again.clone()));
        let again_fields = if value.is_some() { again } else { other_way.clone() };
        prop_assert_eq!(lines(again_fields), lines(other_way.clone()));
        prop_assert_eq!(lines(fields), lines(other_way));
    }

    #[test]
    fn truncation_is_detected_except_at_a_line_end(records in records(), at in any::<prop::sample::Index>()) {
        let text = text_of(&records);
        let cut = &text[..at.index(text.len())];
        let outcome = each_record(Input::from_reader(cut), &Counters::default(), |_| Ok(()));
        let on_line_end = cut.is_empty() || cut.ends_with(b"\n");
        prop_assert_eq!(outcome.is_ok(), on_line_end);
    }
}
