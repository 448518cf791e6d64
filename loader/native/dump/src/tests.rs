//! Reads databases that were built from LDIF; in some of them, records are missing.

#[path = "../../backmdb/src/tests/fixture.rs"]
mod fixture;

use std::fs::{self, File};
use std::path::PathBuf;

use backmdb::{LiveSource, Orphan};
use codec::dn2i;
use ldif::Counters;
use lmdbfile::{FileWriter, Flags, Format, Options, Reader, TreeWriter};
use tree::{Digest, Names};

use crate::{Code, Error, Exported, LdifFormat, Result, SampleSize, ShardTarget, Source};
use fixture::{Build, SUFFIX, below_suffix, unit};

fn built(text: &str) -> Build {
    let build = Build::new();
    build.run(text).unwrap();
    build
}

/// The whole database, read by `jobs` workers.
fn source(build: &Build, jobs: usize) -> Source {
    Source { path: build.path("data.mdb"), txn: None, base: None, after: 0, jobs }
}

/// Returns the report, and the text of all files in order.
fn export(build: &Build, source: &Source, counters: &Counters) -> Result<(Exported, String)> {
    let directory = build.path("out");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let place = ShardTarget { directory: directory.clone(), format: LdifFormat::default() };
    let report = crate::export(source, &place, counters)?;
    let read = |one: &crate::Finished| fs::read_to_string(directory.join(&one.name)).unwrap();
    let text = report.files.iter().map(read).collect();
    Ok((report, text))
}

fn exported(build: &Build, jobs: usize) -> Result<(Exported, String)> {
    export(build, &source(build, jobs), &Counters::default())
}

/// Exports the subtree of `base`.
fn branch(build: &Build, base: &str) -> Result<(Exported, String)> {
    export(build, &Source { base: Some(base.to_owned()), ..source(build, 2) }, &Counters::default())
}

fn text(build: &Build) -> String {
    exported(build, 2).unwrap().1
}

/// Returns the DNs in the LDIF, in order.
fn dns(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("dn: ")).collect()
}

#[test]
fn entries_are_ordered_by_id_with_any_number_of_workers() {
    let units = (0..3000).map(|at| unit(&format!("ou={at},dc=example,dc=com"), "description: x\n"));
    let build = built(&below_suffix(units));
    let (alone, all) = exported(&build, 1).unwrap();
    let (shared, same) = exported(&build, 4).unwrap();
    assert_eq!((alone.entries, shared.entries), (3001, 3001));
    assert!(shared.files.len() > 4 && shared.checksum == alone.checksum);
    assert!(all == same, "the number of workers must not affect the text");
    let wanted = (0..3000).map(|at| format!("ou={at},dc=example,dc=com"));
    assert!(dns(&all)[1..].iter().copied().eq(wanted));
}

fn sampled(build: &Build, least: u64, share: f64, most: u64) -> (Option<usize>, u64, String) {
    let size = SampleSize { least, share, most };
    let sample = crate::sample(&source(build, 1), size, &Counters::default()).unwrap();
    (sample.windows, sample.records, String::from_utf8(sample.text).unwrap())
}

#[test]
fn the_windows_of_a_sample_are_evenly_spaced() {
    let units = (0..5999).map(|at| unit(&format!("ou={at},dc=example,dc=com"), ""));
    let build = built(&below_suffix(units));
    let all = text(&build);
    for (least, share, most) in [(640, 0.0, 1000), (1, 0.107, 1000), (5000, 1.0, 640)] {
        let (windows, records, text) = sampled(&build, least, share, most);
        assert_eq!((windows, records, dns(&text).len()), (Some(10), 6000, 640));
        let places: Vec<_> = dns(&text).chunks(64).map(|window| place(window[0])).collect();
        assert_eq!(places[0], 267, "the window must be in the middle of the first 600 IDs");
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] == 600), "{places:?}");
        assert!(text.split_inclusive("\n\n").all(|record| all.contains(record)));
    }
    for least in [3000, 6000, u64::MAX] {
        assert_eq!(sampled(&build, least, 0.0, u64::MAX), (None, 6000, all.clone()));
    }
}

/// Returns the number in the RDN of a generated unit.
fn place(dn: &str) -> u64 {
    dn[3..].split_once(',').unwrap().0.parse().unwrap()
}

