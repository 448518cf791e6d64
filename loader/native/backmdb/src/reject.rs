//! Rejected entries: told of, and kept as LDIF that can be loaded again once it is mended.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::encoded::Rejection;
use crate::{Code, Error, Result};

/// Writes the reject file (mode 0600: it may hold passwords), by position; each entry below its reason.
pub fn write(path: &Path, rejections: &[Rejection]) -> Result<()> {
    let save = || {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        for one in rejections {
            one.write(&mut out)?;
        }
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
    };
    save().map_err(|error| Error::from(error).in_file(Some(path)))
}

impl Rejection {
    /// The file it came from, or "stdin" of a kind.
    pub fn source(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "the stream".to_owned(), |path| path.display().to_string())
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let reason = self.reason.replace(['\n', '\r'], " ");
        writeln!(out, "# {reason}\n# {}, line {}", self.source().replace('\n', " "), self.line)?;
        let end = self.text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
        out.write_all(&self.text[..end.map_or(0, |end| end + 1)])?;
        out.write_all(b"\n\n")
    }
}

/// The error that too many rejections are.
pub fn too_many(rejections: &[Rejection]) -> Error {
    let first = &rejections[0];
    let orphans_only = rejections.iter().all(|one| one.orphan);
    let code = if orphans_only { Code::MissingParents } else { Code::Rejected };
    let count = rejections.len();
    let more = if count > 1 { format!("; {} more", count - 1) } else { String::new() };
    Error::new(code, format!("{}{more}", first.reason))
        .in_file(first.path.as_deref().map(std::path::PathBuf::as_path))
        .at(first.line)
        .of_entry(Some(first.dn.as_bytes()))
}
