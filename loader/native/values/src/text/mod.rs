//! The Unicode step of string normalisation (`libraries/liblunicode/ucstr.c`).
//!
//! A segment is an ASCII character with the non-ASCII characters after it. Each segment is folded, decomposed,
//! reordered and composed separately. ASCII text outside of segments is only folded.

#[rustfmt::skip]
#[allow(clippy::unreadable_literal)] // code points have no thousands separators
mod tables;
pub mod utf8;

use crate::Result;

/// Appends the normal form of UTF-8 text, in which spaces are unchanged. After an error, `out` contains a part of the
/// normal form.
pub fn normalise(value: &[u8], fold: bool, out: &mut Vec<u8>) -> Result<()> {
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
        reorder(&mut segment);
        compose(&mut segment);
        for &code in &segment {
            utf8::encode(code, out);
        }
    }
    push_ascii(rest, fold, out);
    Ok(())
}

/// Appends text. If `fold`, its ASCII letters become lower case.
pub fn push_ascii(value: &[u8], fold: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    if fold {
        out[start..].make_ascii_lowercase();
    }
}

/// Fills `segment` with the decomposed characters of the first segment, and returns the rest.
fn take_segment<'a>(text: &'a [u8], fold: bool, segment: &mut Vec<u32>) -> Result<&'a [u8]> {
    segment.clear();
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        if byte.is_ascii() && !segment.is_empty() {
            break;
        }
        let (code, tail) = utf8::decode(rest).ok_or(utf8::REFUSAL)?;
        let code = if fold { lower(code) } else { code };
        push(code, segment);
        rest = tail;
    }
    Ok(rest)
}

/// Appends the ASCII characters of the text's compatibility decomposition.
pub fn reduce_to_ascii(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut rest = value;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (code, tail) = utf8::decode(rest).ok_or(utf8::REFUSAL)?;
        parts.clear();
        push(code, &mut parts);
        out.extend(parts.iter().filter_map(|&part| u8::try_from(part).ok()).filter(u8::is_ascii));
        rest = tail;
    }
    Ok(())
}

const BLOCK: usize = 64;
const HANGUL_FIRST: u32 = 0xAC00;

/// Returns the position of `code` in the second level of a two-level table, or `None` beyond the last block.
fn position(index: &[u8], code: u32) -> Option<usize> {
    let code = code as usize;
    let block = usize::from(*index.get(code / BLOCK)?);
    Some(block * BLOCK + code % BLOCK)
}

/// Returns the lower-case letter of a capital or title letter in Unicode 3.2, and any other character unchanged.
fn lower(code: u32) -> u32 {
    let Some(at) = position(&tables::FOLD_INDEX, code) else { return code };
    let delta = tables::FOLD_DELTAS[usize::from(tables::FOLDS[at])];
    code.wrapping_add_signed(delta)
}

/// Returns the canonical combining class of a character.
fn class(code: u32) -> u8 {
    position(&tables::CLASS_INDEX, code).map_or(0, |at| tables::CLASSES[at])
}

/// Appends the full compatibility decomposition of a character.
fn push(code: u32, out: &mut Vec<u32>) {
    if code < 0xA0 {
        return out.push(code);
    }
    let at = position(&tables::PARTS_INDEX, code).map_or(0, |at| usize::from(tables::PARTS[at]));
    if at > 0 {
        let length = tables::POOL[at] as usize;
        out.extend_from_slice(&tables::POOL[at + 1..=at + length]);
    } else if (HANGUL_FIRST..=0xD7FF).contains(&code) {
        push_hangul(code - HANGUL_FIRST, out);
    } else {
        out.push(code);
    }
}

/// Decomposes a Hangul syllable. Like liblunicode, also decomposes the 92 code points after the last syllable.
fn push_hangul(syllable: u32, out: &mut Vec<u32>) {
    out.push(0x1100 + syllable / 588);
    out.push(0x1161 + syllable % 588 / 28);
    if syllable % 28 != 0 {
        out.push(0x11A7 + syllable % 28);
    }
}

/// Sorts each run of marks by combining class; marks of the same class keep their order.
fn reorder(text: &mut [u32]) {
    for marks in text.split_mut(|&code| class(code) == 0).filter(|marks| marks.len() > 1) {
        marks.sort_by_key(|&mark| class(mark));
    }
}

/// Greater than the class of any mark, so that a mark at the beginning of a segment is never composed.
const ABOVE_ALL: u16 = 256;

/// Composes the decomposed characters of a segment in place.
fn compose(text: &mut Vec<u32>) {
    let Some(&first) = text.first() else { return };
    let (mut starter, mut starter_at, mut end) = (first, 0, 1);
    let mut kept = if class(first) == 0 { 0 } else { ABOVE_ALL };
    for at in 1..text.len() {
        let code = text[at];
        let class = u16::from(class(code));
        let composite = pair(starter, code).or_else(|| join_hangul(starter, code));
        if let Some(composite) = composite.filter(|_| kept == 0 || kept < class) {
            starter = composite;
            text[starter_at] = composite;
            continue;
        }
        if class == 0 {
            (starter, starter_at) = (code, end);
        }
        kept = class;
        text[end] = code;
        end += 1;
    }
    text.truncate(end);
}

/// Returns the composite of two characters, if the table has one.
fn pair(first: u32, second: u32) -> Option<u32> {
    let first = u16::try_from(first).ok()?;
    // The second characters of all pairs are in this range.
    let second = u16::try_from(second).ok().filter(|second| (0x300..=0x309A).contains(second))?;
    let parts = u64::from(first) << 16 | u64::from(second);
    let at = tables::COMPOSITES.binary_search_by_key(&parts, |composite| composite >> 16).ok()?;
    Some((tables::COMPOSITES[at] & 0xFFFF) as u32)
}

/// Composes a leading consonant with a vowel, or the resulting syllable with a trailing consonant. Like liblunicode,
/// also treats U+11A7 and U+11C3, which adjoin the trailing consonants, as trailing consonants.
fn join_hangul(last: u32, code: u32) -> Option<u32> {
    let (leading, vowel) = (last.wrapping_sub(0x1100), code.wrapping_sub(0x1161));
    if leading < 19 && vowel < 21 {
        return Some(HANGUL_FIRST + (leading * 21 + vowel) * 28);
    }
    let (syllable, trailing) = (last.wrapping_sub(HANGUL_FIRST), code.wrapping_sub(0x11A7));
    (syllable < 11_172 && syllable % 28 == 0 && trailing <= 28).then(|| last + trailing)
}
