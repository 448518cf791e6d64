//! Reports rejected entries.

use std::path::PathBuf;

use crate::encoded::Rejection;
use crate::{Code, Error};

/// Returns the error for too many rejections.
pub fn too_many(rejections: &[Rejection]) -> Error {
    if rejections.iter().all(|one| one.orphan) {
        if let Some(error) = parents_missing(rejections) {
            return error;
        }
    }
    let first = &rejections[0];
    let count = rejections.len();
    let more = if count > 1 { format!("; {} more", count - 1) } else { String::new() };
    told_of(first, &first.dn, Error::new(Code::Rejected, format!("{}{more}", first.reason)))
}

/// Returns an error that names the first missing parent, not its child.
fn parents_missing(rejections: &[Rejection]) -> Option<Error> {
    let first = rejections.iter().find(|one| one.missing.is_some())?;
    let count = rejections.len();
    let below = if count > 1 { format!("; {count} entries lack theirs") } else { String::new() };
    let message = format!("the parent of {}{below}", first.dn);
    Some(told_of(first, first.missing.as_deref()?, Error::new(Code::MissingParents, message)))
}

fn told_of(one: &Rejection, dn: &str, error: Error) -> Error {
    let path = one.path.as_deref().map(PathBuf::as_path);
    error.in_file(path).at(one.line).of_entry(Some(dn.as_bytes()))
}
