//! A sorted part of the tuples, in memory or in the temporary file.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Result;
use crate::memory::Resources;
use crate::merge::Source;
use crate::scratch::Window;

/// Tuples of a run at hand.
const DECODED: usize = 256;

/// A sorted part of the tuples.
#[derive(Debug)]
pub(super) enum Part<T> {
    Held { block: Vec<T>, passed: usize },
    Spilled(Spilled<T>),
}

#[derive(Debug)]
pub(super) struct Spilled<T> {
    means: Arc<Resources>,
    window: Window,
    items: Vec<T>,
    passed: usize,
}

impl<T: Pod> Spilled<T> {
    pub fn open(run: Range<u64>, read_size: usize, means: &Arc<Resources>) -> Result<Self> {
        let (means, window) = (Arc::clone(means), Window::new(run, read_size));
        let mut spilled = Self { means, window, items: Vec::new(), passed: 0 };
        spilled.read()?;
        Ok(spilled)
    }

    fn read(&mut self) -> Result<()> {
        let bytes = self.window.peek(size_of::<T>(), &self.means.scratch)?;
        let count = (bytes.len() / size_of::<T>().max(1)).min(DECODED);
        let bytes = &bytes[..count * size_of::<T>()];
        self.items.clear();
        self.items.extend(
            bytes.chunks_exact(size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned::<T>),
        );
        self.passed = 0;
        self.window.pass(count * size_of::<T>());
        Ok(())
    }
}

impl<T: Pod> Source<T> for Part<T> {
    #[inline]
    fn items(&self) -> &[T] {
        match self {
            Self::Held { block, passed } => &block[*passed..],
            Self::Spilled(spilled) => &spilled.items[spilled.passed..],
        }
    }

    #[inline]
    fn advance(&mut self, count: usize) -> Result<()> {
        match self {
            Self::Held { passed, .. } => *passed += count,
            Self::Spilled(spilled) => {
                spilled.passed += count;
                if spilled.passed == spilled.items.len() {
                    spilled.read()?;
                }
            }
        }
        Ok(())
    }
}
