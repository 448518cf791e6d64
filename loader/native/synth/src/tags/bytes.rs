//! Random values that are no numbers: lines of lists, UUIDs, bytes.

use std::sync::Arc;

use super::{EntryContext, Render, Scope};
use crate::draw::{Stream, again, below};
use crate::list::List;

/// Bytes of the longest random value.
const LONGEST: u64 = 16 << 20;

#[derive(Debug)]
struct Picked {
    stream: Stream,
    list: Arc<List>,
    most: u64,
    printable: bool,
}

pub fn pick(list: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let list = scope.list(list)?.clone();
    let most = list.values().map(<[u8]>::len).max().unwrap_or(0) as u64;
    let printable = list.values().all(ldif::write::is_printable);
    Ok(Box::new(Picked { stream: scope.stream, list, most, printable }))
}

impl Render for Picked {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.list.pick(at.bits(self.stream)));
    }

    fn most(&self) -> u64 {
        self.most
    }

    fn is_printable(&self) -> bool {
        self.printable
    }
}

/// The same of a list whose lines hold bytes in base64.
pub fn decoded(list: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    let list = Arc::new(scope.list(list)?.decoded()?);
    let most = list.values().map(<[u8]>::len).max().unwrap_or(0) as u64;
    Ok(Box::new(Picked { stream: scope.stream, list, most, printable: false }))
}

#[derive(Debug)]
struct Uuid(Stream);

pub fn uuid(scope: &Scope<'_>) -> Box<dyn Render> {
    Box::new(Uuid(scope.stream))
}

impl Render for Uuid {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.0);
        write_uuid(out, bits, again(bits, 1));
    }

    fn most(&self) -> u64 {
        36
    }
}

/// 128 random bits as a UUID of version 4 (RFC 4122).
pub fn write_uuid(out: &mut Vec<u8>, high: u64, low: u64) {
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    out.extend_from_slice(&values::uuid::spelled(u128::from(high) << 64 | u128::from(low)));
}

#[derive(Debug)]
struct Bytes {
    stream: Stream,
    low: u64,
    count: u64,
}

pub fn random(low: u64, high: u64, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    if low > high || high > LONGEST {
        return Err(format!(
            "{low} to {high}: write lengths up to {LONGEST}, the smaller one first"
        ));
    }
    Ok(Box::new(Bytes { stream: scope.stream, low, count: high - low + 1 }))
}

impl Render for Bytes {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let bits = at.bits(self.stream);
        let length = self.low + below(bits, self.count);
        for turn in 0..length.div_ceil(8) {
            let eight = again(bits, turn + 1).to_le_bytes();
            let rest = usize::try_from(length - turn * 8).unwrap_or(8).min(8);
            out.extend_from_slice(&eight[..rest]);
        }
    }

    fn most(&self) -> u64 {
        self.low + self.count - 1
    }

    fn is_printable(&self) -> bool {
        false
    }
}
