//! Complete builds of small inputs, read back from the pages of the finished file.

pub mod fixture;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use codec::{dn2i, id2e};
use ldif::Counters;
use lmdbfile::Reader;

use crate::{Code, Method, Source, VerifyMeans, verify};
use fixture::{Build, SUFFIX, below_suffix, schema, unit};

fn opened(build: &Build) -> Reader {
    codec::tables::with_orders(Reader::open(&build.path("data.mdb")).unwrap())
}

/// Returns the ID, parent ID and RDN of each node, in the order of IDs.
fn nodes(build: &Build) -> Vec<(u64, u64, String)> {
    let reader = opened(build);
    let mut cursor = reader.table(b"dn2i").unwrap().cursor().unwrap();
    let mut found = Vec::new();
    while let Some((key, record)) = cursor.next().unwrap() {
        let id = codec::id::read(key).unwrap();
        let node = dn2i::read(record).unwrap();
        if id > 0 && node.child.is_none() {
            found.push((id, node.id, String::from_utf8(node.pretty.to_vec()).unwrap()));
        }
    }
    found
}

fn names(build: &Build) -> Vec<String> {
    nodes(build).into_iter().map(|(_, _, name)| name).collect()
}

/// Returns the values of an attribute in id2e.
fn stored(build: &Build, id: u64, name: &str) -> Vec<Vec<u8>> {
    let reader = opened(build);
    let number = number(&reader, name);
    let value = reader.table(b"id2e").unwrap().get(&id.to_ne_bytes()).unwrap().unwrap();
    let parts = id2e::read(&value).unwrap();
    let found = parts.attributes.iter().filter(|one| one.number == number);
    found.flat_map(|one| &one.values).map(|one| one.to_vec()).collect()
}

fn number(reader: &Reader, name: &str) -> u32 {
    let mut cursor = reader.table(b"ad2i").unwrap().cursor().unwrap();
    while let Some((key, text)) = cursor.next().unwrap() {
        if text == name.as_bytes() {
            return codec::ad2i::read(key).unwrap();
        }
    }
    panic!("ad2i has no {name}")
}

/// Returns the ID list of each key of an index.
fn index(build: &Build, table: &str) -> Vec<Vec<u64>> {
    let reader = opened(build);
    let (mut rows, mut last): (Vec<Vec<u64>>, Vec<u8>) = (Vec::new(), Vec::new());
    let mut cursor = reader.table(table.as_bytes()).unwrap().cursor().unwrap();
    while let Some((key, id)) = cursor.next().unwrap() {
        if rows.is_empty() || key != last {
            last = key.to_vec();
            rows.push(Vec::new());
        }
        rows.last_mut().unwrap().push(codec::id::read(id).unwrap());
    }
    rows
}

