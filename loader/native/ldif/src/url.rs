//! Opens file URLs in values (`attribute:< file:///path`) and in `include:` lines.

use std::io::Read;
use std::path::Path;

use common::WithCode;

use crate::blocks::MAX_RECORD;
use crate::input::open_unheld;
use crate::{Code, Counters, Error, Input, Result};

/// Returns the path of an absolute URL; relative URLs, other hosts and escapes are refused.
fn path(url: &str) -> std::result::Result<&str, &'static str> {
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
    let path = regular_file(url).map_err(|error| {
        let message = format!("include: {url}: {}", error.message);
        Error { code: Code::Include, message, ..error }
    })?;
    Input::from_path(path, counters)
}

/// Reads the file that a value names.
pub(crate) fn read(url: &str) -> Result<Vec<u8>> {
    let file = open_unheld(regular_file(url)?)?;
    let mut value = Vec::new();
    file.take(MAX_RECORD as u64 + 1).read_to_end(&mut value)?;
    if value.len() > MAX_RECORD {
        return Err(Error::new(Code::Url, "larger than 256 MiB"));
    }
    Ok(value)
}

/// Checks the type of the file before it is opened: opening a pipe would wait, and reading a device never ends.
fn regular_file(url: &str) -> Result<&Path> {
    let path = Path::new(path(url).with_code(Code::Url)?);
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::new(Code::Url, "not a regular file"));
    }
    Ok(path)
}
