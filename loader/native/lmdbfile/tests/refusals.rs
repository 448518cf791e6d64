//! Damaged pages: a walk, a compacting copy and a cursor refuse the same damage with the same words.

mod common;

use std::path::{Path, PathBuf};

use common::{Content, rows, write_file};
use lmdbfile::PageKind::{self, Branch, Leaf};
use lmdbfile::{Flags, Reader, Result};

const PAGE: usize = 4096;
const HEADER: usize = 16;
const UNORDERED: &str = "keys or values that are not in ascending order";
const OTHER_KIND: &str = "a page of the wrong kind for its position";
const NONSENSE: &str = "a node with invalid flags";

/// A file with the table `t`, to be damaged.
struct File {
    directory: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl File {
    fn new(flags: Flags, rows: common::Rows) -> Self {
        let (directory, path) = common::place();
        write_file(&path, PAGE, &[("t".to_owned(), Content { flags, rows })]);
        Self { bytes: std::fs::read(path).unwrap(), directory }
    }

    /// Three levels of pages: 30,000 keys with one value each.
    fn deep() -> Self {
        Self::new(Flags::INTEGERKEY, numbered(30_000, |_| vec![vec![1; 50]]))
    }

    /// Keys with a few values each, on sub-pages.
    fn sub_pages() -> Self {
        let values = |_| (10..19_u64).map(|value| value.to_be_bytes().to_vec()).collect();
        Self::new(Flags::DUPSORT | Flags::INTEGERKEY, numbered(40, values))
    }

    /// One key with 3,000 values in a tree of two levels.
    fn values() -> Self {
        let values = |_| (0..3_000_u64).map(|value| value.to_ne_bytes().to_vec()).collect();
        Self::new(Flags::DUPFIXED | Flags::INTEGERDUP, numbered(1, values))
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("data.mdb")
    }

    /// Returns the table's pages of this kind in the order of a walk: the root first.
    fn pages(&self, kind: PageKind) -> Vec<usize> {
        let mut found = Vec::new();
        let mut visit = |page: &lmdbfile::PageUse<'_>| {
            if page.kind == kind && page.table == "t" {
                found.push(usize::try_from(page.number).unwrap());
            }
        };
        Reader::open(&self.path()).unwrap().walk(&mut visit).unwrap();
        found
    }

    fn page(&mut self, number: usize) -> &mut [u8] {
        &mut self.bytes[number * PAGE..(number + 1) * PAGE]
    }

    /// Returns the bytes of a page from the node at `at` on.
    fn node(&mut self, number: usize, at: usize) -> &mut [u8] {
        let page = self.page(number);
        let start = usize::from(half(page, HEADER + 2 * at));
        &mut page[start..]
    }

    /// Sets an integer key.
    fn set_key(&mut self, number: usize, at: usize, key: u64) {
        self.node(number, at)[8..16].copy_from_slice(&key.to_ne_bytes());
    }

    fn key(&mut self, number: usize, at: usize) -> u64 {
        u64::from_ne_bytes(self.node(number, at)[8..16].try_into().unwrap())
    }

    fn set_flags(&mut self, number: usize, at: usize, flags: u16) {
        put(self.node(number, at), 4, flags);
    }

    /// Swaps two nodes of a page.
    fn swap(&mut self, number: usize, one: usize, other: usize) {
        let page = self.page(number);
        (0..2).for_each(|byte| page.swap(HEADER + 2 * one + byte, HEADER + 2 * other + byte));
    }

    /// Checks that walk, compacting copy and cursor refuse the file with the same message.
    fn refused(&self, words: &str) {
        let path = self.path();
        std::fs::write(&path, &self.bytes).unwrap();
        let [walk, compact, cursor] = [walk, compact, cursor].map(|read| match read(&path) {
            Ok(()) => "taken".to_owned(),
            Err(error) => error.to_string(),
        });
        assert!(walk.starts_with(words), "walk: {walk}; expected: {words}");
        assert_eq!((&compact, &cursor), (&walk, &walk), "compact, cursor; walk");
    }
}

fn walk(path: &Path) -> Result<()> {
    Reader::open(path)?.walk(&mut |_| {}).map(drop)
}

fn compact(path: &Path) -> Result<()> {
    Reader::open(path)?.compact(&path.with_extension("copy"), &|_| true).map(drop)
}

fn cursor(path: &Path) -> Result<()> {
    rows(&Reader::open(path)?, b"t").map(drop)
}

fn numbered(count: u64, values: impl Fn(u64) -> Vec<Vec<u8>>) -> common::Rows {
    (1..=count).map(|key| (key.to_ne_bytes().to_vec(), values(key))).collect()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, field: u16) {
    bytes[at..at + 2].copy_from_slice(&field.to_ne_bytes());
}

