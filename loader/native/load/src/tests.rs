//! Loads without a server, and tests of the parts between the input and a connection.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ldif::{Code, Counters};
use tree::Names;
use wire::{ConnectionOptions, Error, Phase};

use crate::batch_queue::Batch;
use crate::entry::{Entry, Prepared};
use crate::journal::{Journal, Kind};
use crate::shared::Shared;
use crate::work::BatchWork;
use crate::{Loaded, OnExists, Options, Result, Source, load};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self) -> Options {
        Options {
            jobs: 2,
            batch: 0,
            transactions: true,
            window: (16, 256),
            exists: OnExists::Error,
            leave_out: Vec::new(),
            relax: false,
            contexts: vec!["dc=example,dc=com".into()],
            aliases: Vec::new(),
            references: Vec::new(),
            singly: false,
            max_rejects: 0,
            rejects: self.path("rejects.ldif"),
            max_rate: 0,
            journal: self.path("journal"),
            all_uncertain: false,
            memory: 1 << 20,
            scratch: self.0.path().to_owned(),
            patience: Duration::ZERO,
        }
    }

    /// Loads `text` with the address of a server that does not exist.
    fn load(&self, text: &str, counters: &Arc<Counters>) -> Result<Loaded> {
        fs::write(self.path("in.ldif"), text).unwrap();
        let sources = vec![Source::Path(self.path("in.ldif"))];
        load(sources, &closed_port(), &self.options(), counters)
    }

    fn refused(&self, text: &str) -> ldif::Error {
        local(self.load(text, &Arc::default()))
    }
}

/// Returns the error, which must be of this host, not of a server.
fn local(outcome: Result<Loaded>) -> ldif::Error {
    match outcome.unwrap_err() {
        Error::Local(error) => *error,
        Error::Ldap(failure) => panic!("{failure:?}"),
    }
}

/// Returns a port of this host on which nothing listens any more.
fn closed_port() -> ConnectionOptions {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("ldap://{}", listener.local_addr().unwrap());
    ConnectionOptions { uri: Some(uri), connect_timeout: Duration::from_secs(30), ..ConnectionOptions::default() }
}

fn unit(dn: &str) -> String {
    format!("dn: {dn}\nobjectClass: organizationalUnit\n\n")
}

fn units(count: usize) -> String {
    (0..count).map(|at| unit(&format!("ou={at},dc=example,dc=com"))).collect()
}

#[test]
fn a_missing_server_ends_the_load_and_rejects_nothing() {
    let place = Place::new();
    let Error::Ldap(failure) = place.load(&units(100), &Arc::default()).unwrap_err() else {
        panic!("not a failure of LDAP");
    };
    assert_eq!(failure.phase, Phase::Connect, "{failure:?}");
    assert!(!place.path("rejects.ldif").exists());
    let (journal, before) = Journal::open(&place.path("journal")).unwrap();
    assert_eq!((journal.counts().sum(), before.done.len()), (0, 0));
    assert!(before.reserved >= 100, "the entries that may have been sent are not reserved");
}

#[test]
fn invalid_ldif_is_reported_with_its_line_before_anything_is_sent() {
    let place = Place::new();
    let refused = place.refused(&(units(2) + "dn: ou=x,dc=example,dc=com\nno colon\n"));
    assert_eq!((refused.code, refused.line), (Code::Syntax, Some(8)), "{refused}");
    assert_eq!(refused.path, Some(place.path("in.ldif")));
}

#[test]
fn a_truncated_input_is_refused_before_its_last_entries_are_sent() {
    let place = Place::new();
    let stamped = |at: usize| {
        let csn = "entryCSN: 20260101000000.000000Z#000000#001#000000\n\n";
        units(at + 1).split_inclusive("\n\n").last().unwrap().replace("\n\n", "\n") + csn
    };
    let text: String = (0..5).map(stamped).collect();
    let cut = text.rfind("entryCSN").unwrap();
    let refused = place.refused(&text[..cut]);
    assert_eq!(refused.code, Code::Truncated, "{refused}");
    assert_eq!(refused.dn.as_deref(), Some("ou=4,dc=example,dc=com"));
}

#[test]
fn a_missing_input_is_named() {
    let place = Place::new();
    let sources = vec![Source::Path(place.path("none.ldif"))];
    let error = local(load(sources, &closed_port(), &place.options(), &Arc::default()));
    assert_eq!((error.code, error.path), (Code::Io, Some(place.path("none.ldif"))));
}

