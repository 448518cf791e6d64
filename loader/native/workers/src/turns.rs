//! Distributes numbered parts of work among workers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Hands out the numbers from 0 to `parts` - 1, each once, in order.
pub struct Turns {
    next: AtomicUsize,
    parts: usize,
    stopped: AtomicBool,
}

impl Turns {
    pub const fn new(parts: usize) -> Self {
        Self { next: AtomicUsize::new(0), parts, stopped: AtomicBool::new(false) }
    }

    /// Returns an iterator over the parts for one worker.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::from_fn(|| self.take())
    }

    /// Returns a part that no worker has taken yet.
    pub fn take(&self) -> Option<usize> {
        if self.is_stopped() {
            return None;
        }
        let part = self.next.fetch_add(1, Relaxed);
        (part < self.parts).then_some(part)
    }

    /// Hands out no further parts.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_once_until_it_is_stopped() {
        let turns = Turns::new(3);
        assert!(turns.iter().eq(0..3));
        assert_eq!(turns.take(), None);
        let turns = Turns::new(3);
        assert_eq!(turns.take(), Some(0));
        turns.stop();
        assert_eq!(turns.take(), None);
    }
}