fn rejects(build: &Build) -> String {
    fs::read_to_string(&build.options.rejects).unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn ids_follow_the_input_but_missing_ancestors_come_first() {
    let build = Build::new();
    let text = [
        unit("ou=deep,ou=mid,ou=top,dc=example,dc=com", ""),
        SUFFIX.into(),
        unit("ou=side,dc=example,dc=com", ""),
        unit("ou=mid,ou=top,dc=example,dc=com", ""),
        unit("ou=top,dc=example,dc=com", ""),
    ];
    assert_eq!(build.run(&text.concat()).unwrap().entries, 5);
    let expected =
        [(1, 0, "dc=example,dc=com"), (2, 1, "ou=top"), (3, 2, "ou=mid"), (4, 3, "ou=deep"), (5, 1, "ou=side")];
    assert_eq!(nodes(&build), expected.map(|(id, parent, name)| (id, parent, name.to_owned())));
    // The values stored under an ID follow the new order, too.
    assert_eq!(stored(&build, 4, "ou"), [b"deep"]);
    assert_eq!(stored(&build, 5, "ou"), [b"side"]);
}

#[test]
fn a_duplicate_dn_is_rejected_with_the_line_of_the_first() {
    let mut build = Build::new();
    let text = [
        SUFFIX.into(),
        unit("ou=a,dc=example,dc=com", "description: first\n"),
        unit("OU=A, dc=Example,dc=com", "description: second\n"),
        unit("ou=b,dc=example,dc=com", ""),
    ]
    .concat();
    let refused = build.run(&text).unwrap_err();
    assert_eq!((refused.code, refused.line), (Code::Rejected, Some(8)));
    assert!(refused.message.contains("an earlier entry has this DN"), "{refused}");
    assert!(refused.message.contains("in.ldif, line 4"), "{refused}");
    assert!(rejects(&build).contains("description: second"));

    fs::remove_file(&build.options.rejects).unwrap();
    build.options.max_rejects = 1;
    let done = build.run(&text).unwrap();
    assert_eq!((done.read, done.entries, done.rejections.len()), (4, 3, 1));
    assert_eq!(stored(&build, 2, "description"), [b"first"]);
    assert_eq!(nodes(&build)[2], (3, 1, "ou=b".into()));
}

#[test]
fn the_first_failing_record_is_reported_even_if_the_file_is_truncated() {
    let mut build = Build::new();
    let change = "dn: ou=a,dc=example,dc=com\nchangetype: delete\n\n";
    let text = [SUFFIX, change, &unit("dc=other", ""), "dn: ou=b,dc=example,dc=com\nobj"].concat();
    let refused = build.run(&text).unwrap_err();
    assert_eq!((refused.code, refused.line), (Code::Rejected, Some(4)));
    assert!(refused.message.contains("ldapmodify"), "{refused}");
    build.options.max_rejects = 2;
    let refused = build.run(&text).unwrap_err();
    assert_eq!((refused.code, refused.line), (Code::Truncated, Some(10)));
}

#[test]
fn orphans_and_their_subordinates_are_rejected_each_with_its_cause() {
    let mut build = Build::new();
    let text = [
        SUFFIX.into(),
        unit("ou=child,ou=gone,dc=example,dc=com", ""),
        unit("ou=below,ou=child,ou=gone,dc=example,dc=com", ""),
        unit("ou=kept,dc=example,dc=com", ""),
    ]
    .concat();
    let refused = build.run(&text).unwrap_err();
    assert_eq!(refused.code, Code::MissingParents);
    assert_eq!(refused.dn.as_deref(), Some("ou=gone,dc=example,dc=com"));
    assert_eq!(refused.message, "the parent of ou=child,ou=gone,dc=example,dc=com; 2 entries lack theirs");
    fs::remove_file(&build.options.rejects).unwrap();
    build.options.max_rejects = 2;
    let done = build.run(&text).unwrap();
    let reported: Vec<_> = done.rejections.iter().map(|one| (one.line, &*one.reason, one.orphan)).collect();
    let missing = "its parent ou=gone,dc=example,dc=com is missing";
    let rejected = "its parent ou=child,ou=gone,dc=example,dc=com was rejected";
    assert_eq!(reported, [(4, missing, true), (7, rejected, true)]);
    assert_eq!(names(&build), ["dc=example,dc=com", "ou=kept"]);
    assert!(rejects(&build).contains("dn: ou=below,ou=child,ou=gone,dc=example,dc=com\n"));
}

#[test]
fn entries_of_other_suffixes_are_rejected() {
    let mut build = Build::new();
    build.settings.foreign = vec!["ou=glued,dc=example,dc=com".into()];
    build.options.max_rejects = 2;
    let text = [SUFFIX, &unit("dc=other", ""), &unit("ou=glued,dc=example,dc=com", "")].concat();
    let reasons: Vec<_> = build.run(&text).unwrap().rejections.into_iter().map(|one| one.reason).collect();
    assert_eq!(reasons, ["not below a suffix of the database", "another database holds it"]);
}

#[test]
fn rejected_entries_keep_their_values_of_id2v() {
    let mut build = Build::new();
    build.settings.apart_above = vec![("description".into(), 2), ("telephoneNumber".into(), 1)];
    build.options.max_rejects = 3;
    let many = "description: C\ndescription: b\ndescription:: w6Q=\n";
    let phones = "telephoneNumber: 1 23\ntelephoneNumber: 4-5\n";
    let text = [
        SUFFIX.into(),
        unit("ou=kept,dc=example,dc=com", many),
        unit("ou=kept,dc=example,dc=com", &format!("{many}{phones}")),
        unit("ou=child,ou=gone,dc=example,dc=com", many),
        unit("ou=few,ou=gone,dc=example,dc=com", "description: one\n"),
    ];
    assert_eq!(build.run(&text.concat()).unwrap().rejections.len(), 3);
    let rejects = rejects(&build);
    let described: Vec<&str> = rejects.lines().filter(|line| line.starts_with("description")).collect();
    let three = ["description: b", "description: C", "description:: w6Q="];
    assert_eq!(described, [&three[..], &three, &["description: one"]].concat());
    for phone in phones.lines() {
        assert_eq!(rejects.lines().filter(|line| *line == phone).count(), 1);
    }
}

/// Prepares a build for slapd 2.7 with pages of `page_size` bytes.
fn of_2_7(page_size: u32) -> Build {
    let mut build = Build::new();
    (build.settings.of_2_7, build.settings.page_size) = (true, page_size);
    build
}

#[test]
fn a_value_of_id2v_fits_with_its_normal_form_into_lmdbs_limit() {
    let text = |length: usize| {
        let long = "x".repeat(length);
        [SUFFIX, &unit("ou=a,dc=example,dc=com", &format!("description: {long}\ndescription: b\n"))].concat()
    };
    // LMDB's limit is 511, 1978 or 32,698 bytes, for value and normal form, a NUL after each, and two bytes of length.
    for (mut build, most) in [(Build::new(), 253), (of_2_7(4096), 987), (of_2_7(65536), 16347)] {
        build.settings.apart_above = vec![("description".into(), 1)];
        build.run(&text(most)).unwrap();
        let refused = build.run(&text(most + 1)).unwrap_err();
        assert_eq!(refused.code, Code::Rejected);
        assert!(refused.message.contains("description: a value is too long for id2v"), "{refused}");
    }
}

#[test]
fn an_rdn_fits_with_its_normal_form_into_dn2i_and_slapd_can_read_it() {
    let text = |length: usize| [SUFFIX, &unit(&format!("ou={},dc=example,dc=com", "x".repeat(length)), "")].concat();
    // Both forms and 20 bytes fit into 511 or 1978 bytes; slapd reads no name of 1024 bytes.
    for (build, most) in [(Build::new(), 245), (of_2_7(4096), 979), (of_2_7(65536), 1023)] {
        build.run(&text(most - 3)).unwrap();
        assert_eq!(names(&build)[1].len(), most);
        let refused = build.run(&text(most - 2)).unwrap_err();
        assert_eq!(refused.code, Code::Rejected);
        assert!(refused.message.contains(&format!("about {most} bytes")), "{refused}");
    }
}

#[test]
fn a_seeding_stores_the_claimed_context_csn_and_no_newer_entry_csn() {
    let csn = |count: u32| format!("20260101000000.000000Z#{count:06x}#000#000000");
    let lines = |count| format!("contextCSN: {}\nentryCSN: {}\n", csn(9), csn(count));
    let names = ["old", "new", "newest"];
    let units =
        names.iter().zip([3, 5, 6]).map(|(name, count)| unit(&format!("ou={name},dc=example,dc=com"), &lines(count)));
    let mut build = Build::new();
    build.options.claimed = Some(vec![csn(4)]);
    build.run(&below_suffix(units)).unwrap();
    assert_eq!(stored(&build, 1, "contextCSN"), [csn(4).into_bytes()]);
    let claimed = [csn(3), csn(4), csn(4)].map(String::into_bytes);
    assert_eq!([2, 3, 4].map(|id| stored(&build, id, "entryCSN").concat()), claimed);
    assert!((2..5).all(|id| stored(&build, id, "contextCSN").is_empty()));
}

#[test]
fn the_layout_follows_the_version_of_slapd() {
    let mut build = Build::new();
    let tables = |build: &Build| build.run(SUFFIX).unwrap().tables.into_keys().collect::<Vec<_>>();
    assert_eq!(tables(&build), ["ad2i", "dn2i", "id2e", "id2v", "ixck"]);
    build.settings.has_ixck = false;
    assert_eq!(tables(&build), ["ad2i", "dn2i", "id2e", "id2v"]);
    (build.settings.has_id2v, build.settings.of_2_4) = (false, true);
    assert_eq!(tables(&build), ["ad2i", "dn2i", "id2e"]);
    assert_eq!(opened(&build).names().collect::<Vec<_>>(), [&b"ad2i"[..], b"dn2i", b"id2e"]);
}

#[test]
fn index_keys_of_times_differ_between_2_4_and_2_5() {
    let keys = |of_2_4: bool| {
        let mut build = Build::new();
        build.settings.of_2_4 = of_2_4;
        build.settings.indexes = vec![("createTimestamp".into(), vec![Method::Equality])];
        build.run(&SUFFIX.replace("\n\n", "\ncreateTimestamp: 20200101000000Z\n\n")).unwrap();
        let reader = opened(&build);
        reader.table(b"createTimestamp").unwrap().last_key().unwrap().unwrap()
    };
    assert_ne!(keys(true), keys(false));
}

/// Returns `count` units with a description, below the suffix, which has none.
fn many(count: u64) -> String {
    below_suffix((0..count).map(|at| unit(&format!("ou={at},dc=example,dc=com"), "description: x\n")))
}

#[test]
fn idlexp_limits_the_ids_of_a_list_before_it_becomes_a_range() {
    let presence = |name: &str| (name.to_owned(), vec![Method::Presence]);
    for (exponent, count, described) in
        [(2, 3, vec![2, 3, 4]), (2, 4, vec![0, 2, 5]), (2, 40, vec![0, 2, 41]), (16, 65_535, (2..=65_536).collect())]
    {
        let mut build = Build::new();
        build.settings.list_exponent = exponent;
        build.settings.indexes = vec![presence("objectClass"), presence("description")];
        build.run(&many(count)).unwrap();
        assert!(index(&build, "description") == [described], "{exponent} {count}");
        assert_eq!(index(&build, "objectClass"), [[0, 1, count + 1]]);
    }
}

#[test]
fn maxentrysize_allows_exactly_its_size() {
    let mut build = Build::new();
    let text = [SUFFIX, &unit("ou=a,dc=example,dc=com", "description: some words\n")].concat();
    build.run(&text).unwrap();
    let value = opened(&build).table(b"id2e").unwrap().get(&2u64.to_ne_bytes()).unwrap().unwrap();
    build.settings.max_entry_size = value.len();
    build.run(&text).unwrap();
    build.settings.max_entry_size -= 1;
    let refused = build.run(&text).unwrap_err();
    assert_eq!((refused.code, refused.line), (Code::Rejected, Some(4)));
    assert!(refused.message.contains("larger than maxentrysize"), "{refused}");
}

#[test]
fn an_unreadable_file_is_named_whatever_the_other_workers_do() {
    let mut build = Build::new();
    build.options.jobs = 4;
    fs::write(build.path("0.ldif"), many(5000)).unwrap();
    let packed = b"\x28\xb5\x2f\xfd\x04\x58 this is no frame";
    fs::write(build.path("1.ldif.zst"), packed).unwrap();
    fs::write(build.path("2.ldif"), unit("ou=z,dc=example,dc=com", "").repeat(5000)).unwrap();
    let named = ["0.ldif", "1.ldif.zst", "2.ldif"].map(|name| Source::Path(build.path(name)));
    let refused = build.run_sources(named.into(), None, &Counters::default()).unwrap_err();
    assert_eq!(refused.path, Some(build.path("1.ldif.zst")), "{refused}");
    assert!(matches!(refused.code, Code::Corrupt | Code::Truncated), "{refused}");

    let named = ["0.ldif", "none.ldif"].map(|name| Source::Path(build.path(name)));
    let refused = build.run_sources(named.into(), None, &Counters::default()).unwrap_err();
    assert_eq!((refused.code, refused.path), (Code::Io, Some(build.path("none.ldif"))));
}

#[test]
fn an_error_that_ends_the_build_names_its_file_or_entry() {
    let build = Build::new();
    let suffix = "dc=example,dc=com";
    for (text, code, file, dn) in [
        (format!("version: 2\n\n{SUFFIX}"), Code::Version, Some("in.ldif"), None),
        ("version: 1\n".into(), Code::Empty, None, None),
        (unit(&format!("ou=a,{suffix}"), ""), Code::MissingParents, None, Some(suffix)),
    ] {
        let refused = build.run(&text).unwrap_err();
        assert_eq!((refused.code, refused.dn.as_deref()), (code, dn), "{refused}");
        assert!(file.is_none_or(|file| refused.path == Some(build.path(file))), "{refused}");
        let _ = fs::remove_file(&build.options.rejects);
    }
}

#[test]
fn a_map_size_that_is_too_small_ends_the_build() {
    let mut build = Build::new();
    build.options.jobs = 4;
    build.settings.map_size = 40 * 4096;
    assert_eq!(build.run(&many(5000)).unwrap_err().code, Code::Full);
}

#[test]
fn a_build_that_waits_for_its_input_can_be_cancelled() {
    let build = Build::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut writer = File::from(std::os::fd::OwnedFd::from(writer));
    writer.write_all(many(10).as_bytes()).unwrap();
    let counters = Counters::default();
    let refused = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            counters.cancel();
        });
        build.run_sources(vec![Source::Stream(reader.into())], None, &counters).unwrap_err()
    });
    assert_eq!(refused.code, Code::Cancelled);
    drop(writer);
}

