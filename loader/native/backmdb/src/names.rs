//! The spooled names of entries, for dn2i and the order of the tree.

use extsort::Spool;

use crate::Result;
use crate::encoded::EncodedEntry;

/// Question number of the entry of a suffix: no question asks for its parent.
pub const SUFFIX: u32 = u32::MAX;
/// The position of the root above the suffixes.
pub const ABOVE: u32 = u32::MAX - 1;

/// Length of a record before its names, in bytes.
const HEAD: usize = 23;

/// A spooled record: an entry's names and its position.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    pub position: u32,
    /// Number of the question for the entry's parent, or [`SUFFIX`].
    pub question: u32,
    /// Index of the entry's file plus 1; 0 for a stream.
    pub path: u32,
    pub line: u64,
    pub generated_uuid: bool,
    pub normal: &'a [u8],
    pub pretty: &'a [u8],
}

/// Returns the bytes of a record before its two names.
pub fn head(kept: &EncodedEntry, question: u32, path: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&kept.position.to_le_bytes());
    head[4..8].copy_from_slice(&question.to_le_bytes());
    head[8..12].copy_from_slice(&path.to_le_bytes());
    head[12..20].copy_from_slice(&kept.line.to_le_bytes());
    head[20..22].copy_from_slice(&kept.normal.to_le_bytes());
    head[22] = u8::from(kept.generated_uuid);
    head
}

/// Passes all names, with their records, to `visit`.
///
/// # Panics
/// If a record does not begin with the bytes of [`head`].
pub fn each(names: &Spool, mut visit: impl FnMut(&Name<'_>, &[u8]) -> Result<()>) -> Result<()> {
    let mut reader = names.reader();
    while let Some(record) = reader.next()? {
        visit(&read(record), record)?;
    }
    Ok(())
}

fn read(record: &[u8]) -> Name<'_> {
    let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
    let (head, names) = record.split_at(HEAD);
    let normal = usize::from(u16::from_le_bytes([head[20], head[21]]));
    let (normal, pretty) = names.split_at(normal);
    let line = u64::from(word(12)) | u64::from(word(16)) << 32;
    Name { position: word(0), question: word(4), path: word(8), line, generated_uuid: head[22] != 0, normal, pretty }
}
