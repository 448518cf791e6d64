//! File URLs, in values (`attribute:< file:///path`) and in `include:` lines.

use std::path::Path;

use crate::{Code, Counters, Error, Input, Result};

pub const NO_FILE: &str = "not a regular file";

/// The path of an absolute URL; relative ones, other hosts and escapes are refused.
pub fn path(url: &str) -> std::result::Result<&str, &'static str> {
    let path = url.trim_end().strip_prefix("file://").ok_or("not a file:// URL")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if path.starts_with('/') && !path.contains('%') {
        Ok(path)
    } else {
        Err("only file:///path without escapes is read")
    }
}

/// Opens the file that an `include:` line names.
pub fn open_included<'a>(url: &str, counters: &'a Counters) -> Result<Input<'a>> {
    let refuse = |why: &str| Error::new(Code::Include, format!("include: {url}: {why}"));
    let path = Path::new(path(url).map_err(refuse)?);
    // Not opened before it is known: a pipe would wait, and a device never end.
    let found = std::fs::metadata(path).map_err(|error| refuse(&error.to_string()))?;
    if !found.is_file() {
        return Err(refuse(NO_FILE));
    }
    Input::from_path(path, counters)
}
