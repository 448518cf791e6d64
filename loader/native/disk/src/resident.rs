//! Detects which parts of a file are in the page cache.

use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// Bytes of a block, which counts as cached if all of it is.
const BLOCK: usize = 256 << 10;
/// Number of blocks examined together, at the first query for any: reading a block triggers the kernel's readahead, so
/// that later queries would find the following blocks cached, up to the end of the file.
const SECTION: usize = 256;

/// Uses mincore on an inaccessible mapping. A read without waiting (`RWF_NOWAIT`) would trigger readahead, and on a
/// virtual disk the block would be cached before the call returns.
#[derive(Debug)]
pub(crate) struct PageCacheMap {
    start: NonNull<u8>,
    length: usize,
    known: Box<[OnceLock<[bool; SECTION]>]>,
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
        let sections = length.div_ceil(BLOCK * SECTION);
        let known = std::iter::repeat_with(OnceLock::new).take(sections).collect();
        Some(Self { start: NonNull::new(start.ok()?.cast())?, length, known })
    }

    /// Returns how many bytes from `offset` on are cached, at most `most`. If we may not write to the file, the kernel
    /// reports all as cached (mincore(2)).
    pub fn bytes(&self, offset: u64, most: usize) -> usize {
        let Ok(offset) = usize::try_from(offset) else { return 0 };
        let end = offset.saturating_add(most).min(self.length);
        let missing = (offset / BLOCK..end.div_ceil(BLOCK)).find(|block| !self.is_there(*block));
        missing.map_or(end, |block| block * BLOCK).saturating_sub(offset)
    }

    /// Returns whether `size` bytes from `offset` on, or all up to the end of the file, are cached.
    pub fn has(&self, offset: u64, size: usize) -> bool {
        let rest = (self.length as u64).saturating_sub(offset);
        self.bytes(offset, size) as u64 == rest.min(size as u64)
    }

    fn is_there(&self, block: usize) -> bool {
        let section = block / SECTION;
        self.known[section].get_or_init(|| self.section(section))[block % SECTION]
    }

    fn section(&self, section: usize) -> [bool; SECTION] {
        let (first, page) = (section * SECTION * BLOCK, page_size());
        let span = (SECTION * BLOCK).min(self.length - first);
        let mut pages = vec![0; span.div_ceil(page)];
        let mut found = [false; SECTION];
        if self.look(first, span, &mut pages).is_ok() {
            for (found, pages) in found.iter_mut().zip(pages.chunks(BLOCK.div_ceil(page))) {
                *found = pages.iter().all(|there| there & 1 == 1);
            }
        }
        found
    }

    fn look(&self, first: usize, span: usize, there: &mut [u8]) -> io::Result<()> {
        let start = self.start.as_ptr().wrapping_add(first).cast();
        // SAFETY: the range lies in our mapping, and `there` has a byte for each of its pages.
        #[allow(unsafe_code)]
        let found = unsafe { libc::mincore(start, span, there.as_mut_ptr()) };
        if found == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        io::Write::write_all(&mut file, &vec![1; size]).unwrap();
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