#[test]
fn a_build_that_spills_to_the_scratch_directory_writes_the_same_file() {
    let mut build = Build::new();
    let methods = vec![Method::Equality, Method::Substrings];
    build.settings.indexes = vec![("ou".into(), methods), ("entryUUID".into(), vec![Method::Equality])];
    // Children come first, so that names are sorted, too.
    let units = (0..5000).map(|at| unit(&format!("ou=unit {at},ou=last,dc=example,dc=com"), ""));
    let text = below_suffix(units.chain([unit("ou=last,dc=example,dc=com", "")]));
    build.run(&text).unwrap();
    let in_memory = read(&build.path("data.mdb"));

    build.options.memory = 64 << 10;
    build.run(&text).unwrap();
    assert!(read(&build.path("data.mdb")) == in_memory, "a lower memory limit changes the file");
}

#[test]
fn a_scratch_directory_that_is_missing_is_named() {
    let mut build = Build::new();
    build.options.scratch = build.path("no such directory");
    let refused = build.run(&many(5000)).unwrap_err();
    assert_eq!((refused.code, refused.path), (Code::Io, Some(build.path("no such directory"))));
}

/// Adds to a table's number of records: the fifth word of LMDB's `MDB_db`, after the table's name.
fn add_records(file: &mut [u8], table: &[u8], more: u64) {
    let name = file.windows(table.len() + 4).position(|at| at[..4] == *table && at[4..8] == [0; 4]);
    let at = name.unwrap() + table.len() + 32;
    let entries = u64::from_ne_bytes(file[at..at + 8].try_into().unwrap());
    file[at..at + 8].copy_from_slice(&(entries + more).to_ne_bytes());
}

#[test]
fn a_sample_notices_entries_missing_from_the_end() {
    let build = Build::new();
    build.run(&many(20)).unwrap();
    let check = || {
        let resources = VerifyMeans { memory: 64 << 20, jobs: 1, scratch: build.path("") };
        let known = (schema(), &build.settings);
        verify(&build.path("data.mdb"), known, &resources, (false, true), &Counters::default())
    };
    assert_eq!(check().unwrap(), 21);
    let mut file = read(&build.path("data.mdb"));
    add_records(&mut file, b"id2e", 1000);
    add_records(&mut file, b"dn2i", 2000);
    fs::write(build.path("data.mdb"), file).unwrap();
    assert!(check().unwrap_err().to_string().contains("it is not in id2e"));
}
