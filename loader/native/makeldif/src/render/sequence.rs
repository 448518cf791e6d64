//! What goes on by one from entry to entry.

use std::sync::Arc;

use crate::order::Order;
use synth::list::List;
use synth::tags::{EntryContext, Render, Scope};

use super::random::write_plain;

#[derive(Debug)]
struct Sequence {
    start: i64,
    order: Order,
}

pub fn sequence(start: i64, order: &Order) -> Box<dyn Render> {
    Box::new(Sequence { start, order: order.clone() })
}

impl Render for Sequence {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        write_plain(self.start.wrapping_add_unsigned(self.order.of(at.index)), out);
    }

    fn most(&self) -> u64 {
        20
    }
}

#[derive(Debug)]
struct OutputQueue {
    list: Arc<List>,
    order: Order,
}

/// After the last line the first one comes again.
pub fn line(list: &str, order: &Order, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(OutputQueue { list: scope.list(list)?.clone(), order: order.clone() }))
}

impl Render for OutputQueue {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(at_turn(&self.list, self.order.of(at.index)));
    }

    fn most(&self) -> u64 {
        longest(&self.list)
    }

    fn is_printable(&self) -> bool {
        self.list.values().all(ldif::write::is_printable)
    }
}

/// The line of a turn.
#[allow(clippy::cast_possible_truncation, reason = "less than the lines of a list")]
pub fn at_turn(list: &List, turn: u64) -> &[u8] {
    list.value((turn % list.count() as u64) as usize)
}

pub fn longest(list: &List) -> u64 {
    list.values().map(<[u8]>::len).max().unwrap_or(0) as u64
}
