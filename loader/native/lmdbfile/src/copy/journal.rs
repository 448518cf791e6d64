//! How much of a copy is there: one line, in a file beside it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::send::ResumePoint;

/// `None` where there is none, or nothing that makes sense.
pub(super) fn read(path: &Path) -> Option<ResumePoint> {
    std::fs::read_to_string(path).ok()?.trim_end().parse().ok()
}

/// The whole line or the one before it, whatever happens.
pub(super) fn write(path: &Path, part: ResumePoint) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    writeln!(file, "{part}")?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

impl std::fmt::Display for ResumePoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}-{}", self.image, self.have)
    }
}

impl std::str::FromStr for ResumePoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('-').and_then(|(image, have)| {
            Some(Self { image: u64::from_str_radix(image, 16).ok()?, have: have.parse().ok()? })
        });
        parts.ok_or("not what a receiver said that it has")
    }
}