#[test]
fn a_cancelled_load_reports_cancelled() {
    let place = Place::new();
    let counters = Arc::new(Counters::default());
    counters.cancel();
    assert_eq!(local(place.load(&units(10), &counters)).code, Code::Cancelled);
}

#[test]
fn entries_of_an_earlier_run_are_not_sent_again() {
    let place = Place::new();
    let (journal, _) = Journal::open(&place.path("journal")).unwrap();
    journal.reserve(5).unwrap();
    journal.settle(Kind::Added, &[0, 1, 3]).unwrap();
    journal.settle(Kind::Present, &[2, 4]).unwrap();
    drop(journal);
    // Nothing listens on the port, so sending a single entry ends the load.
    let loaded = place.load(&units(5), &Arc::default()).unwrap();
    assert_eq!((loaded.read, loaded.added, loaded.present, loaded.before), (5, 3, 2, 5));
    let sent = place.load(&units(6), &Arc::default()).unwrap_err();
    assert!(matches!(sent, Error::Ldap(_)), "{sent:?}");
}

fn entry(position: u64, dn: &str) -> Entry {
    Entry::new(position, None, 1 + 3 * position, unit(dn).trim_end().as_bytes()).unwrap()
}

/// Returns one batch with these entries.
fn work<'s>(shared: &'s Shared<'s>, entries: Vec<Entry>) -> BatchWork<'s> {
    let batch = Batch { number: 0, entries, after: std::collections::BTreeSet::new() };
    BatchWork::new(shared, batch).unwrap()
}

