//! Writes values in DN strings. An escape is always a backslash and two hexadecimal digits in upper case.

use super::parse::is_space;
use crate::{Result, refuse};
use values::utf8;

const fn always(byte: u8) -> bool {
    matches!(byte, 0 | b'\\' | b',' | b';' | b'+' | b'"' | b'<' | b'>' | b'=')
}

/// Bytes that never need an escape in a DN string.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        plain[byte as usize] = !always(byte) && byte != b'#';
        byte += 1;
    }
    plain
};

/// Whether the value needs no escape in a DN string.
pub fn is_plain(value: &[u8]) -> bool {
    value.iter().all(|&byte| PLAIN[byte as usize])
}

/// Appends the value with escapes. UTF-8 beyond ASCII stays unchanged.
pub fn escape(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if is_plain(value) {
        out.extend_from_slice(value);
        return Ok(());
    }
    escape_each(value, |_| false, out)
}

/// Escapes the bytes of `out` from `start` on.
pub fn escape_tail(start: usize, out: &mut Vec<u8>) -> Result<()> {
    if is_plain(&out[start..]) {
        return Ok(());
    }
    let tail = out.split_off(start);
    escape(&tail, out)
}

/// Appends the value with escapes, also for bytes beyond ASCII.
pub fn escape_ascii(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    escape_each(value, |byte| !byte.is_ascii(), out)
}

fn escape_each(value: &[u8], also: impl Fn(u8) -> bool, out: &mut Vec<u8>) -> Result<()> {
    if utf8::check(value).is_err() {
        return refuse("an RDN value is not valid UTF-8");
    }
    for (at, &byte) in value.iter().enumerate() {
        if needs_escape(value, at) || also(byte) {
            hex(byte, out);
        } else {
            out.push(byte);
        }
    }
    Ok(())
}

fn needs_escape(value: &[u8], at: usize) -> bool {
    let byte = value[at];
    let first = at == 0 && (byte == b'#' || is_space(byte));
    let last = at + 1 == value.len() && is_space(byte);
    always(byte) || first || last
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'\\', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}
