//! The Unicode step of string normalisation (`libraries/liblunicode/ucstr.c`).
//!
//! Text is cut into segments: the last ASCII character before a run of other characters, with that
//! run. Each segment is folded, decomposed, reordered and composed by itself; ASCII outside segments
//! is only folded.

mod compose;
mod decompose;
#[rustfmt::skip]
#[allow(clippy::unreadable_literal)] // code points are numbers without thousands
mod tables;
pub mod utf8;

use crate::InvalidValue;

/// Appends the normal form of UTF-8 text; spaces are left to the caller. On an error `out` holds
/// part of it.
pub fn normalise(value: &[u8], fold: bool, out: &mut Vec<u8>) -> Result<(), InvalidValue> {
    if value.is_ascii() {
        push_ascii(value, fold, out);
        return Ok(());
    }
    let mut rest = value;
    let mut segment = Vec::new();
    while let Some(at) = rest.iter().position(|byte| !byte.is_ascii()) {
        let (ascii, tail) = rest.split_at(at.saturating_sub(1));
        push_ascii(ascii, fold, out);
        rest = take_segment(tail, fold, &mut segment)?;
        decompose::reorder(&mut segment);
        compose::compose(&mut segment);
        for &code in &segment {
            utf8::encode(code, out);
        }
    }
    push_ascii(rest, fold, out);
    Ok(())
}

/// Bytes that are not ASCII pass unchanged.
pub fn push_ascii(value: &[u8], fold: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    if fold {
        out[start..].make_ascii_lowercase();
    }
}

/// Fills `segment` with the decomposed characters of the segment at the head and returns the rest.
fn take_segment<'a>(
    text: &'a [u8],
    fold: bool,
    segment: &mut Vec<u32>,
) -> Result<&'a [u8], InvalidValue> {
    segment.clear();
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        if byte.is_ascii() && !segment.is_empty() {
            break;
        }
        let (code, tail) = utf8::decode(rest).ok_or(utf8::REFUSAL)?;
        let code = if fold { decompose::lower(code) } else { code };
        decompose::push(code, segment);
        rest = tail;
    }
    Ok(rest)
}

/// Appends what of the text can be written in ASCII: the ASCII characters of its compatibility
/// decomposition.
pub fn reduce_to_ascii(value: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
    let mut rest = value;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (code, tail) = utf8::decode(rest).ok_or(utf8::REFUSAL)?;
        parts.clear();
        decompose::push(code, &mut parts);
        out.extend(parts.iter().filter_map(|&part| u8::try_from(part).ok()).filter(u8::is_ascii));
        rest = tail;
    }
    Ok(())
}
