//! Small trees for the tests of this crate.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part")]

use std::fs;
use std::path::{Path, PathBuf};

use common::Counters;
use ldif::write;
use tree::fingerprint::Fingerprinter;
use tree::{Digest, Names, Task};

/// An entry: its DN, and its attributes in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub dn: String,
    pub attributes: Vec<(String, Vec<u8>)>,
}

impl Entry {
    pub fn new(dn: &str, attributes: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Self { dn: dn.to_owned(), attributes: attributes.iter().map(owned).collect() }
    }

    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        write::line(&mut text, b"dn", self.dn.as_bytes());
        for (name, value) in &self.attributes {
            write::line(&mut text, name.as_bytes(), value);
        }
        text.push(b'\n');
        text
    }
}

/// Returns the options for arranging these files as a tree below `dc=x`.
pub fn task(paths: &[PathBuf], again: &[PathBuf]) -> Task {
    Task {
        paths: paths.to_vec(),
        again: again.to_vec(),
        root: "dc=x".to_owned(),
        context_csns: Vec::new(),
        compress: false,
        drop_orphans: false,
        name_orphans: true,
    }
}

pub fn put(directory: &Path, name: &str, entries: &[Entry]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, entries.iter().flat_map(Entry::text).collect::<Vec<u8>>()).unwrap();
    path
}

pub fn digest(text: &[u8], ignore: &[&str]) -> Digest {
    let (mut digest, mut printer) = (Digest::new(Names::new(ignore)), Fingerprinter::new(Names::new(ignore)));
    ldif::walk::each_record(ldif::Input::from_reader(text), &Counters::default(), |record| {
        digest.add_entry(&printer.print(record)?, &record.entry()?.dn)
    })
    .unwrap();
    digest
}

/// Returns the uncompressed files in the order of their names.
pub fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let counters = Counters::default();
    let read = |path: &PathBuf| {
        let mut input = ldif::Input::from_path(path, &counters).unwrap();
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut input, &mut text).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
    };
    paths.iter().map(read).collect()
}

pub fn dns(text: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let see = |record: &ldif::Record<'_>| {
        found.push(String::from_utf8(record.entry()?.dn.into_owned()).unwrap());
        Ok(())
    };
    ldif::walk::each_record(ldif::Input::from_reader(text), &Counters::default(), see).unwrap();
    found
}
