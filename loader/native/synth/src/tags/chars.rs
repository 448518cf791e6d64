//! Random characters of a class.

use super::{EntryContext, Render, Scope};
use crate::distribution::{Distribution, Sampler};
use crate::draw::{Stream, again, below};
use crate::model::Class;

/// Characters, at most.
const LONGEST: u64 = 16 << 20;

#[derive(Debug)]
struct Chars {
    stream: Stream,
    alphabet: &'static [u8],
    length: Sampler,
    most: u64,
}

pub fn chars(
    class: Class,
    length: &Distribution,
    scope: &Scope<'_>,
) -> Result<Box<dyn Render>, String> {
    let most = length.most();
    if most > LONGEST {
        return Err(format!("{most} characters: {LONGEST} may be written"));
    }
    let alphabet: &[u8] = match class {
        Class::Hex => b"0123456789abcdef",
        Class::Alpha => b"abcdefghijklmnopqrstuvwxyz",
        Class::Mixed => b"abcdefghijklmnopqrstuvwxyz0123456789",
        Class::Base64 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    };
    Ok(Box::new(Chars { stream: scope.stream, alphabet, length: length.drawer()?, most }))
}

impl Render for Chars {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.stream);
        // Eight characters of one draw: a byte for each is near enough to even.
        for turn in 0..self.length.draw(bits) {
            let eight = again(bits, turn / 8 + 1);
            let byte = eight << (turn % 8 * 8);
            let place = below(byte, self.alphabet.len() as u64);
            out.push(self.alphabet[usize::try_from(place).unwrap_or(0)]);
        }
    }

    fn most(&self) -> u64 {
        self.most
    }
}
