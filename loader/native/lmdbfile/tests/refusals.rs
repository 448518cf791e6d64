//! Damaged pages: a walk, a compacting copy and a cursor refuse the same damage with the same words.

mod common;

use std::path::{Path, PathBuf};

use common::{Content, rows, write_file};
use lmdbfile::{Flags, PageKind, Reader, Result};

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
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.mdb");
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

    /// The table's pages of this kind in the order of a walk: the root first.
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

    /// The bytes of a page from the node at `at` on.
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

    /// Checks that all three refuse the file.
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

/// On the lowest branch and on the one above. A search would look for the keys before the separator behind it, or the
/// other way round.
#[test]
fn a_separator_that_parts_other_keys() {
    for level in 0..2 {
        for change in [-1, 1] {
            let mut file = File::deep();
            let branch = file.pages(PageKind::Branch)[level];
            let key = file.key(branch, 1).checked_add_signed(change).unwrap();
            file.set_key(branch, 1, key);
            file.refused(UNORDERED);
        }
    }
}

#[test]
fn separators_keys_and_values_out_of_order() {
    for level in 0..2 {
        let mut file = File::deep();
        let branch = file.pages(PageKind::Branch)[level];
        file.swap(branch, 1, 2);
        file.refused(UNORDERED);
    }
    let mut file = File::deep();
    let leaf = file.pages(PageKind::Leaf)[7];
    file.swap(leaf, 3, 4);
    file.refused(UNORDERED);
    let mut file = File::values();
    let leaf = file.pages(PageKind::Leaf)[2];
    file.page(leaf)[HEADER + 80] ^= 0xff;
    file.refused(UNORDERED);
    let mut file = File::sub_pages();
    let leaf = file.pages(PageKind::Leaf)[0];
    let pointers = 8 + 8 + HEADER;
    (0..2).for_each(|byte| file.node(leaf, 5).swap(pointers + byte, pointers + 2 + byte));
    file.refused(UNORDERED);
}

#[test]
fn a_separator_among_the_values_of_a_key() {
    let mut file = File::values();
    let branch = file.pages(PageKind::Branch)[0];
    let key = file.key(branch, 2);
    file.set_key(branch, 2, key + 1);
    file.refused(UNORDERED);
}

#[test]
fn a_branch_with_a_single_child() {
    for mut file in [File::deep(), File::values()] {
        let branch = *file.pages(PageKind::Branch).last().unwrap();
        put(file.page(branch), 12, 18);
        file.refused("a branch with a single child");
    }
}

/// A leaf in place of a branch, a branch in place of a leaf, and values of one size in place of keys.
#[test]
fn a_page_in_the_place_of_another() {
    let kinds = [PageKind::Leaf, PageKind::Branch];
    for (kind, other) in [(kinds[0], kinds[1]), (kinds[1], kinds[0])] {
        let mut file = File::deep();
        let (here, there) = (file.pages(kind)[1], file.pages(other)[1]);
        let bytes = file.page(there)[8..].to_vec();
        file.page(here)[8..].copy_from_slice(&bytes);
        file.refused(OTHER_KIND);
    }
    let mut file = File::deep();
    let leaf = file.pages(PageKind::Leaf)[1];
    put(file.page(leaf), 8, 8);
    put(file.page(leaf), 10, 0x22);
    file.refused(OTHER_KIND);
    let mut file = File::deep();
    let branch = file.pages(PageKind::Branch)[1];
    file.node(branch, 4)[5] = 1;
    file.refused("a page that is outside of the file");
}

#[test]
fn flags_that_no_node_has() {
    for (flags, words) in [
        (8, NONSENSE),
        (3, NONSENSE),
        (5, NONSENSE),
        (2, "a table's record of the wrong size"),
        (4, "a sub-page without the flag of one"),
    ] {
        let mut file = File::deep();
        let leaf = file.pages(PageKind::Leaf)[7];
        file.set_flags(leaf, 3, flags);
        file.refused(words);
    }
}

#[test]
fn nodes_that_the_table_cannot_have() {
    // The record of a table among ordinary keys.
    let mut file = File::new(Flags::INTEGERKEY, numbered(9, |_| vec![vec![0; 48]]));
    let leaf = file.pages(PageKind::Leaf)[0];
    file.set_flags(leaf, 3, 2);
    file.refused("a value of a kind that its table cannot have");
    // Many values where only one is allowed.
    file.set_flags(leaf, 3, 6);
    file.refused("a key with many values where it can have only one");
    // A value on overflow pages where a key has many values.
    let mut file = File::new(Flags::DUPSORT | Flags::INTEGERKEY, numbered(9, |_| vec![vec![2; 8]]));
    let leaf = file.pages(PageKind::Leaf)[0];
    file.set_flags(leaf, 3, 1);
    file.refused("a value of a kind that its table cannot have");
}

#[test]
fn a_record_that_does_not_fit_the_values() {
    const FLAGS: usize = 8 + 8 + 4;
    for (at, value) in [(FLAGS, 1), (FLAGS - 4, 0), (FLAGS + 28, 0)] {
        let mut file = File::values();
        let leaf = file.pages(PageKind::Leaf)[0];
        file.node(leaf, 0)[at..at + 2].copy_from_slice(&[value, 0]);
        file.refused("a record that does not fit the values of its table");
    }
    let mut file = File::values();
    let leaf = file.pages(PageKind::Leaf)[0];
    file.node(leaf, 0)[FLAGS + 2] = 99;
    file.refused("a tree of an impossible depth");
}

#[test]
fn a_key_that_is_too_long() {
    let mut file = File::new(Flags::NONE, numbered(1, |_| vec![vec![7; 1500]]));
    let leaf = file.pages(PageKind::Leaf)[0];
    put(file.node(leaf, 0), 0, 900);
    put(file.node(leaf, 0), 6, 608);
    file.refused("a key longer than LMDB allows");
}
