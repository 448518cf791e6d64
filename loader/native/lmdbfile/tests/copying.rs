//! Page-for-page copies: holes stay holes, and a broken stream can be resumed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use fastrand::Rng;
use lmdbfile::ErrorKind;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};

const HEAD: [u8; 8192] = [9; 8192];

/// Islands of data in a file of 64 MiB.
fn make(path: &Path, rng: &mut Rng) -> Vec<u8> {
    let file = File::create(path).unwrap();
    file.set_len(64 << 20).unwrap();
    for _ in 0..6 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(3 << 20).collect();
        file.write_all_at(&bytes, rng.u64(..60 << 8) * 4096).unwrap();
    }
    let mut content = std::fs::read(path).unwrap();
    content[..HEAD.len()].copy_from_slice(&HEAD);
    content
}

#[test]
fn holes_stay_holes() {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    for seed in 0..5 {
        let mut content = make(&source, &mut Rng::with_seed(seed));
        let length = (60 << 20) + 4096;
        let image = Image { head: &HEAD, length, compacted: false };
        assert_eq!(copy(&source, &image, &target, None, &|_| true).unwrap(), length);
        content.truncate(usize::try_from(length).unwrap());
        assert!(std::fs::read(&target).unwrap() == content);
        let blocks = |path: &Path| path.metadata().unwrap().blocks();
        assert!(blocks(&target) <= blocks(&source) + 64, "{seed}");
    }
}

#[test]
fn a_file_that_ends_before_its_last_page() {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    std::fs::write(&source, vec![1; 20480]).unwrap();
    let image = Image { head: &HEAD, length: 1 << 20, compacted: false };
    assert_eq!(copy(&source, &image, &target, None, &|_| true).unwrap(), 20480);
    assert_eq!(target.metadata().unwrap().len(), 20480);
}

#[test]
fn a_stream_that_breaks_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name| directory.path().join(name);
    let (source, target, journal) = (place("source"), place("target"), place("have"));
    let rng = &mut Rng::with_seed(3);
    let mut content = make(&source, rng);
    let image = Image { head: &HEAD, length: 61 << 20, compacted: false };
    content.truncate(61 << 20);
    let sent = |part: Option<ResumePoint>| {
        let mut stream = Vec::new();
        let from = send(&source, &image, part, &mut stream, &|_| true).unwrap();
        (from, stream)
    };
    let whole = sent(None).1;
    assert!(whole.len() < 20 << 20);
    for _ in 0..10 {
        let cut = rng.usize(60..whole.len());
        let error = receive(&mut &whole[..cut], &target, &journal, &|_| true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Stream);
        let part: ResumePoint = std::fs::read_to_string(&journal).unwrap().trim().parse().unwrap();
        let (from, rest) = sent(Some(part));
        assert_eq!(from, part.have);
        let received = receive(&mut &rest[..], &target, &journal, &|_| true);
        assert_eq!(received.unwrap(), 61 << 20);
        assert!(std::fs::read(&target).unwrap() == content);
        assert!(!journal.exists());
    }
    let other = ResumePoint { image: 1, have: 8192 };
    assert_eq!(sent(Some(other)).0, 0);
    receive(&mut &whole[..whole.len() / 2], &target, &journal, &|_| true).unwrap_err();
    let part: ResumePoint = std::fs::read_to_string(&journal).unwrap().trim().parse().unwrap();
    let compacted = Image { compacted: true, ..image };
    let sent = send(&source, &compacted, Some(part), &mut Vec::new(), &|_| true);
    assert_eq!(sent.unwrap(), 0, "the part is of a copy that was not compacted");
}

#[test]
fn a_part_of_another_copy_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name| directory.path().join(name);
    let (source, target, journal) = (place("source"), place("target"), place("have"));
    let rng = &mut Rng::with_seed(4);
    make(&source, rng);
    let image = Image { head: &HEAD, length: 61 << 20, compacted: false };
    let mut whole = Vec::new();
    send(&source, &image, None, &mut whole, &|_| true).unwrap();
    for _ in 0..60 {
        let mut stream = whole.clone();
        let end = [60, stream.len()][rng.usize(..2)];
        stream[rng.usize(..end)] ^= 1 << rng.u8(..8);
        assert!(receive(&mut &stream[..], &target, &journal, &|_| true).is_err());
    }
    // Try to resume without the target file.
    let _ = std::fs::remove_file(&journal);
    let part: ResumePoint = {
        let broken = receive(&mut &whole[..4 << 20], &target, &journal, &|_| true);
        assert!(broken.is_err());
        std::fs::read_to_string(&journal).unwrap().trim().parse().unwrap()
    };
    let mut rest = Vec::new();
    send(&source, &image, Some(part), &mut rest, &|_| true).unwrap();
    std::fs::remove_file(&journal).unwrap();
    let error = receive(&mut &rest[..], &target, &journal, &|_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misuse);
}

#[test]
fn a_full_disk_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    let full = OpenOptions::new().write(true).open("/dev/full");
    make(&source, &mut Rng::with_seed(5));
    let image = Image { head: &HEAD, length: 61 << 20, compacted: false };
    let error = copy(&source, &image, Path::new("/dev/full"), None, &|_| true).unwrap_err();
    assert!(full.is_ok() && error.kind == ErrorKind::NoSpace, "{error}");
}

/// The journal exists, but the file it describes is gone.
#[test]
fn a_missing_target_cannot_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name| directory.path().join(name);
    let (source, target, journal) = (place("source"), place("target"), place("have"));
    make(&source, &mut Rng::with_seed(6));
    let image = Image { head: &HEAD, length: 61 << 20, compacted: false };
    let mut whole = Vec::new();
    send(&source, &image, None, &mut whole, &|_| true).unwrap();
    assert!(receive(&mut &whole[..4 << 20], &target, &journal, &|_| true).is_err());
    let part: ResumePoint = std::fs::read_to_string(&journal).unwrap().trim().parse().unwrap();
    let mut rest = Vec::new();
    send(&source, &image, Some(part), &mut rest, &|_| true).unwrap();
    std::fs::remove_file(&target).unwrap();
    let error = receive(&mut &rest[..], &target, &journal, &|_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Misuse);
}
