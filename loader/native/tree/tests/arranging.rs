//! Files are arranged equally with and without lists of rows.

mod support;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use common::Counters;
use ldif::blocks::Block;
use ldif::records::Records;
use tree::fingerprint::Fingerprinter;
use tree::{Arrangement, Digest, EntryRecord, Names, Task, arrange, row};

/// More entries than one batch processes.
const ENTRIES: usize = 10_000;

/// Returns accounts below containers. Some containers are missing; some accounts are duplicates by DN or by entryUUID.
fn ldif(seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::from("dn: dc=x\nobjectClass: top\n\n");
    for at in 0..ENTRIES {
        let (name, above) = (random.usize(..20 * ENTRIES), random.u8(..20));
        let (uuid, csn) = (random.usize(..40 * ENTRIES), random.usize(..1_000_000));
        let dn = match at {
            0..15 => format!("ou={at},dc=x"),
            _ => format!("cn={name},ou={above},dc=x"),
        };
        writeln!(text, "dn: {dn}\nentryUUID: 00000000-0000-0000-0000-{uuid:012}").unwrap();
        writeln!(text, "entryCSN: 20260101000000.{csn:06}Z#000000#000#000000\n").unwrap();
    }
    text
}

fn list(text: &str) -> Vec<u8> {
    let block = Block { bytes: text.as_bytes(), line: 1, last: true };
    let mut printer = Fingerprinter::new(tree::join::context_csn());
    let rows = Records::new(&block).map(|record| EntryRecord::of(&record.unwrap(), &mut printer).unwrap());
    rows.flat_map(|row| row.to_bytes()).collect()
}

fn arranged(paths: &[PathBuf], out: &Path, drop_orphans: bool) -> (Arrangement, Vec<Vec<u8>>) {
    let (paths, again) = paths.split_at(2);
    let task = Task { drop_orphans, ..support::task(paths, again) };
    let mut done = arrange(&task, out, &Counters::default()).unwrap();
    for (name, tally) in &done.files {
        let mut digest = Digest::new(Names::default());
        digest.add_path(&out.join(name), &Counters::default()).unwrap();
        assert_eq!((digest.entries(), digest.checksum()), (tally.entries, tally.checksum.hex()));
    }
    done.taken.clear();
    let mut files: Vec<_> = fs::read_dir(out).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    (done, files.iter().map(|path| fs::read(path).unwrap()).collect())
}

#[test]
fn lists_of_rows_do_not_affect_the_result() {
    let home = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (1..=3).map(ldif).collect();
    let paths: Vec<_> = (1..=3).map(|at| home.path().join(format!("{at}.ldif"))).collect();
    for (path, text) in paths.iter().zip(&texts) {
        fs::write(path, text).unwrap();
    }
    let without = [false, true].map(|drop| arranged(&paths, &home.path().join(format!("a{drop}")), drop));
    for (path, text) in paths.iter().zip(&texts) {
        fs::write(row::row_file_of(path), list(text)).unwrap();
    }
    let with = [false, true].map(|drop| arranged(&paths, &home.path().join(format!("b{drop}")), drop));
    assert_eq!(with, without);
    let (all, kept) = (&with[0].0, &with[1].0);
    assert!(all.duplicates > 100 && !all.orphans.is_empty() && all.dropped == 0);
    assert!(kept.orphans.is_empty() && kept.dropped > 1000);
    assert_eq!(kept.entries + kept.duplicates + kept.dropped, 3 * (ENTRIES as u64 + 1));
}

#[test]
fn a_truncated_list_of_rows_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("1.ldif");
    let text = ldif(1);
    fs::write(&path, &text).unwrap();
    fs::write(row::row_file_of(&path), &list(&text)[1..]).unwrap();
    let refused = arrange(&support::task(&[path], &[]), &home.path().join("out"), &Counters::default()).unwrap_err();
    assert!(refused.to_string().contains("the list of rows is truncated"), "{refused}");
}
