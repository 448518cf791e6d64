//! Searches out of slapd's log, or filters out of a file: which indexes they use, and which they lack.

mod log;
mod served;
mod shape;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use common::{Counters, InFile, Result};
use ldif::Input;
use rustc_hash::FxHashMap;
use schema::Schema;
use tree::name::is_within;
use values::keys::Substrings;

use crate::filter::{self, Node};
use log::{Line, Operation};
use served::{IndexKind, Indexes, Needs};

/// Kinds of searches that are told apart; more of them are only counted.
const KINDS: usize = 50_000;
/// Searches whose results are waited for. A log that has lost lines has some that never come.
const WAITING: usize = 1 << 20;
/// Bases of searches that are kept in mind.
const BASES: usize = 1 << 16;
/// A line that is longer is no line of slapd's.
const LONGEST: usize = 1 << 20;
/// Lines between two looks whether to go on.
const OFTEN: u64 = 4096;

/// What is known of the database that the searches are held against.
#[derive(Debug)]
pub struct Setting {
    pub suffix: String,
    pub indexes: Vec<(String, Vec<String>)>,
    pub lengths: Substrings,
}

/// What the paths hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines of slapd's log.
    Log,
    /// A filter on each line, searched for in the whole subtree.
    Filters,
}

/// Searches that differ in their values only.
#[derive(Debug)]
pub struct Group {
    /// As a filter, with `x` for each value.
    pub filter: String,
    pub searches: u64,
    /// slapd finds the candidates by indexes.
    pub indexed: bool,
    pub used: Vec<IndexKind>,
    pub lacking: Vec<IndexKind>,
    /// Of those whose results are in the log: how many, entries found, seconds as far as they are told.
    pub answered: u64,
    pub entries: u64,
    pub seconds: f64,
}

#[derive(Debug, Default)]
pub struct Found {
    pub groups: Vec<Group>,
    pub lines: u64,
    /// Of a single entry by its DN, which need no index.
    pub of_base: u64,
    /// In other databases.
    pub elsewhere: u64,
    /// Filters that cannot be read: cut by the log, for example.
    pub unreadable: u64,
    /// Beyond the kinds of searches that are told apart.
    pub others: u64,
}

/// Reads all of `paths`, which may be compressed (zstd, gzip).
pub fn read(
    paths: &[PathBuf],
    kind: Kind,
    setting: Setting,
    schema: &Schema,
    counters: &Counters,
) -> Result<Found> {
    let mut reader = Reader::new(setting, schema);
    for path in paths {
        reader.file(path, kind, counters).in_file(Some(path))?;
    }
    Ok(reader.found)
}

struct Reader<'a> {
    suffix: Vec<u8>,
    schema: &'a Schema,
    indexes: Indexes<'a>,
    lengths: Substrings,
    known: FxHashMap<Node, usize>,
    bases: FxHashMap<String, bool>,
    waiting: FxHashMap<Operation, usize>,
    found: Found,
}

impl<'a> Reader<'a> {
    fn new(setting: Setting, schema: &'a Schema) -> Self {
        let suffix = schema.dn(setting.suffix.as_bytes()).map(|dn| dn.normal());
        Self {
            suffix: suffix.unwrap_or_default(),
            schema,
            indexes: Indexes::new(schema, setting.indexes, setting.lengths),
            lengths: setting.lengths,
            known: FxHashMap::default(),
            bases: FxHashMap::default(),
            waiting: FxHashMap::default(),
            found: Found::default(),
        }
    }

    fn file(&mut self, path: &Path, kind: Kind, counters: &Counters) -> Result<()> {
        let mut input = BufReader::new(Input::from_fd(File::open(path)?.into(), counters)?);
        let mut line = Vec::new();
        while next_line(&mut input, &mut line)? {
            self.found.lines += 1;
            if self.found.lines % OFTEN == 0 {
                counters.check()?;
            }
            let text = String::from_utf8_lossy(&line);
            match kind {
                Kind::Log => self.line(&text),
                Kind::Filters => self.filter(&text),
            }
        }
        Ok(())
    }

    fn filter(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            self.search(text);
        }
    }

    fn line(&mut self, text: &str) {
        match log::line(text) {
            Some(Line::Search { operation, base, scope, filter }) => {
                if !self.is_ours(base, scope) {
                    self.found.elsewhere += 1;
                } else if scope == 0 {
                    self.found.of_base += 1;
                } else if let Some(group) = self.search(filter) {
                    if self.waiting.len() >= WAITING {
                        self.waiting.clear();
                    }
                    self.waiting.insert(operation, group);
                }
            }
            Some(Line::Result { operation, entries, seconds }) => {
                if let Some(group) = self.waiting.remove(&operation) {
                    let group = &mut self.found.groups[group];
                    group.answered += 1;
                    group.entries += entries;
                    group.seconds += seconds.unwrap_or(0.0);
                }
            }
            None => {}
        }
    }

    /// A search from above the suffix reaches this database if it is glued to that one.
    fn is_ours(&mut self, base: &str, scope: u8) -> bool {
        if let Some(known) = self.bases.get(base) {
            return *known;
        }
        let ours = self.schema.dn(base.as_bytes()).is_ok_and(|dn| {
            let normal = dn.normal();
            is_within(&normal, &self.suffix)
                || (scope == 2 && !normal.is_empty() && is_within(&self.suffix, &normal))
        });
        if self.bases.len() >= BASES {
            self.bases.clear();
        }
        self.bases.insert(base.to_owned(), ours);
        ours
    }

    /// Counts it; tells its group.
    fn search(&mut self, text: &str) -> Option<usize> {
        // What slapd has found to be Undefined it marks so: then no schema knows the attribute.
        let Ok(node) = filter::parsed(&text.replace("(?", "(undefined-")) else {
            self.found.unreadable += 1;
            return None;
        };
        let shape = node.into_shape(&self.lengths);
        let number = match self.known.get(&shape) {
            Some(number) => *number,
            None if self.known.len() >= KINDS => {
                self.found.others += 1;
                return None;
            }
            None => self.group(shape),
        };
        self.found.groups[number].searches += 1;
        Some(number)
    }

    fn group(&mut self, shape: Node) -> usize {
        let mut needs = Needs::default();
        let indexed = self.indexes.serve(&shape, &mut needs);
        for list in [&mut needs.used, &mut needs.lacking] {
            list.sort_unstable();
            list.dedup();
        }
        self.found.groups.push(Group {
            filter: shape.to_string(),
            searches: 0,
            indexed,
            used: needs.used,
            lacking: needs.lacking,
            answered: 0,
            entries: 0,
            seconds: 0.0,
        });
        let number = self.found.groups.len() - 1;
        self.known.insert(shape, number);
        number
    }
}

/// Without its end; what is too long is skipped to its end. False at the end.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    loop {
        let block = input.fill_buf()?;
        if block.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = block.iter().position(|&byte| byte == b'\n');
        let taken = end.unwrap_or(block.len());
        if line.len() < LONGEST {
            line.extend_from_slice(&block[..taken]);
        }
        input.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}
