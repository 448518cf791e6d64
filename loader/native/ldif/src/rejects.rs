//! The file of rejects: entries as LDIF that can be loaded again once they are mended, each below its reason.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{Error, Result};

/// A rejected entry.
#[derive(Debug, Clone, Copy)]
pub struct Reject<'a> {
    /// `None` for a stream.
    pub path: Option<&'a Path>,
    pub line: u64,
    pub reason: &'a str,
    /// The record.
    pub text: &'a [u8],
}

/// Writes a new file (mode 0600: it may hold passwords), on the disk when this returns. The caller has removed an older
/// one; whatever stands there nevertheless, a symbolic link say, somebody else has put there, and it is an error.
pub fn write<'a>(path: &Path, rejects: impl IntoIterator<Item = Reject<'a>>) -> Result<()> {
    let save = || {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        rejects.into_iter().try_for_each(|one| one.write(&mut out))?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
    };
    save().map_err(|error| Error::from(error).in_file(Some(path)))
}

/// The file, or "the stream".
fn source(path: Option<&Path>) -> String {
    path.map_or_else(|| "the stream".to_owned(), |path| path.display().to_string())
}

impl Reject<'_> {
    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let reason = self.reason.replace(['\n', '\r'], " ");
        writeln!(
            out,
            "# {reason}\n# {}, line {}",
            source(self.path).replace('\n', " "),
            self.line
        )?;
        let end = self.text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'));
        out.write_all(&self.text[..end.map_or(0, |end| end + 1)])?;
        out.write_all(b"\n\n")
    }
}
