//! Random characters and numbers.

use std::io::Write as _;

use crate::format::Format;
use synth::draw::{Stream, again, below};
use synth::tags::{EntryContext, Render, Scope};

#[derive(Debug)]
struct Characters {
    stream: Stream,
    of: Vec<char>,
    is_ascii: bool,
    least: u64,
    /// Lengths there are.
    lengths: u64,
}

pub fn characters(of: &str, least: usize, most: usize, scope: &Scope<'_>) -> Box<dyn Render> {
    Box::new(Characters {
        stream: scope.stream,
        of: of.chars().collect(),
        is_ascii: of.is_ascii(),
        least: least as u64,
        lengths: (most - least) as u64 + 1,
    })
}

/// Characters that one draw of 64 bits is enough for.
const OF_ONE_DRAW: u64 = 8;

impl Render for Characters {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.stream);
        let mut left = self.least + below(again(bits, 1), self.lengths);
        let mut turn = 2;
        while left > 0 {
            let few = left.min(OF_ONE_DRAW);
            self.write_few(again(bits, turn), few, out);
            left -= few;
            turn += 1;
        }
    }

    fn most(&self) -> u64 {
        let widest = self.of.iter().map(|one| one.len_utf8() as u64).max().unwrap_or(0);
        (self.least + self.lengths - 1).saturating_mul(widest)
    }

    fn is_printable(&self) -> bool {
        self.of.iter().all(|one| matches!(one, ' '..='~'))
    }
}

impl Characters {
    fn write_few(&self, mut bits: u64, few: u64, out: &mut Vec<u8>) {
        let count = self.of.len() as u64;
        for _ in 0..few {
            let wide = u128::from(bits) * u128::from(count);
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the two halves of a product of 128 bits"
            )]
            let (place, rest) = ((wide >> 64) as usize, wide as u64);
            bits = rest;
            let one = self.of[place];
            if self.is_ascii {
                out.push(one as u8);
            } else {
                out.extend_from_slice(one.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

#[derive(Debug)]
struct Number {
    stream: Stream,
    low: i64,
    high: i64,
    format: Option<Format>,
}

pub fn number(low: i64, high: i64, format: Option<&Format>, scope: &Scope<'_>) -> Box<dyn Render> {
    Box::new(Number { stream: scope.stream, low, high, format: format.cloned() })
}

impl Render for Number {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.stream);
        // All of 64 bits are one more than a count can be.
        let count = self.low.abs_diff(self.high).checked_add(1);
        let above = count.map_or(bits, |count| below(bits, count));
        write(self.low.wrapping_add_unsigned(above), self.format.as_ref(), out);
    }

    fn most(&self) -> u64 {
        let ends = [self.low, self.high].map(|end| {
            let mut out = Vec::new();
            write(end, self.format.as_ref(), &mut out);
            out.len() as u64
        });
        ends[0].max(ends[1])
    }

    fn is_printable(&self) -> bool {
        self.format.as_ref().is_none_or(Format::is_printable)
    }
}

fn write(number: i64, format: Option<&Format>, out: &mut Vec<u8>) {
    match format {
        Some(format) => format.write(number, out),
        None => write_plain(number, out),
    }
}

/// Appends a number without anything around it.
pub fn write_plain(number: i64, out: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{number}");
}
