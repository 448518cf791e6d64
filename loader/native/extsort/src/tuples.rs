//! Sorts small tuples of fixed size.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Result;
use crate::scratch::{Appender, Resources, Window};
use crate::sorter::{Block, Merge, Merged, Part, Run, Sorter};

/// Number of tuples of a run that are read at a time.
const DECODED: usize = 256;

/// Sorts tuples such as `[u64; 4]`. Two tuples must compare as equal only if all their bytes are equal.
///
/// ```
/// # use extsort::TupleSorter;
/// # use std::sync::Arc;
/// let mut sorter = TupleSorter::new(64 << 20, 2, "/tmp".as_ref(), &Arc::default());
/// sorter.push([2_u64, 1])?;
/// sorter.extend(&[[1, 2], [1, 1]])?;
/// let sorted = sorter.finish()?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(sorted, [[1, 1], [1, 2], [2, 1]]);
/// # Ok::<(), common::Error>(())
/// ```
pub type TupleSorter<T> = Sorter<Vec<T>>;
pub type Tuples<T> = Merged<Part<'static, T>>;

impl<T: Pod + Ord + Debug + Send> TupleSorter<T> {
    /// Adds a tuple, without locking.
    #[inline]
    pub fn push(&mut self, tuple: T) -> Result<()> {
        self.add(|open| open.push(tuple))
    }

    /// Adds tuples. Several threads may call it at once.
    pub fn extend(&self, mut tuples: &[T]) -> Result<()> {
        while !tuples.is_empty() {
            tuples = self.add_shared(|open| {
                let room = self.block.saturating_sub(open.bytes()).div_ceil(size_of::<T>());
                let (now, later) = tuples.split_at(tuples.len().min(room));
                open.extend_from_slice(now);
                later
            })?;
        }
        Ok(())
    }
}

impl<T: Pod + Ord + Debug + Send> Block for Vec<T> {
    type Part = Part<'static, T>;
    const QUARTERS: usize = 2;
    const LEAST: usize = {
        assert!(size_of::<T>() > 0);
        64 * size_of::<T>()
    };

    #[inline]
    fn bytes(&self) -> usize {
        size_of_val(&**self)
    }

    fn next(&self) -> Self {
        Self::with_capacity(self.len())
    }

    fn sort(&mut self) {
        self.sort_unstable();
    }

    fn into_part(self) -> Self::Part {
        Part::in_memory(self.into())
    }

    fn write(merge: &mut Merge<Self::Part>, run: &mut Appender<'_>) -> Result<()> {
        while let Some(items) = merge.next()? {
            run.put(bytemuck::cast_slice(items))?;
        }
        Ok(())
    }

    fn open(run: Range<u64>, read_size: usize, resources: &Arc<Resources>) -> Result<Self::Part> {
        Part::spilled(TupleRun(Arc::clone(resources), Window::new(run, read_size)))
    }
}

#[derive(Debug)]
struct TupleRun(Arc<Resources>, Window);

impl<T: Pod> Run<T> for TupleRun {
    fn read(&mut self, items: &mut Vec<T>) -> Result<()> {
        let bytes = self.1.peek(size_of::<T>(), &self.0.scratch)?;
        let count = (bytes.len() / size_of::<T>()).min(DECODED);
        let bytes = bytes.chunks_exact(size_of::<T>()).take(count);
        items.extend(bytes.map(bytemuck::pod_read_unaligned::<T>));
        self.1.pass(count * size_of::<T>());
        Ok(())
    }
}

impl<T: Pod + Ord + Debug> Iterator for Tuples<T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        self.merge().and_then(Merge::pop).transpose()
    }
}
