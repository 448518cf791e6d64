//! Reads searches from slapd's log, or filters from a file, and finds the indexes that they use or that are missing.

mod log;
mod served;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use common::{Counters, InFile, Result};
use ldif::Input;
use rustc_hash::FxHashMap;
use schema::Schema;
use tree::name::is_within;
use values::filter::{self, Node};
use values::keys::Substrings;

use log::{Line, Operation};
use served::{IndexKind, Indexes, Needs};

/// Maximum number of groups of searches. Searches of further groups are only counted.
const MOST_KINDS: usize = 50_000;
/// Maximum number of searches awaiting a result. Beyond that, all are dropped: a log may have lost their results.
const MOST_WAITING: usize = 1 << 20;
/// Maximum number of cached search bases.
const MOST_BASES: usize = 1 << 16;
/// Maximum length of a line in bytes. slapd writes no longer lines; the excess of other lines is skipped.
const LONGEST: usize = 1 << 20;
/// Number of lines between two checks for cancellation.
const CHECK_INTERVAL: u64 = 4096;

/// The database with the indexes that searches are checked against.
pub struct Setting {
    pub suffix: String,
    pub indexes: Vec<(String, Vec<String>)>,
    pub lengths: Substrings,
}

/// The contents of the input files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines of slapd's log with `loglevel stats`.
    Log,
    /// One filter per line, which counts as a search of the whole subtree.
    Filters,
}

/// A group of searches that differ only in their values.
#[derive(Debug)]
pub struct Group {
    /// The filter, with `x` for each value.
    pub filter: String,
    pub searches: u64,
    /// Whether slapd finds all candidates in indexes.
    pub indexed: bool,
    pub used: Vec<IndexKind>,
    pub lacking: Vec<IndexKind>,
    /// Total etime of the searches whose result is in the log, in seconds.
    pub seconds: f64,
}

#[derive(Debug, Default)]
pub struct Found {
    pub groups: Vec<Group>,
    pub lines: u64,
    /// Base searches, which find the entry by its DN and need no index.
    pub of_base: u64,
    /// Searches in other databases.
    pub elsewhere: u64,
    /// Filters that cannot be parsed, for example because the log truncated them.
    pub unreadable: u64,
    /// Searches whose group would exceed `MOST_KINDS`.
    pub others: u64,
}

/// Reads the files `paths`, which may be compressed (zstd, gzip).
pub fn read(paths: &[PathBuf], kind: Kind, setting: Setting, schema: &Schema, counters: &Counters) -> Result<Found> {
    let suffix = schema.dn(setting.suffix.as_bytes()).map(|dn| dn.normal());
    let mut reader = Reader {
        suffix: suffix.unwrap_or_default(),
        schema,
        indexes: Indexes::new(schema, setting.indexes, setting.lengths),
        lengths: setting.lengths,
        groups: FxHashMap::default(),
        bases: FxHashMap::default(),
        waiting: FxHashMap::default(),
        found: Found::default(),
    };
    for path in paths {
        reader.file(path, kind, counters).in_file(Some(path))?;
    }
    Ok(reader.found)
}

#[derive(Debug)]
struct Reader<'a> {
    suffix: Vec<u8>,
    schema: &'a Schema,
    indexes: Indexes<'a>,
    lengths: Substrings,
    /// Maps a filter without values to the index of its group in `found`.
    groups: FxHashMap<Node, usize>,
    /// Maps a search base to whether its searches reach this database: those of another scope, those of a subtree.
    bases: FxHashMap<String, [bool; 2]>,
    /// Maps each search whose result is not read yet to the index of its group in `found`.
    waiting: FxHashMap<Operation, usize>,
    found: Found,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, kind: Kind, counters: &Counters) -> Result<()> {
        let mut input = BufReader::new(Input::from_fd(File::open(path)?.into(), counters)?);
        let mut line = Vec::new();
        while next_line(&mut input, &mut line)? {
            self.found.lines += 1;
            if self.found.lines % CHECK_INTERVAL == 0 {
                counters.check()?;
            }
            let text = String::from_utf8_lossy(&line);
            match (kind, text.trim()) {
                (Kind::Log, _) => self.line(&text),
                (Kind::Filters, filter) if filter.is_empty() || filter.starts_with('#') => {}
                (Kind::Filters, filter) => {
                    self.search(filter);
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, text: &str) {
        match log::line(text) {
            Some(Line::Search { operation, base, scope, filter }) => {
                if !self.is_ours(base, scope) {
                    self.found.elsewhere += 1;
                } else if scope == 0 {
                    self.found.of_base += 1;
                } else if let Some(group) = self.search(filter) {
                    if self.waiting.len() >= MOST_WAITING {
                        self.waiting.clear();
                    }
                    self.waiting.insert(operation, group);
                }
            }
            Some(Line::Result { operation, seconds, .. }) => {
                if let Some(group) = self.waiting.remove(&operation) {
                    self.found.groups[group].seconds += seconds.unwrap_or(0.0);
                }
            }
            None => {}
        }
    }

    /// Whether a search reaches this database: its base is in the database, or above it and the scope is the subtree.
    fn is_ours(&mut self, base: &str, scope: u8) -> bool {
        if let Some(answers) = self.bases.get(base) {
            return answers[usize::from(scope == 2)];
        }
        let answers = self.schema.dn(base.as_bytes()).map_or([false; 2], |dn| {
            let normal = dn.normal();
            let is_inside = is_within(&normal, &self.suffix);
            [is_inside, is_inside || (!normal.is_empty() && is_within(&self.suffix, &normal))]
        });
        if self.bases.len() >= MOST_BASES {
            self.bases.clear();
        }
        self.bases.insert(base.to_owned(), answers);
        answers[usize::from(scope == 2)]
    }

    /// Counts a search, and returns the index of its group. Returns `None` if the search is in no group.
    fn search(&mut self, text: &str) -> Option<usize> {
        // slapd logs `(?` for an Undefined assertion, whose attribute is not in the schema.
        let Ok(node) = filter::parse(&text.replace("(?", "(undefined-"), filter::MAX_DEPTH) else {
            self.found.unreadable += 1;
            return None;
        };
        let shape = node.into_shape(&self.lengths);
        let number = match self.groups.get(&shape) {
            Some(number) => *number,
            None if self.groups.len() >= MOST_KINDS => {
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
            seconds: 0.0,
        });
        let number = self.found.groups.len() - 1;
        self.groups.insert(shape, number);
        number
    }
}

/// Reads a line without its newline, and skips the excess of an overlong line. Returns false at the end of the file.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    loop {
        let block = input.fill_buf()?;
        if block.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = block.iter().position(|&byte| byte == b'\n');
        let length = end.unwrap_or(block.len());
        if line.len() < LONGEST {
            line.extend_from_slice(&block[..length]);
        }
        input.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}
