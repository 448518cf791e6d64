//! Folding, full compatibility decomposition and canonical ordering.

use super::tables;

const BLOCK: usize = 64;
const HANGUL_FIRST: u32 = 0xAC00;

/// Place of `code` in the blocks of a two-level table; none behind the last block.
fn place(index: &[u8], code: u32) -> Option<usize> {
    let code = code as usize;
    let block = usize::from(*index.get(code / BLOCK)?);
    Some(block * BLOCK + code % BLOCK)
}

/// The simple lower-case letter of Unicode 3.2; anything but a capital or title letter is itself.
pub fn lower(code: u32) -> u32 {
    let Some(at) = place(&tables::FOLD_INDEX, code) else { return code };
    let delta = tables::FOLD_DELTAS[usize::from(tables::FOLDS[at])];
    code.wrapping_add_signed(delta)
}

/// Canonical combining class.
pub fn class(code: u32) -> u8 {
    place(&tables::CLASS_INDEX, code).map_or(0, |at| tables::CLASSES[at])
}

/// Appends the full compatibility decomposition of a character.
pub fn push(code: u32, out: &mut Vec<u32>) {
    if code < 0xA0 {
        return out.push(code);
    }
    let at = place(&tables::PARTS_INDEX, code).map_or(0, |at| usize::from(tables::PARTS[at]));
    if at > 0 {
        let length = tables::POOL[at] as usize;
        out.extend_from_slice(&tables::POOL[at + 1..=at + length]);
    } else if (HANGUL_FIRST..=0xD7FF).contains(&code) {
        push_hangul(code - HANGUL_FIRST, out);
    } else {
        out.push(code);
    }
}

/// Also for the 92 code points behind the last syllable, as liblunicode does.
fn push_hangul(syllable: u32, out: &mut Vec<u32>) {
    out.push(0x1100 + syllable / 588);
    out.push(0x1161 + syllable % 588 / 28);
    if syllable % 28 != 0 {
        out.push(0x11A7 + syllable % 28);
    }
}

/// Puts each run of marks into the order of their classes; marks of one class keep their order.
pub fn reorder(text: &mut [u32]) {
    for marks in text.split_mut(|&code| class(code) == 0).filter(|marks| marks.len() > 1) {
        marks.sort_by_key(|&mark| class(mark));
    }
}
