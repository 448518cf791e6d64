//! Pages stored as differences: correct ones, and damaged ones that are refused.

use std::fs;
use std::sync::Arc;

use super::{Backups, SIZE, pages};
use crate::Known;
use crate::Segment;
use crate::difference::Packer;
use crate::frame::{Difference, FrameBuilder};
use crate::pack::Entry;
use crate::page::{ID, Place, RunWriter};

#[test]
fn a_page_that_changed_a_little_is_stored_beside_the_whole_one() {
    let mut backups = Backups::new();
    let contents: Vec<u16> = (0..50).map(|one| one * 8).collect();
    backups.take(&pages(&contents, 2));
    let mut changed = contents.clone();
    for (link, fresh) in [(1, 1), (2, 1), (0, 1)] {
        changed[20] = contents[20] + link;
        let data = pages(&changed, 2);
        let (sifted, segment) = backups.take(&data);
        assert_eq!(sifted.fresh, fresh);
        assert!(sifted.frames.len() < 100, "{}", sifted.frames.len());
        assert_eq!(backups.put_back(&segment, backups.own() - 1).unwrap(), data);
    }
}

#[test]
fn its_base_counts_as_used() {
    let mut backups = Backups::new();
    backups.take(&pages(&[8], 2));
    let (_, segment) = backups.take(&pages(&[10], 2));
    backups.known.take(0);
    let mut used = backups.known.used();
    used.sort_unstable();
    assert_eq!(used, [(0, 1), (1, 1)]);
    assert!(backups.put_back(&segment, 1).is_ok());
}

#[test]
fn new_pages_before_it_do_not_hide_its_base() {
    let mut backups = Backups::new();
    let contents: Vec<u16> = (0..50).map(|one| one * 8).collect();
    backups.take(&pages(&contents, 2));
    let mut moved = [&[4000, 4008], &contents[..]].concat();
    moved[30] += 2;
    let (sifted, _) = backups.take(&pages(&moved, 2));
    assert_eq!(sifted.fresh, 3);
    assert!(sifted.frames.len() < 3 * SIZE, "{}", sifted.frames.len());
}

#[test]
fn a_page_that_is_short_by_itself_is_stored_whole() {
    let mut backups = Backups::new();
    backups.take(&pages(&[9], 2));
    let mut changed = vec![0; SIZE];
    changed[..SIZE / 4].copy_from_slice(&pages(&[17], 2)[..SIZE / 4]);
    let (sifted, _) = backups.take(&changed);
    assert!(!Entry::read(&sifted.entries).differences);
}

/// Stores a page as a difference to the page at `base`; `lie` changes the difference before.
fn forged(base: Place, lie: impl Fn(&mut Difference)) -> (Backups, Segment) {
    let mut backups = Backups::new();
    backups.take(&pages(&[9, 17], 2));
    backups.take(&pages(&[11, 19], 2)); // of differences
    let (former, page) = (pages(&[9], 2), pages(&[13], 2));
    let packed = Packer::new().unwrap().pack(&page, Some(&former)).unwrap();
    let mut difference = Difference { base, packed };
    lie(&mut difference);
    let (mut making, mut stored, mut entries) = (FrameBuilder::default(), Vec::new(), Vec::new());
    making.add(&page, false, &[0; ID], Some(difference));
    making.finish(1, &mut stored).unwrap().write(&mut entries);
    fs::write(backups.home.path().join("2"), stored).unwrap();
    backups.packs.push(entries);
    let mut runs = RunWriter::new(2);
    runs.add(2, 0);
    (backups, Segment { runs: runs.finish(), first: 0, pages: 1 })
}

#[test]
fn an_invalid_base_is_refused() {
    for (pack, page) in [(1, 0), (2, 0), (0, 2), (0, u32::MAX - 1), (3, 0), (u32::MAX, 0)] {
        let (backups, segment) = forged(Place { pack, page }, |_| ());
        backups.put_back(&segment, 2).unwrap_err();
        let packs = Arc::new(backups.assembly());
        Known::of(packs, &[segment], 2, 0).unwrap_err();
    }
}

#[test]
fn differences_that_yield_another_page_or_none_are_refused() {
    let whole = Place { pack: 0, page: 0 };
    let (backups, segment) = forged(whole, |_| ());
    let page = pages(&[13], 2);
    assert_eq!(backups.put_back(&segment, 2).unwrap(), page);
    backups.restore(&segment, 2, &page).unwrap();
    let (backups, segment) = forged(Place { pack: 0, page: 1 }, |_| ());
    backups.restore(&segment, 2, &page).unwrap_err();
    for length in [0, 3, 10] {
        let (backups, segment) = forged(whole, |made| made.packed.truncate(length));
        backups.put_back(&segment, 2).unwrap_err();
    }
    for size in [0, SIZE - 1, SIZE + 1] {
        let other = || Packer::new().unwrap().pack(&vec![7; size], None).unwrap();
        let (backups, segment) = forged(whole, |made| made.packed = other());
        backups.put_back(&segment, 2).unwrap_err();
    }
}
