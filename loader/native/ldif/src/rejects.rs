//! Writes the reject file: LDIF that can be loaded once it is corrected. A comment before each entry says the reason.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::InFile;

use crate::Result;

/// A rejected entry. `P` is the type of positions in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection<P> {
    pub position: P,
    /// Path of the input; `None` for a stream.
    pub path: Option<Arc<PathBuf>>,
    /// Number of the entry's first line, counted from 1.
    pub line: u64,
    pub dn: String,
    pub reason: String,
    /// Whether the reason is that the parent is missing or was rejected.
    pub orphan: bool,
    /// DN of the parent, if the parent is known to be missing.
    pub missing: Option<String>,
    /// The record as read, without the blank line after it.
    pub text: Vec<u8>,
}

/// Writes a new file (mode 0600, because it may contain passwords), which is on the disk when this returns. The caller
/// must have removed an older file: if anything exists at `path`, even a symbolic link, this returns an error.
pub fn write<P>(path: &Path, rejections: &[Rejection<P>]) -> Result<()> {
    let save = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        rejections.iter().try_for_each(|rejection| rejection.write(&mut out))?;
        out.into_inner()?.sync_all()
    };
    save().in_file(Some(path))
}

/// Escapes control sequences and line breaks: the text becomes one comment line, and may quote values of the entry.
fn printable(text: &str) -> String {
    let escaped = |char: char| if is_unfit(char) { char.escape_default().to_string() } else { char.into() };
    text.chars().map(escaped).collect()
}

/// Whether the character is a control character, a line break, or changes the direction of text.
fn is_unfit(char: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    char.is_control() || marks.contains(&char) || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl<P> Rejection<P> {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        let source = printable(path.as_deref().unwrap_or("the stream"));
        let reason = printable(&self.reason);
        writeln!(out, "# {reason}\n# {source}, line {}", self.line)?;
        let end = self.text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
        out.write_all(&self.text[..end.map_or(0, |end| end + 1)])?;
        out.write_all(b"\n\n")
    }
}
