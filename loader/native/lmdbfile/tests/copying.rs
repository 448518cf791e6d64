//! Page-for-page copies: holes stay holes, and a broken stream can be resumed.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};
use lmdbfile::{ErrorKind, Result};

const HEAD: [u8; 8192] = [9; 8192];
const LENGTH: u64 = (60 << 20) + 4096;
const IMAGE: Image<'_> = Image { head: &HEAD, length: LENGTH, compacted: false };

/// A source, a target, and the journal of what the target has.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a sparse source of 64 MiB, and returns the expected content of the target.
    fn make(&self, seed: u64) -> Vec<u8> {
        let (path, rng) = (self.path("source"), &mut Rng::with_seed(seed));
        let file = File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        for _ in 0..6 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(3 << 20).collect();
            file.write_all_at(&bytes, rng.u64(..60 << 8) * 4096).unwrap();
        }
        let mut content = std::fs::read(path).unwrap();
        content[..HEAD.len()].copy_from_slice(&HEAD);
        content.truncate(usize::try_from(LENGTH).unwrap());
        content
    }

    fn copy(&self, length: u64) -> Result<u64> {
        let image = Image { length, ..IMAGE };
        copy(&self.path("source"), &image, &self.path("target"), None, &|_| true)
    }

    /// Returns the offset where the stream begins, and the stream.
    fn sent(&self, image: &Image<'_>, part: Option<ResumePoint>) -> (u64, Vec<u8>) {
        let mut stream = Vec::new();
        let from = send(&self.path("source"), image, part, &mut stream, &|_| true).unwrap();
        (from, stream)
    }

    fn received(&self, mut stream: &[u8]) -> Result<u64> {
        receive(&mut stream, &self.path("target"), &self.path("have"), &|_| true)
    }

    /// Receives a broken stream, and returns the resume point.
    fn part(&self, stream: &[u8]) -> ResumePoint {
        assert_eq!(self.received(stream).unwrap_err().kind, ErrorKind::Stream);
        std::fs::read_to_string(self.path("have")).unwrap().trim().parse().unwrap()
    }
}

#[test]
fn holes_stay_holes() {
    let place = Place::new();
    for seed in 0..5 {
        let content = place.make(seed);
        assert_eq!(place.copy(LENGTH).unwrap(), LENGTH);
        assert!(std::fs::read(place.path("target")).unwrap() == content);
        let blocks = |name: &str| place.path(name).metadata().unwrap().blocks();
        assert!(blocks("target") <= blocks("source") + 64, "{seed}");
    }
}

#[test]
fn a_file_that_ends_before_its_last_page() {
    let place = Place::new();
    std::fs::write(place.path("source"), vec![1; 20480]).unwrap();
    assert_eq!(place.copy(1 << 20).unwrap(), 20480);
    assert_eq!(place.path("target").metadata().unwrap().len(), 20480);
}

#[test]
fn a_broken_stream_is_resumed() {
    let (place, rng) = (Place::new(), &mut Rng::with_seed(3));
    let content = place.make(3);
    let whole = place.sent(&IMAGE, None).1;
    assert!(whole.len() < 20 << 20);
    for _ in 0..10 {
        let part = place.part(&whole[..rng.usize(60..whole.len())]);
        let (from, rest) = place.sent(&IMAGE, Some(part));
        assert_eq!(from, part.have);
        assert_eq!(place.received(&rest).unwrap(), LENGTH);
        assert!(std::fs::read(place.path("target")).unwrap() == content);
        assert!(!place.path("have").exists());
    }
    let other = ResumePoint { image: 1, have: 8192 };
    assert_eq!(place.sent(&IMAGE, Some(other)).0, 0);
    let part = place.part(&whole[..whole.len() / 2]);
    let compacted = Image { compacted: true, ..IMAGE };
    let from = place.sent(&compacted, Some(part)).0;
    assert_eq!(from, 0, "the part is of a copy that was not compacted");
}

#[test]
fn a_damaged_stream_or_one_that_resumes_another_copy_is_refused() {
    let (place, rng) = (Place::new(), &mut Rng::with_seed(4));
    place.make(4);
    let whole = place.sent(&IMAGE, None).1;
    for _ in 0..60 {
        let mut stream = whole.clone();
        let end = [60, stream.len()][rng.usize(..2)];
        stream[rng.usize(..end)] ^= 1 << rng.u8(..8);
        assert!(place.received(&stream).is_err());
    }
    for gone in ["have", "target"] {
        let _ = std::fs::remove_file(place.path("have"));
        let part = place.part(&whole[..4 << 20]);
        let rest = place.sent(&IMAGE, Some(part)).1;
        std::fs::remove_file(place.path(gone)).unwrap();
        assert_eq!(place.received(&rest).unwrap_err().kind, ErrorKind::Misuse, "{gone}");
    }
}

#[test]
fn a_full_disk_is_reported() {
    let (place, full) = (Place::new(), Path::new("/dev/full"));
    place.make(5);
    let error = copy(&place.path("source"), &IMAGE, full, None, &|_| true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
}
