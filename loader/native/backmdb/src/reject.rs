//! Rejected entries: told of, and kept as LDIF that can be loaded again once it is mended.

use std::path::{Path, PathBuf};

use ldif::rejects::{self, Reject};

use crate::encoded::Rejection;
use crate::{Code, Error, Result};

/// Writes the reject file, by position.
pub fn write(path: &Path, rejections: &[Rejection]) -> Result<()> {
    rejects::write(path, rejections.iter().map(Rejection::reject))
}

impl Rejection {
    fn reject(&self) -> Reject<'_> {
        let path = self.path.as_deref().map(PathBuf::as_path);
        Reject { path, line: self.line, reason: &self.reason, text: &self.text }
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
        .in_file(first.path.as_deref().map(PathBuf::as_path))
        .at(first.line)
        .of_entry(Some(first.dn.as_bytes()))
}