/// Calls `show` with the shared state of a load with these options.
fn with_shared<R>(options: &Options, show: impl FnOnce(&Shared<'_>) -> R) -> R {
    let (journal, before) = Journal::open(&options.journal).unwrap();
    let (link, counters) = (ConnectionOptions::default(), Arc::default());
    show(&Shared::new(options, &link, &counters, journal, before.reserved))
}

#[test]
fn deferred_entries_come_back_unchanged_parents_first() {
    let place = Place::new();
    // Ten thousand entries do not fit into this memory, so a file is used.
    let options = Options { memory: 64 << 10, ..place.options() };
    let count = 10_000;
    let path = Arc::new(place.path("in.ldif"));
    with_shared(&options, |shared| {
        for position in 0..count {
            let above = if position % 2 == 0 { "ou=a,ou=b," } else { "" };
            let waits = entry(position, &format!("ou={position},{above}dc=example,dc=com"));
            shared.defer(&Entry { path: Some(Arc::clone(&path)), ..waits }).unwrap();
        }
        let mut found = Vec::new();
        let take = |entry: Entry| {
            assert_eq!(entry.line, 1 + 3 * entry.position);
            assert_eq!(entry.path.as_ref(), Some(&path));
            found.push(entry.position);
            Ok(())
        };
        shared.each_deferred(take).unwrap();
        let expected = (0..count).filter(|at| at % 2 == 1).chain((0..count).filter(|at| at % 2 == 0));
        assert!(found.into_iter().eq(expected));
        shared.each_deferred(|entry| panic!("{entry:?} came twice")).unwrap();
    });
}

#[test]
fn entries_come_after_the_entries_they_name() {
    let place = Place::new();
    let references = vec!["member".into(), "uniqueMember".into()];
    let options = Options { memory: 64 << 10, references, ..place.options() };
    let group = |position: u64, dn: &str, lines: &str| {
        let text = format!("dn: {dn},dc=example,dc=com\n{lines}\n");
        Entry::new(position, None, 1, text.as_bytes()).unwrap()
    };
    with_shared(&options, |shared| {
        let waits = |entry: &Entry| shared.defer_if_it_names_others(entry).unwrap();
        let none = [
            ("cn=a", "sn: x"),
            ("cn=a", "member:"),
            ("cn=a", "MEMBER: DC=example, dc=com"),
            ("cn=a", "member: cn=A,dc=example,dc=com"),
            ("cn=a", "member: cn=b,cn=a,dc=example,dc=com"),
            ("cn=a", "seeAlso: cn=b,dc=example,dc=com"),
        ];
        assert!(none.iter().all(|(dn, lines)| !waits(&group(0, dn, lines))));
        assert!(!waits(&Entry::new(0, None, 1, b"dn: dc=example,dc=com\nmember: cn=b\n").unwrap()));

        // These entries need a file; each one names the next, except the last.
        let count = 2_000;
        let next = |at: u64| format!("cn={},dc=example,dc=com", at + 1);
        for at in 0..count {
            let value = if at % 2 == 0 { next(at) } else { next(at) + "#'0101'B" };
            let kind = if at % 2 == 0 { "Member;x-a" } else { "uniquemember" };
            assert!(waits(&group(at, &format!("CN={at}"), &format!("{kind}: {value}"))));
        }
        let mut positions = Vec::new();
        let take = |entry: Entry| {
            positions.push(entry.position);
            assert_eq!(entry.references.len(), 1);
            Ok(())
        };
        shared.each_deferred(take).unwrap();
        assert!(positions.into_iter().eq((0..count).rev()));
        assert_eq!(shared.tally.named.load(std::sync::atomic::Ordering::Relaxed), count);
    });
}

#[test]
fn a_transaction_has_only_known_descriptions_and_no_dn_twice() {
    let place = Place::new();
    with_shared(&place.options(), |shared| {
        let dns = ["ou=1,dc=example,dc=com", "ou=2,dc=example,dc=com", "OU=1,DC=example,dc=com"];
        let work = work(shared, (0..).zip(dns).map(|(at, dn)| entry(at, dn)).collect());
        assert_eq!(work.fit(9), []);
        shared.remember_descriptions(&work.prepared[0].descriptions);
        assert_eq!((work.fit(9), work.fit(1)), (vec![0, 1], vec![0]));
    });
}

#[test]
fn an_entry_that_names_others_is_added_singly_if_requested() {
    for singly in [false, true] {
        let place = Place::new();
        let options = Options { singly, ..place.options() };
        with_shared(&options, |shared| {
            let mut entries: Vec<_> = (0..4).map(|at| entry(at, &format!("ou={at},dc=example,dc=com"))).collect();
            entries[1].references = vec![7];
            entries[2].references = vec![7];
            let mut work = work(shared, entries);
            shared.remember_descriptions(&work.prepared[0].descriptions);
            let all = vec![0, 1, 2, 3];
            assert_eq!(work.fit(9), if singly { vec![0] } else { all });
            work.settle(0, Kind::Added);
            assert_eq!(work.outside(&[1, 2, 3]), if singly { vec![1, 2] } else { vec![1] });
        });
    }
}

#[test]
fn only_entries_with_an_unknown_parent_are_listed() {
    let place = Place::new();
    with_shared(&place.options(), |shared| {
        let dns = [
            "dc=example,dc=com",
            "ou=below,dc=example,dc=com",
            "ou=known,ou=seen,dc=example,dc=com",
            "ou=lost,ou=gone,dc=example,dc=com",
        ];
        let work = work(shared, (0..).zip(dns).map(|(at, dn)| entry(at, dn)).collect());
        assert_eq!(work.without_parent(&[0, 1, 2, 3]), [2, 3]);
        shared.remember_parent(work.entry(2).parent);
        assert_eq!(work.without_parent(&[0, 1, 2, 3]), [3]);
        shared.forget_parent(work.entry(2).parent);
        assert_eq!(work.without_parent(&[2, 3]), [2, 3]);
    });
}

#[test]
fn one_rejection_too_many_stops_the_load() {
    let place = Place::new();
    let options = Options { max_rejects: 1, ..place.options() };
    with_shared(&options, |shared| {
        shared.reject(&entry(7, "ou=7,dc=example,dc=com"), "late".into(), false);
        assert!(!shared.queue.is_stopped());
        shared.reject(&entry(3, "ou=3,dc=example,dc=com"), "early".into(), true);
        assert!(shared.queue.is_stopped());
        let rejections = shared.rejections();
        let rejections: Vec<_> = rejections.iter().map(|one| (one.position, &*one.reason, one.orphan)).collect();
        assert_eq!(rejections, [(3, "early", true), (7, "late", false)]);
    });
}

#[test]
fn scattered_values_are_sent_as_one_attribute() {
    let add = |lines: &str, leave_out: &[String]| {
        let text = format!("dn: ou=a,dc=example,dc=com\n{lines}");
        let entry = Entry::new(0, None, 1, text.as_bytes()).unwrap();
        Prepared::new(&entry, &Names::new(leave_out), 0).unwrap()
    };
    let scattered = add("description: x\nou: a\nDescription: y\n", &[]);
    let together = add("description: x\ndescription: y\nou: a\n", &[]);
    assert_eq!(scattered.operation, together.operation);
    let without = add("description: x\nentryCSN: z\nentryCSN;x-a: z\ndescription: y\nou: a\n", &["entryCSN".into()]);
    assert_eq!((without.operation, without.left_out), (together.operation, 2));
}
