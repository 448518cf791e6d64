//! Merging sorted parts of the records.

use super::block::{Block, halves};
use crate::Result;
use crate::memory::Resources;
use crate::merge::Heads;
use crate::scratch::Window;

/// Bytes before a record in the temporary file: its prefix and its length.
const HEADER: usize = 16 + 4;
/// Records given between two looks at the stop flag.
const PATIENCE: u64 = 1 << 16;

/// A sorted part of the records.
#[derive(Debug)]
pub(super) enum Part {
    Held {
        block: Block,
        passed: usize,
    },
    /// Has the next record as a whole at hand, or is at its end.
    Spilled(Window),
}

impl Part {
    fn head(&self) -> Option<([u64; 2], &[u8])> {
        match self {
            Self::Held { block, passed } => {
                let &place = block.records.get(*passed)?;
                Some((place.prefix, block.record(place)))
            }
            Self::Spilled(window) => {
                let (prefix, rest) = window.buffered().split_first_chunk()?;
                let (len, rest) = rest.split_first_chunk()?;
                let bytes = &rest[..u32::from_le_bytes(*len) as usize];
                Some((halves(u128::from_le_bytes(*prefix)), bytes))
            }
        }
    }

    fn advance(&mut self, means: &Resources) -> Result<()> {
        let len = self.head().map_or(0, |(_, bytes)| HEADER + bytes.len());
        match self {
            Self::Held { passed, .. } => *passed += 1,
            Self::Spilled(window) => {
                window.pass(len);
                load(window, means)?;
            }
        }
        Ok(())
    }
}

/// Brings the next record to hand.
pub(super) fn load(window: &mut Window, means: &Resources) -> Result<()> {
    let header = window.peek(HEADER, &means.scratch)?;
    if header.is_empty() {
        return Ok(());
    }
    let len = header.get(16..HEADER).and_then(|len| len.try_into().ok());
    let len = HEADER + len.map_or(0, u32::from_le_bytes) as usize;
    if window.peek(len, &means.scratch)?.len() < len {
        Err(means.scratch.damaged())
    } else {
        Ok(())
    }
}

type Head = ([u64; 2], usize);

#[derive(Debug)]
pub(super) struct Merge {
    parts: Vec<Part>,
    heads: Heads<[u64; 2]>,
    /// How many records were returned; the last one is still the head of its part.
    given: u64,
}

impl Merge {
    pub fn new(parts: Vec<Part>) -> Self {
        let heads = parts.iter().enumerate();
        let heads = heads.filter_map(|(at, part)| Some((part.head()?.0, at)));
        let heads = Heads::new(heads, less(&parts));
        Self { parts, heads, given: 0 }
    }

    pub fn next(&mut self, means: &Resources) -> Result<Option<(u128, &[u8])>> {
        if self.given > 0 {
            self.leave_last(means)?;
        }
        self.given += 1;
        if self.given % PATIENCE == 0 {
            means.check_cancelled()?;
        }
        let Some(&(_, least)) = self.heads.least() else { return Ok(None) };
        let head = self.parts[least].head();
        Ok(head.map(|([high, low], bytes)| (u128::from(high) << 64 | u128::from(low), bytes)))
    }

    fn leave_last(&mut self, means: &Resources) -> Result<()> {
        let Some(&(_, least)) = self.heads.least() else { return Ok(()) };
        self.parts[least].advance(means)?;
        let next = self.parts[least].head().map(|(prefix, _)| prefix);
        self.heads.replace(next, less(&self.parts));
        Ok(())
    }
}

fn less(parts: &[Part]) -> impl Fn(&Head, &Head) -> bool {
    |one, other| {
        one.0 < other.0
            || one.0 == other.0
                && parts[one.1].head().map(|head| head.1) < parts[other.1].head().map(|head| head.1)
    }
}
