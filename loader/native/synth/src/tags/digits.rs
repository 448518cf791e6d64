//! Numbers as digits.

/// Maximum width of a decimal number.
pub const WIDEST: usize = 64;
const HEX_DIGITS: usize = 16;

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut at = 0;
    while at < 100 {
        #[allow(clippy::cast_possible_truncation, reason = "one digit")]
        let pair = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        pairs[at] = pair;
        at += 1;
    }
    pairs
};

/// Returns the two decimal digits of a number below 100.
pub fn pair(number: usize) -> [u8; 2] {
    PAIRS[number % 100]
}

/// Appends a decimal number, zero-padded to `width` digits.
#[allow(clippy::cast_possible_truncation, reason = "numbers below 100")]
pub fn decimal(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; WIDEST];
    let mut at = WIDEST;
    while number >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
        at -= 1;
        text[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&text[at.min(WIDEST.saturating_sub(width))..]);
}

/// Appends a number in lower-case hexadecimal, zero-padded to `width` digits.
pub fn hexadecimal(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; HEX_DIGITS];
    let mut at = HEX_DIGITS;
    while number > 0 {
        at -= 1;
        text[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
    out.extend_from_slice(&text[at.min(HEX_DIGITS.saturating_sub(width))..]);
}
