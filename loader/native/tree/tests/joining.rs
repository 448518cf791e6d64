//! Joins files for slapadd's pipe. `common` tests a pipe whose reader is gone or stalls.

mod support;

use std::fs::File;
use std::io::Read;
use std::thread;

use common::{CancellablePipe, Code, Counters, Result};
use rustix::pipe::pipe;
use support::{Entry, put};
use tempfile::tempdir;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;

fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|at| Entry::new(&format!("cn={at},dc=x"), &[("cn", &"a".repeat(500))])).collect()
}

/// Returns the number of entries and their text.
fn joined(tree: &[Entry], stamp: ContextCsnStamp) -> Result<(u64, String)> {
    let directory = tempdir().unwrap();
    let (paths, mut text) = ([put(directory.path(), "a", tree)], Vec::new());
    let (aliases, counters) = (Aliases::default(), Counters::default());
    let count = tree::join(&paths, &mut text, Some(stamp), &aliases, &counters)?;
    Ok((count, String::from_utf8(text).unwrap()))
}

#[test]
fn all_records_pass_through_a_pipe() {
    let directory = tempdir().unwrap();
    let paths = [put(directory.path(), "a", &entries(900)), put(directory.path(), "b", &entries(700))];
    let (reader, writer) = pipe().unwrap();
    let read = thread::spawn(move || {
        let mut text = Vec::new();
        File::from(reader).read_to_end(&mut text).unwrap();
        text
    });
    let counters = Counters::default();
    let mut sink = CancellablePipe::new(writer, &counters);
    assert_eq!(tree::join(&paths, &mut sink, None, &Aliases::default(), &counters).unwrap(), 1600);
    drop(sink);
    let expected: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    assert!(read.join().unwrap() == expected);
    assert_eq!(counters.entries(), 1600);
}

#[test]
fn only_the_root_gets_context_csns() {
    let old = [("cn", "a"), ("contextCSN", "old"), ("ContextCSN", "older"), ("sn", "b")];
    let tree = [Entry::new("DC=X", &old), Entry::new("cn=a,dc=x", &old)];
    let expected = "dn: DC=X\ncn: a\nsn: b\ncontextCSN: new\ncontextCSN: newer\n\n\
                    dn: cn=a,dc=x\ncn: a\nsn: b\n\n";
    let stamp = ContextCsnStamp::new("dc=x", &["new", "newer"]);
    assert_eq!(joined(&tree, stamp).unwrap(), (2, expected.to_owned()));
}

#[test]
fn context_csns_without_a_root_entry_are_an_error() {
    let refused = joined(&entries(1), ContextCsnStamp::new("dc=y", &["new"]));
    assert_eq!(refused.unwrap_err().code, Code::RootMissing);
    let none: [&str; 0] = [];
    assert_eq!(joined(&entries(1), ContextCsnStamp::new("dc=y", &none)).unwrap().0, 1);
}

#[test]
fn only_newer_entries_of_a_claimed_server_get_its_csn() {
    let csn = |count: u32| format!("20260101000000.000000Z#{count:06x}#001#000000");
    let entry = |dn: &str, csn: &str| Entry::new(dn, &[("entryCSN", csn), ("cn", "a")]);
    let (older, claimed, foreign) = (csn(3), csn(4), csn(5).replace("#001#", "#002#"));
    let named = [("dc=x", &claimed), ("cn=old,dc=x", &older), ("cn=new,dc=x", &csn(5)), ("cn=other,dc=x", &foreign)];
    let tree = named.map(|(dn, csn)| entry(dn, csn));
    let expected = format!(
        "dn: dc=x\nentryCSN: {claimed}\ncn: a\ncontextCSN: {claimed}\n\n\
         dn: cn=old,dc=x\nentryCSN: {older}\ncn: a\n\n\
         dn: cn=new,dc=x\ncn: a\nentryCSN: {claimed}\n\n\
         dn: cn=other,dc=x\nentryCSN: {foreign}\ncn: a\n\n"
    );
    assert_eq!(joined(&tree, ContextCsnStamp::new("dc=x", &[csn(4)])).unwrap(), (4, expected));
}
