//! A buffer pool: mapping new memory costs more than refilling used memory.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Buffer;
use crate::stream::BUFFER;

/// Maximum number of buffers that are kept.
const MOST: usize = 16;
/// Smallest buffer that is kept, in bytes.
const SMALLEST: usize = 64 << 10;

/// Unused buffers.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Mutex<Vec<Buffer>>,
}

impl BufferPool {
    /// Returns a buffer of at least `size` bytes, which goes back to the pool on drop.
    pub fn buffer(self: &Arc<Self>, size: usize) -> Buffer {
        if size < SMALLEST {
            return Buffer::new(size);
        }
        let found = self.find(size);
        let mut buffer = found.unwrap_or_else(|| Buffer::new(size.next_multiple_of(step(size))));
        buffer.pool = Some(Arc::clone(self));
        buffer
    }

    fn find(&self, size: usize) -> Option<Buffer> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = free.iter_mut().position(|buffer| buffer.room().len() >= size)?;
        Some(free.swap_remove(fits))
    }

    pub(crate) fn keep(&self, buffer: Buffer) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MOST {
            free.push(buffer);
        }
    }
}

/// Rounds sizes up to a few steps, so that buffers can be reused.
fn step(size: usize) -> usize {
    if size > BUFFER / 2 { BUFFER } else { SMALLEST }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_buffers_are_reused_empty() {
        let spare = Arc::new(BufferPool::default());
        let mut buffer = spare.buffer(100_000);
        buffer.fill(100_000);
        let place = buffer.as_ptr();
        drop(buffer);
        drop(spare.buffer(SMALLEST - 1));
        let mut again = spare.buffer(90_000);
        assert!(again.room().len() >= 90_000 && again.is_empty());
        assert_eq!(again.as_ptr(), place);
        assert_ne!(spare.buffer(90_000).as_ptr(), place);
    }

    #[test]
    fn the_number_of_kept_buffers_is_limited() {
        let spare = Arc::new(BufferPool::default());
        let many: Vec<_> = (0..MOST + 5).map(|_| spare.buffer(SMALLEST)).collect();
        drop(many);
        assert_eq!(spare.free.lock().unwrap().len(), MOST);
    }
}