/// Builds a database in which a child has a lower ID than its parent, as after a rename below a newer entry.
fn with_late_parent() -> Build {
    let build = Build::new();
    let text = [
        SUFFIX.into(),
        unit("ou=deep,ou=moved,ou=newer,dc=example,dc=com", ""),
        unit("ou=moved,ou=newer,dc=example,dc=com", ""),
        unit("ou=newer,dc=example,dc=com", ""),
        unit("ou=last,dc=example,dc=com", ""),
    ];
    fs::write(build.path("in.ldif"), text.concat()).unwrap();
    let read_again = |_: Vec<Orphan>| Ok(Vec::<PathBuf>::new());
    let live = LiveSource { head: None, read_again: &read_again, renamed: &|_| Ok(()) };
    let sources = vec![backmdb::Source::Path(build.path("in.ldif"))];
    build.run_sources(sources, Some(live), &Counters::default()).unwrap();
    build
}

#[test]
fn entries_with_a_lower_id_than_an_ancestor_come_last() {
    let build = with_late_parent();
    let (report, text) = exported(&build, 2).unwrap();
    assert_eq!((report.entries, report.late), (5, 2));
    let expected = [
        "dc=example,dc=com",
        "ou=newer,dc=example,dc=com",
        "ou=last,dc=example,dc=com",
        "ou=moved,ou=newer,dc=example,dc=com",
        "ou=deep,ou=moved,ou=newer,dc=example,dc=com",
    ];
    assert_eq!(dns(&text), expected);
    assert_eq!(sampled(&build, 5, 0.0, 5), (None, 5, text));
}

#[test]
fn a_stream_and_a_digest_agree_with_the_files() {
    let build = with_late_parent();
    let (report, text) = exported(&build, 2).unwrap();
    let source = source(&build, 3);
    let out = File::create(build.path("stream.ldif")).unwrap();
    let streamed =
        crate::stream(&source, out.into(), LdifFormat::default(), &build.path(""), &Counters::default()).unwrap();
    assert_eq!(fs::read_to_string(build.path("stream.ldif")).unwrap(), text);
    assert_eq!((streamed.checksum, streamed.bytes), (report.checksum.clone(), text.len() as u64));
    let mut digest = Digest::new(Names::default());
    crate::digest(&source, &mut digest, &Counters::default()).unwrap();
    assert_eq!((digest.entries(), digest.checksum()), (5, report.checksum));
}

fn small() -> Build {
    let text = [
        SUFFIX.into(),
        unit("ou=a,dc=example,dc=com", "description: one\n"),
        unit("ou=aa,dc=example,dc=com", ""),
        unit("ou=b,ou=a,dc=example,dc=com", ""),
    ];
    built(&text.concat())
}

#[test]
fn a_base_in_any_spelling_selects_its_subtree() {
    let build = small();
    let (report, text) = branch(&build, "OU=A , DC=example,dc=com").unwrap();
    assert_eq!((report.entries, &*report.base), (2, "ou=a,dc=example,dc=com"));
    assert_eq!(dns(&text), ["ou=a,dc=example,dc=com", "ou=b,ou=a,dc=example,dc=com"]);
}

#[test]
fn an_rdn_that_is_a_suffix_of_another_does_not_match() {
    let text = [
        SUFFIX,
        "dn: c=de,dc=example,dc=com\nobjectClass: country\n\n",
        "dn: dc=de,dc=example,dc=com\nobjectClass: domain\n\n",
    ];
    let (_, text) = branch(&built(&text.concat()), "dc=de,dc=example,dc=com").unwrap();
    assert_eq!(dns(&text), ["dc=de,dc=example,dc=com"]);
}

#[test]
fn a_missing_base_is_refused() {
    for base in ["ou=c,dc=example,dc=com", "dc=com", "ou=b,dc=example,dc=com"] {
        assert_eq!(branch(&small(), base).unwrap_err().code, Code::NoSuchBase, "{base}");
    }
}

#[test]
fn pick_returns_existing_entries_and_skips_missing_ones() {
    let build = small();
    let names = ["ou=AA,dc=example,dc=com", "ou=c,dc=example,dc=com", "ou=a,dc=example,dc=com"];
    let picked = crate::pick(&source(&build, 1), &names.map(String::from), &Counters::default()).unwrap();
    let picked = String::from_utf8(picked).unwrap();
    assert_eq!(dns(&picked), ["ou=aa,dc=example,dc=com", "ou=a,dc=example,dc=com"]);
    assert!(picked.contains("\ndescription: one\n"));
}

#[test]
fn values_in_id2v_are_exported() {
    let mut build = Build::new();
    build.settings.apart_above = vec![("description".into(), 2)];
    let lines = "description: a\ndescription: b\ndescription: c\n";
    build.run(&[SUFFIX, &unit("ou=a,dc=example,dc=com", lines)].concat()).unwrap();
    assert!(text(&build).contains(&format!("\n{lines}")));

    without(&build, |table, _, value| table == b"id2v" && value.starts_with(b"b"));
    let refused = refused(&build);
    assert_eq!(refused.message, "entry 2: 2 values instead of 3 of description (table id2v)");
}

