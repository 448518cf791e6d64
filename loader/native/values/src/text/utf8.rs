//! UTF-8 by RFC 2279, which slapd still accepts: up to six bytes, and surrogates are valid
//! (`libraries/libldap/utf-8.c`).

use crate::{InvalidValue, Result};

pub const REFUSAL: InvalidValue = InvalidValue::new("not valid UTF-8");

/// Returns the first code point of `text`, and the rest of `text`; `None` if the code point is invalid.
#[inline]
pub fn decode(text: &[u8]) -> Option<(u32, &[u8])> {
    let (&lead, rest) = text.split_first()?;
    let more = match lead.leading_ones() {
        0 => return Some((u32::from(lead), rest)),
        ones @ 2..=6 => ones as usize - 1,
        _ => return None,
    };
    let (tail, rest) = rest.split_at_checked(more)?;
    let mut code = u32::from(lead) & (0x3F >> more);
    for &byte in tail {
        if byte & 0xC0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3F);
    }
    (length(code) == more + 1).then_some((code, rest))
}

/// Returns the number of bytes in the shortest encoding of a code point.
fn length(code: u32) -> usize {
    match code {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        0x1_0000..0x20_0000 => 4,
        0x20_0000..0x400_0000 => 5,
        _ => 6,
    }
}

/// Appends a code point, which must be below 2^31.
pub fn encode(code: u32, out: &mut Vec<u8>) {
    let length = length(code);
    if length == 1 {
        return out.push(low_byte(code));
    }
    let lead = low_byte(0xFF00 >> length) | low_byte(code >> (6 * (length - 1)));
    out.push(lead);
    out.extend((0..length - 1).rev().map(|at| 0x80 | low_byte(code >> (6 * at)) & 0x3F));
}

fn low_byte(bits: u32) -> u8 {
    bits.to_le_bytes()[0]
}

pub fn check(text: &[u8]) -> Result<()> {
    if std::str::from_utf8(text).is_ok() {
        return Ok(());
    }
    let mut rest = text;
    while !rest.is_empty() {
        rest = decode(rest).ok_or(REFUSAL)?.1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_code_points_can_be_decoded() {
        for code in [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd800, 0xffff, 0x1_0000, 0x10_ffff, 0x7fff_ffff] {
            let mut text = Vec::new();
            encode(code, &mut text);
            assert_eq!(decode(&text), Some((code, &[][..])));
        }
    }
}
