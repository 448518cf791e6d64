//! Detects which parts of a file are in the page cache.

use std::fs::File;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// Bytes of a block. A block counts as cached if all its pages are.
const BLOCK: usize = 256 << 10;
/// Blocks of a section. At the first query for a block, its whole section is examined: once a block is read, the
/// kernel's readahead caches the following ones, and later queries would find everything cached up to the end of the
/// file.
const SECTION: usize = 256;

/// Uses mincore on an inaccessible mapping. A read without waiting (`RWF_NOWAIT`) would trigger readahead, and on a
/// virtual disk the block would be cached before the call returns.
#[derive(Debug)]
pub(crate) struct PageCacheMap {
    start: NonNull<u8>,
    length: usize,
    /// For each section that was examined, which of its blocks are cached.
    sections: Box<[OnceLock<[bool; SECTION]>]>,
}

// SAFETY: the pointer is only an address for the kernel; it is never dereferenced.
#[allow(unsafe_code)]
unsafe impl Send for PageCacheMap {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for PageCacheMap {}

impl PageCacheMap {
    /// Returns `None` if the file is empty or cannot be mapped.
    pub fn of(file: &File) -> Option<Self> {
        let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
        let (rights, flags) = (ProtFlags::empty(), MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses, without read or write permission.
        #[allow(unsafe_code)]
        let start = unsafe { mmap(null_mut(), length, rights, flags, file, 0) };
        let sections = (0..length.div_ceil(BLOCK * SECTION)).map(|_| OnceLock::new()).collect();
        Some(Self { start: NonNull::new(start.ok()?.cast())?, length, sections })
    }

    /// Returns the number of consecutive cached bytes from `offset` on, at most `most`. If the process may not write to
    /// the file, the kernel reports all bytes as cached (mincore(2)).
    pub fn bytes(&self, offset: u64, most: usize) -> usize {
        let Ok(offset) = usize::try_from(offset) else { return 0 };
        let end = offset.saturating_add(most).min(self.length);
        let missing = (offset / BLOCK..end.div_ceil(BLOCK)).find(|block| !self.is_cached(*block));
        missing.map_or(end, |block| block * BLOCK).saturating_sub(offset)
    }

    /// Returns whether all bytes from `offset` on are cached, up to `size` bytes or to the end of the file.
    pub fn has(&self, offset: u64, size: usize) -> bool {
        let rest = (self.length as u64).saturating_sub(offset);
        self.bytes(offset, size) as u64 == rest.min(size as u64)
    }

    fn is_cached(&self, block: usize) -> bool {
        let section = block / SECTION;
        self.sections[section].get_or_init(|| self.section(section))[block % SECTION]
    }

    fn section(&self, section: usize) -> [bool; SECTION] {
        let (first, page) = (section * SECTION * BLOCK, page_size());
        let span = (SECTION * BLOCK).min(self.length - first);
        let mut pages = vec![0; span.div_ceil(page)];
        let start = self.start.as_ptr().wrapping_add(first).cast();
        // SAFETY: the range lies in our mapping, and `pages` has a byte for each of its pages.
        #[allow(unsafe_code)]
        let failed = unsafe { libc::mincore(start, span, pages.as_mut_ptr()) } != 0;
        let mut cached = [false; SECTION];
        for (cached, pages) in cached.iter_mut().zip(pages.chunks(BLOCK.div_ceil(page))) {
            *cached = !failed && pages.iter().all(|page| page & 1 == 1);
        }
        cached
    }
}

impl Drop for PageCacheMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is our own, and no pointer into it remains.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};

    #[test]
    fn read_data_are_cached_and_dropped_data_are_not() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let size = (SECTION + 2) * BLOCK + 5;
        std::io::Write::write_all(&mut file, &vec![1; size]).unwrap();
        let resident = PageCacheMap::of(file.as_file()).unwrap();
        assert_eq!(resident.bytes(0, usize::MAX), size);
        assert_eq!(resident.bytes(3, 7), 7);
        assert_eq!(resident.bytes(size as u64 - 3, BLOCK), 3);
        assert_eq!(resident.bytes(size as u64 + 1, BLOCK), 0);
        assert_eq!(resident.bytes(u64::MAX, BLOCK), 0);
        file.as_file().sync_all().unwrap();
        fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
        assert_eq!(resident.bytes(0, usize::MAX), size, "examined only once");
        let resident = PageCacheMap::of(file.as_file()).unwrap();
        assert_eq!(resident.bytes(0, usize::MAX), 0);
        let empty = tempfile::tempfile().unwrap();
        assert!(PageCacheMap::of(&empty).is_none());
    }
}
