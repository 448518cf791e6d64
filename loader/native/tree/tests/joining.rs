//! Joins files for slapadd's pipe, whose reader reads, is gone, or stalls.

mod support;

use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use common::{CancellablePipe, Code, Counters};
use rustix::pipe::pipe;
use support::{Entry, put};
use tempfile::tempdir;
use tree::join;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;

fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|at| Entry::new(&format!("cn={at},dc=x"), &[("cn", &"a".repeat(500))])).collect()
}

#[test]
fn all_records_come_through_a_pipe() {
    let directory = tempdir().unwrap();
    let paths =
        [put(directory.path(), "a", &entries(900)), put(directory.path(), "b", &entries(700))];
    let (reader, writer) = pipe().unwrap();
    let read = thread::spawn(move || {
        let mut text = Vec::new();
        File::from(reader).read_to_end(&mut text).unwrap();
        text
    });
    let counters = Counters::default();
    let mut sink = CancellablePipe::new(writer, &counters);
    assert_eq!(join(&paths, &mut sink, None, &Aliases::default(), &counters).unwrap(), 1600);
    drop(sink);
    let expected: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    assert!(read.join().unwrap() == expected);
    assert_eq!(counters.entries(), 1600);
}

#[test]
fn a_vanished_reader_is_reported_as_such() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(2))];
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let counters = Counters::default();
    let mut sink = CancellablePipe::new(writer, &counters);
    assert_eq!(
        join(&paths, &mut sink, None, &Aliases::default(), &counters).unwrap_err().code,
        Code::Pipe
    );
}

#[test]
fn a_stalled_reader_does_not_hold_cancelling_up() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(50_000))];
    let (reader, writer) = pipe().unwrap();
    let counters = Counters::default();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            counters.cancel();
        });
        let mut sink = CancellablePipe::new(writer, &counters);
        assert_eq!(
            join(&paths, &mut sink, None, &Aliases::default(), &counters).unwrap_err().code,
            Code::Cancelled
        );
    });
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(reader);
}

#[test]
fn the_root_gets_the_given_context_csns_and_no_other_entry_any() {
    let directory = tempdir().unwrap();
    let old = [("cn", "a"), ("contextCSN", "old"), ("ContextCSN", "older"), ("sn", "b")];
    let tree = [Entry::new("DC=X", &old), Entry::new("cn=a,dc=x", &old)];
    let paths = [put(directory.path(), "a", &tree)];
    let mut joined = Vec::new();
    let stamp = ContextCsnStamp::new("dc=x", &["new", "newer"]);
    assert_eq!(
        join(&paths, &mut joined, Some(stamp), &Aliases::default(), &Counters::default()).unwrap(),
        2
    );
    let expected = "dn: DC=X\ncn: a\nsn: b\ncontextCSN: new\ncontextCSN: newer\n\n\
                    dn: cn=a,dc=x\ncn: a\nsn: b\n\n";
    assert_eq!(String::from_utf8(joined).unwrap(), expected);
}

#[test]
fn context_csns_without_a_root_to_bear_them_are_an_error() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(1))];
    let stamp = ContextCsnStamp::new("dc=y", &["new"]);
    let outcome =
        join(&paths, &mut Vec::new(), Some(stamp), &Aliases::default(), &Counters::default());
    assert_eq!(outcome.unwrap_err().code, Code::RootMissing);
    let none: [&str; 0] = [];
    let stamp = ContextCsnStamp::new("dc=y", &none);
    assert_eq!(
        join(&paths, &mut Vec::new(), Some(stamp), &Aliases::default(), &Counters::default())
            .unwrap(),
        1
    );
}

#[test]
fn entries_newer_than_the_claim_get_its_csn() {
    let csn = |count: u32| format!("20260101000000.000000Z#{count:06x}#001#000000");
    let directory = tempdir().unwrap();
    let entry = |dn: &str, count| Entry::new(dn, &[("entryCSN", &csn(count)), ("cn", "a")]);
    let tree = [entry("dc=x", 4), entry("cn=old,dc=x", 3), entry("cn=new,dc=x", 5)];
    let paths = [put(directory.path(), "a", &tree)];
    let mut joined = Vec::new();
    let stamp = ContextCsnStamp::new("dc=x", &[csn(4)]);
    join(&paths, &mut joined, Some(stamp), &Aliases::default(), &Counters::default()).unwrap();
    let (older, claimed) = (csn(3), csn(4));
    let expected = format!(
        "dn: dc=x\nentryCSN: {claimed}\ncn: a\ncontextCSN: {claimed}\n\n\
         dn: cn=old,dc=x\nentryCSN: {older}\ncn: a\n\n\
         dn: cn=new,dc=x\ncn: a\nentryCSN: {claimed}\n\n"
    );
    assert_eq!(String::from_utf8(joined).unwrap(), expected);
}
