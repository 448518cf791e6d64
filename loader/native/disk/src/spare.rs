//! A buffer pool: mapping new memory costs more than refilling used memory.

use std::sync::{Arc, Mutex};

use workers::lock;

use crate::Buffer;
use crate::stream::BUFFER;

/// Maximum number of unused buffers in the pool; further ones are freed.
const MOST: usize = 16;
/// Size in bytes of the smallest buffer that goes back to the pool.
const SMALLEST: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct BufferPool {
    unused: Mutex<Vec<Buffer>>,
}

impl BufferPool {
    /// Returns an empty buffer of at least `size` bytes, which goes back to the pool on drop.
    pub fn buffer(self: &Arc<Self>, size: usize) -> Buffer {
        if size < SMALLEST {
            return Buffer::new(size);
        }
        let mut unused = lock(&self.unused);
        let reusable =
            unused.iter_mut().position(|buffer| buffer.room().len() >= size).map(|at| unused.swap_remove(at));
        drop(unused);
        let mut buffer = reusable.unwrap_or_else(|| Buffer::new(size.next_multiple_of(step(size))));
        buffer.pool = Some(Arc::clone(self));
        buffer
    }

    pub(crate) fn keep(&self, buffer: Buffer) {
        let mut unused = lock(&self.unused);
        if unused.len() < MOST {
            unused.push(buffer);
        }
    }
}

/// Returns the unit to which a buffer's size is rounded up: with few different sizes, more buffers can be reused.
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
        assert_eq!(lock(&spare.unused).len(), MOST);
    }
}
