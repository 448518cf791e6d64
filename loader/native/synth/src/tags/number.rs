//! Numbers: of the entry, random ones, and permutations.

use super::{EntryContext, Render, Scope};
use crate::distribution::{Distribution, Sampler};
use crate::draw::{Stream, below};
use crate::permute::Permutation;

/// Widths of numbers in digits, at most.
pub const DIGITS: usize = 18;
pub const HEX: usize = 16;
const WIDEST: usize = 64;

#[derive(Debug)]
struct Number {
    start: u64,
    width: usize,
    most: u64,
}

pub fn number(start: u64, width: usize, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    checked(width, 0, WIDEST)?;
    let last = start.checked_add(scope.count()).ok_or("the numbers grow too large")?;
    Ok(Box::new(Number { start, width, most: longest(last, width) }))
}

impl Render for Number {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        decimal(out, self.start + at.index, self.width);
    }

    fn most(&self) -> u64 {
        self.most
    }
}

#[derive(Debug)]
struct Random {
    stream: Stream,
    limit: u64,
    base: u32,
    width: usize,
}

/// So many random digits of base 10 or 16.
pub fn random(base: u32, width: usize, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let limit = limit(base, width)?;
    Ok(Box::new(Random { stream: scope.stream, limit, base, width }))
}

impl Render for Random {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        digits(out, below(at.bits(self.stream), self.limit), self.base, self.width);
    }

    fn most(&self) -> u64 {
        self.width as u64
    }
}

#[derive(Debug)]
struct Unique {
    stream: Stream,
    all: Permutation,
    base: u32,
    width: usize,
}

pub fn unique(base: u32, width: usize, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let limit = limit(base, width)?;
    let count = scope.count();
    if count > limit {
        return Err(format!("{width} digits are too few for {count} entries"));
    }
    Ok(Box::new(Unique { stream: scope.stream, all: Permutation::new(limit), base, width }))
}

impl Render for Unique {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        digits(out, self.all.of(self.stream, at.index), self.base, self.width);
    }

    fn most(&self) -> u64 {
        self.width as u64
    }
}

#[derive(Debug)]
struct RandomNumber {
    stream: Stream,
    drawer: Sampler,
    width: usize,
    most: u64,
}

pub fn drawn(
    distribution: &Distribution,
    width: usize,
    scope: &Scope<'_>,
) -> Result<Box<dyn Render>, String> {
    checked(width, 0, WIDEST)?;
    let most = longest(distribution.most(), width);
    Ok(Box::new(RandomNumber { stream: scope.stream, drawer: distribution.drawer()?, width, most }))
}

impl Render for RandomNumber {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        decimal(out, self.drawer.draw(at.bits(self.stream)), self.width);
    }

    fn most(&self) -> u64 {
        self.most
    }
}

fn limit(base: u32, width: usize) -> Result<u64, String> {
    checked(width, 1, if base == 10 { DIGITS } else { HEX })?;
    // 16 digits of base 16 are one number too many to be counted; the last is left out.
    let power = u32::try_from(width).ok().and_then(|width| u64::from(base).checked_pow(width));
    Ok(power.unwrap_or(u64::MAX))
}

fn checked(width: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&width) {
        return Ok(());
    }
    Err(format!("{width}: write a width from {} to {most}", least.max(1)))
}

fn longest(number: u64, width: usize) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0) + 1).max(width as u64)
}

fn digits(out: &mut Vec<u8>, number: u64, base: u32, width: usize) {
    if base == 10 { decimal(out, number, width) } else { hexadecimal(out, number, width) }
}

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

/// The two digits of a number below 100.
pub fn pair(number: usize) -> [u8; 2] {
    PAIRS[number % 100]
}

/// Appends a number with zeros before it up to that width.
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

/// The same in lower case hexadecimal.
pub fn hexadecimal(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; HEX];
    let mut at = HEX;
    while number > 0 {
        at -= 1;
        text[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
    out.extend_from_slice(&text[at.min(HEX.saturating_sub(width))..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            for width in [0, 1, 5, 20, 64] {
                let mut out = Vec::new();
                decimal(&mut out, number, width);
                assert_eq!(String::from_utf8(out).unwrap(), format!("{number:0width$}"));
            }
            let mut out = Vec::new();
            hexadecimal(&mut out, number, 16);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:016x}"));
        }
    }
}
