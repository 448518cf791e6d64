//! Distributes the parts of a work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// The numbers of parts; each is handed out once, in order.
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
        let at = self.next.fetch_add(1, Relaxed);
        (at < self.parts).then_some(at)
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
