//! LMDB's tools and py-lmdb's auditor, if they are installed, agree with what is written.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Content, place, tables, write_file};
use fastrand::Rng;
use lmdbfile::Reader;

/// Returns the output of the tool, or `None` if it is not installed.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(directory).output().ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("No module named") {
        return None;
    }
    assert!(output.status.success(), "{program}: {error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the lines that `mdb_dump` prints for a table: keys and values in hexadecimal.
fn dump(content: &Content) -> String {
    let line = |bytes: &[u8]| {
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        format!(" {}\n", digits.collect::<String>())
    };
    let rows = content.rows.iter();
    rows.flat_map(|(key, values)| values.iter().map(move |value| line(key) + &line(value))).collect()
}

fn check_dump(directory: &Path, tables: &[(String, Content)]) {
    // The tool fails on a file without tables.
    let text = if tables.is_empty() { None } else { run("mdb_dump", &["-a"], directory) };
    let Some(text) = text else { return };
    let parts: Vec<_> = text.split("HEADER=END\n").skip(1).collect();
    assert_eq!(parts.len(), tables.len());
    for ((name, content), part) in tables.iter().zip(parts) {
        let (rows, _) = part.split_once("DATA=END\n").unwrap();
        assert!(rows == dump(content), "{name}");
        assert!(text.contains(&format!("database={name}\n")));
    }
}

fn check_stat(directory: &Path, tables: &[(String, Content)]) {
    let Some(text) = run("mdb_stat", &["-a", "-e", "-f"], directory) else { return };
    for (name, content) in tables {
        let count: usize = content.rows.iter().map(|(_, values)| values.len()).sum();
        let (_, part) = text.split_once(&format!("Status of {name}\n")).unwrap();
        assert!(part.contains(&format!("Entries: {count}\n")), "{name}: {part}");
    }
}

/// A compacted copy has the same content and the same number of pages, so none was wasted.
fn check_copy(directory: &Path, tables: &[(String, Content)]) {
    let copy = tempfile::tempdir().unwrap();
    let target = copy.path();
    let source = directory.to_str().unwrap();
    if run("mdb_copy", &["-c", source], target).is_none() {
        return;
    }
    check_dump(target, tables);
    let pages = |path: &Path| Reader::open(&path.join("data.mdb")).unwrap().pages();
    assert_eq!(pages(target), pages(directory));
}

#[test]
fn the_tools_agree() {
    for seed in 0..10 {
        let rng = &mut Rng::with_seed(seed);
        let page_size = 1 << rng.usize(12..16);
        let tables = tables(rng, page_size);
        let (directory, path) = place();
        write_file(&path, page_size, &tables);
        check_stat(directory.path(), &tables);
        check_dump(directory.path(), &tables);
        check_copy(directory.path(), &tables);
        let verify = run("python3", &["-m", "lmdb", "verify", "-e"], directory.path());
        assert!(verify.is_none_or(|text| text.contains("verify: OK")));
    }
}