/// Damages the `at`th of a file's pages of this kind, which must be refused.
fn refuses(mut file: File, kind: PageKind, at: usize, words: &str, damage: impl Fn(&mut File, usize)) {
    let page = file.pages(kind)[at];
    damage(&mut file, page);
    file.refused(words);
}

/// Damages a separator on the lowest branch and on the one above, so that a search would descend to the wrong child.
#[test]
fn a_separator_that_parts_other_keys() {
    for level in 0..2 {
        for change in [-1, 1] {
            refuses(File::deep(), Branch, level, UNORDERED, |file, branch| {
                let key = file.key(branch, 1).checked_add_signed(change).unwrap();
                file.set_key(branch, 1, key);
            });
        }
    }
    refuses(File::values(), Branch, 0, UNORDERED, |file, branch| {
        let key = file.key(branch, 2);
        file.set_key(branch, 2, key + 1);
    });
}

#[test]
fn separators_keys_and_values_out_of_order() {
    for level in 0..2 {
        refuses(File::deep(), Branch, level, UNORDERED, |file, branch| file.swap(branch, 1, 2));
    }
    refuses(File::deep(), Leaf, 7, UNORDERED, |file, leaf| file.swap(leaf, 3, 4));
    refuses(File::values(), Leaf, 2, UNORDERED, |file, leaf| file.page(leaf)[HEADER + 80] ^= 0xff);
    refuses(File::sub_pages(), Leaf, 0, UNORDERED, |file, leaf| {
        let pointers = 8 + 8 + HEADER;
        (0..2).for_each(|byte| file.node(leaf, 5).swap(pointers + byte, pointers + 2 + byte));
    });
}

#[test]
fn a_branch_with_a_single_child() {
    for file in [File::deep(), File::values()] {
        let last = file.pages(Branch).len() - 1;
        refuses(file, Branch, last, "a branch with a single child", |file, branch| {
            put(file.page(branch), 12, 18);
        });
    }
}

/// A leaf in place of a branch, a branch in place of a leaf, and values of one size in place of keys.
#[test]
fn a_page_in_the_place_of_another() {
    for (kind, other) in [(Leaf, Branch), (Branch, Leaf)] {
        refuses(File::deep(), kind, 1, OTHER_KIND, |file, here| {
            let there = file.pages(other)[1];
            let bytes = file.page(there)[8..].to_vec();
            file.page(here)[8..].copy_from_slice(&bytes);
        });
    }
    refuses(File::deep(), Leaf, 1, OTHER_KIND, |file, leaf| {
        put(file.page(leaf), 8, 8);
        put(file.page(leaf), 10, 0x22);
    });
    let outside = "a page that is outside of the file";
    refuses(File::deep(), Branch, 1, outside, |file, branch| file.node(branch, 4)[5] = 1);
}

#[test]
fn flags_that_no_node_has() {
    for (flags, words) in [
        (8, NONSENSE),
        (3, NONSENSE),
        (5, NONSENSE),
        (2, "a table's record of the wrong size"),
        (4, "a sub-page without the sub-page flag"),
    ] {
        refuses(File::deep(), Leaf, 7, words, |file, leaf| file.set_flags(leaf, 3, flags));
    }
}

#[test]
fn nodes_that_the_table_cannot_have() {
    let one = |flags, size| File::new(flags, numbered(9, |_| vec![vec![2; size]]));
    let (plain, many) = (Flags::INTEGERKEY, Flags::DUPSORT | Flags::INTEGERKEY);
    let other_kind = "a value of a kind that its table cannot have";
    // The record of a table among ordinary keys; many values where only one is allowed; a value on overflow pages where
    // a key has many values.
    for (flags, size, damaged, words) in [
        (plain, 48, 2, other_kind),
        (plain, 48, 6, "a key with many values where it can have only one"),
        (many, 8, 1, other_kind),
    ] {
        refuses(one(flags, size), Leaf, 0, words, |file, leaf| file.set_flags(leaf, 3, damaged));
    }
}

#[test]
fn a_record_that_does_not_fit_the_values() {
    const FLAGS: usize = 8 + 8 + 4;
    for (at, value) in [(FLAGS, 1), (FLAGS - 4, 0), (FLAGS + 28, 0)] {
        let words = "a record that does not fit the values of its table";
        refuses(File::values(), Leaf, 0, words, |file, leaf| {
            file.node(leaf, 0)[at..at + 2].copy_from_slice(&[value, 0]);
        });
    }
    let words = "a tree of an impossible depth";
    refuses(File::values(), Leaf, 0, words, |file, leaf| file.node(leaf, 0)[FLAGS + 2] = 99);
}

#[test]
fn a_key_that_is_too_long() {
    let file = File::new(Flags::NONE, numbered(1, |_| vec![vec![7; 1500]]));
    refuses(file, Leaf, 0, "a key longer than LMDB allows", |file, leaf| {
        put(file.node(leaf, 0), 0, 900);
        put(file.node(leaf, 0), 6, 608);
    });
}
