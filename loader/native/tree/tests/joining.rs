//! Joining files for slapadd's pipe: to an end that reads, one that is gone, and one that stalls.

mod support;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use ldif::polled::Polled;
use ldif::{Code, Counters};
use support::{Entry, put};
use tempfile::tempdir;
use tree::join;
use tree::join::RootStamp;

fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|at| Entry::new(&format!("cn={at},dc=x"), &[("cn", &"a".repeat(500))])).collect()
}

#[test]
fn all_records_come_through_a_pipe() {
    let directory = tempdir().unwrap();
    let paths =
        [put(directory.path(), "a", &entries(900)), put(directory.path(), "b", &entries(700))];
    let (mut reader, writer) = std::io::pipe().unwrap();
    let read = thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        text
    });
    let counters = Counters::default();
    let mut sink = Polled::new(OwnedFd::from(writer), &counters);
    assert_eq!(join(&paths, &mut sink, None, &counters).unwrap(), 1600);
    drop(sink);
    let expected: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    assert!(read.join().unwrap() == expected);
    assert_eq!(counters.entries(), 1600);
}

#[test]
fn a_reader_that_is_gone_is_told_as_such() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(2))];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let counters = Counters::default();
    let mut sink = Polled::new(OwnedFd::from(writer), &counters);
    assert_eq!(join(&paths, &mut sink, None, &counters).unwrap_err().code, Code::Pipe);
}

#[test]
fn a_stalled_reader_does_not_hold_cancelling_up() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(2000))];
    let (reader, writer) = std::io::pipe().unwrap();
    let counters = Counters::default();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            counters.cancel();
        });
        let mut sink = Polled::new(OwnedFd::from(writer), &counters);
        assert_eq!(join(&paths, &mut sink, None, &counters).unwrap_err().code, Code::Cancelled);
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
    let stamp = RootStamp::new("dc=x", &["new", "newer"]);
    assert_eq!(join(&paths, &mut joined, Some(stamp), &Counters::default()).unwrap(), 2);
    let expected = "dn: DC=X\ncn: a\nsn: b\ncontextCSN: new\ncontextCSN: newer\n\n\
                    dn: cn=a,dc=x\ncn: a\nsn: b\n\n";
    assert_eq!(String::from_utf8(joined).unwrap(), expected);
}

#[test]
fn context_csns_without_a_root_to_bear_them_are_an_error() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(1))];
    let stamp = RootStamp::new("dc=y", &["new"]);
    let outcome = join(&paths, &mut Vec::new(), Some(stamp), &Counters::default());
    assert_eq!(outcome.unwrap_err().code, Code::RootMissing);
    let none: [&str; 0] = [];
    let stamp = RootStamp::new("dc=y", &none);
    assert_eq!(join(&paths, &mut Vec::new(), Some(stamp), &Counters::default()).unwrap(), 1);
}