/// Rewrites the database without the records for which `is_lost` returns true.
fn without(build: &Build, is_lost: impl Fn(&[u8], &[u8], &[u8]) -> bool) {
    let path = build.path("data.mdb");
    let reader = codec::tables::with_orders(Reader::open(&path).unwrap());
    let copy = build.path("copy.mdb");
    let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 30 };
    let mut file = FileWriter::create(&copy, &options).unwrap();
    let mut tables = Vec::new();
    for name in reader.names() {
        let table = reader.table(name).unwrap();
        let flags = table.record().flags;
        let mut tree = TreeWriter::new(flags, file.layout()).in_own_order();
        let (mut rows, mut cursor) = (Vec::new(), table.cursor().unwrap());
        while let Some((key, value)) = cursor.next().unwrap() {
            if !is_lost(name, key, value) {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        for same in rows.chunk_by(|one, other| one.0 == other.0) {
            if flags.contains(Flags::DUPSORT) {
                tree.begin(&same[0].0).unwrap();
                for (_, value) in same {
                    tree.dup(&mut file, value).unwrap();
                }
                tree.end(&mut file).unwrap();
            } else {
                tree.put(&mut file, &same[0].0, &same[0].1).unwrap();
            }
        }
        tables.push((name.to_vec(), tree.finish(&mut file).unwrap()));
    }
    file.finish(tables).unwrap();
    fs::rename(copy, path).unwrap();
}

/// Returns the error of an export, which must be the damage, whatever errors the other workers have.
fn refused(build: &Build) -> Error {
    let refused = exported(build, 4).unwrap_err();
    assert_eq!(refused.code, Code::Damaged, "{refused}");
    refused
}

#[test]
fn a_missing_node_in_dn2i_is_reported_with_its_entry() {
    for lost in [2, 4] {
        let build = small();
        without(&build, |table, key, value| {
            let is_own = dn2i::read(value).is_some_and(|node| node.child.is_none());
            table == b"dn2i" && codec::id::read(key) == Some(lost) && is_own
        });
        assert_eq!(refused(&build).message, format!("entry {lost} has no record of its own (table dn2i)"));
    }
}

#[test]
fn a_missing_number_in_ad2i_is_reported_with_the_entry() {
    let units = (0..3000).map(|at| {
        let line = if at == 1500 { "street: here\n" } else { "description: x\n" };
        unit(&format!("ou={at},dc=example,dc=com"), line)
    });
    let build = built(&below_suffix(units));
    without(&build, |table, _, value| table == b"ad2i" && value == b"street");
    let message = refused(&build).message;
    assert!(message.starts_with("entry 1502: no attribute has the number "), "{message}");
}

#[test]
fn a_file_that_is_not_of_back_mdb_is_refused() {
    let build = small();
    let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 30 };
    let file = FileWriter::create(&build.path("other.mdb"), &options).unwrap();
    file.finish(Vec::new()).unwrap();
    fs::rename(build.path("other.mdb"), build.path("data.mdb")).unwrap();
    let message = refused(&build).message;
    assert_eq!(message, "the table id2e is missing: not a database of back-mdb");
}

#[test]
fn a_database_of_2_4_without_id2v_can_be_read() {
    let mut build = Build::new();
    (build.settings.has_id2v, build.settings.has_ixck, build.settings.of_2_4) = (false, false, true);
    build.run(&[SUFFIX, &unit("ou=a,dc=example,dc=com", "description: x\n")].concat()).unwrap();
    let reader = Reader::open(&build.path("data.mdb")).unwrap();
    assert!(reader.names().all(|name| name != b"id2v"));
    assert!(text(&build).contains("\ndescription: x\n"));
}

#[test]
fn entries_up_to_an_id_are_left_out() {
    let units = (0..3000).map(|at| unit(&format!("ou={at},dc=example,dc=com"), "description: x\n"));
    let build = built(&below_suffix(units));
    let all = text(&build);
    for (after, jobs) in [(1, 3), (2000, 1), (2999, 4), (3001, 2)] {
        let (_, later) = export(&build, &Source { after, ..source(&build, jobs) }, &Counters::default()).unwrap();
        assert_eq!(dns(&later), dns(&all)[usize::try_from(after).unwrap()..]);
    }
}

#[test]
fn a_cancelled_export_reports_cancelled() {
    let (build, counters) = (small(), Counters::default());
    counters.cancel();
    assert_eq!(export(&build, &source(&build, 4), &counters).unwrap_err().code, Code::Cancelled);
}
