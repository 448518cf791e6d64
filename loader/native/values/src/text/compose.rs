//! Canonical composition, with the liberties of libraries/liblunicode/ucdata/ucdata.c.

use super::{decompose, tables};

/// Stands for a class above all marks, so that nothing joins a mark at the head of a segment.
const ABOVE_ALL: u16 = 256;

/// Composes the decomposed characters of a segment in place.
pub fn compose(text: &mut Vec<u32>) {
    let Some(&first) = text.first() else { return };
    let (mut starter, mut starter_at, mut end) = (first, 0, 1);
    let mut kept = if decompose::class(first) == 0 { 0 } else { ABOVE_ALL };
    for at in 1..text.len() {
        let code = text[at];
        let class = u16::from(decompose::class(code));
        if let Some(both) = pair(starter, code).filter(|_| kept == 0 || kept < class) {
            starter = both;
            text[starter_at] = both;
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
    compose_hangul(text);
}

fn pair(first: u32, second: u32) -> Option<u32> {
    let first = u16::try_from(first).ok()?;
    // The lowest and the highest character that ends a pair.
    let second = u16::try_from(second).ok().filter(|second| (0x300..=0x309A).contains(second))?;
    let parts = u64::from(first) << 16 | u64::from(second);
    let at = tables::COMPOSITES.binary_search_by_key(&parts, |composite| composite >> 16).ok()?;
    Some((tables::COMPOSITES[at] & 0xFFFF) as u32)
}

fn compose_hangul(text: &mut Vec<u32>) {
    let mut end = 1;
    for at in 1..text.len() {
        let code = text[at];
        if let Some(syllable) = join_hangul(text[end - 1], code) {
            text[end - 1] = syllable;
        } else {
            text[end] = code;
            end += 1;
        }
    }
    text.truncate(end);
}

/// Leading consonant and vowel, or such a syllable and a trailing consonant. liblunicode takes
/// U+11A7 and U+11C3, the neighbours of the trailing consonants, for ones too.
fn join_hangul(last: u32, code: u32) -> Option<u32> {
    const SYLLABLES: u32 = 0xAC00;
    let (leading, vowel) = (last.wrapping_sub(0x1100), code.wrapping_sub(0x1161));
    if leading < 19 && vowel < 21 {
        return Some(SYLLABLES + (leading * 21 + vowel) * 28);
    }
    let (syllable, trailing) = (last.wrapping_sub(SYLLABLES), code.wrapping_sub(0x11A7));
    (syllable < 11_172 && syllable % 28 == 0 && trailing <= 28).then(|| last + trailing)
}
