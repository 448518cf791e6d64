//! A pack as its file has it: frames, and behind them the index, which the caller has read and found to be the right one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Error, InFile, Result};

use crate::entry::{ENTRY, Entry};
use crate::frame::{Frame, Head};

#[derive(Debug)]
struct Room {
    entry: Entry,
    offset: u64,
    /// The number of its first page in the pack.
    first: u32,
}

#[derive(Debug)]
pub struct Pack {
    name: PathBuf,
    file: File,
    places: Vec<Room>,
    page_size: usize,
    pages: u32,
}

impl Pack {
    /// `name`: for errors. `index`: the entries of its frames.
    pub fn open(path: &Path, name: &Path, index: &[u8], page_size: usize) -> Result<Self> {
        let file = File::open(path).in_file(Some(name))?;
        let strange =
            || Error::damaged("its index tells of what is never written").in_file(Some(name));
        let entries = index.chunks_exact(ENTRY);
        if !entries.remainder().is_empty() {
            return Err(strange());
        }
        let (mut places, mut offset, mut first) = (Vec::with_capacity(entries.len()), 0, 0_u32);
        for entry in entries.map(Entry::read) {
            if !entry.is_bounded(page_size) {
                return Err(strange());
            }
            places.push(Room { entry, offset, first });
            offset += entry.stored() as u64;
            first = first.checked_add(entry.pages).ok_or_else(strange)?;
        }
        Ok(Self { name: name.to_owned(), file, places, page_size, pages: first })
    }

    pub fn pages(&self) -> u32 {
        self.pages
    }

    pub(crate) fn pages_of(&self, frame: usize) -> u64 {
        self.places.get(frame).map_or(0, |place| place.entry.pages.into())
    }

    pub(crate) fn frame(&self, number: usize) -> Result<Frame> {
        let place = &self.places[number];
        let stored = self.stored(place)?;
        Frame::unpack(&stored, &place.entry, self.page_size).in_file(Some(&self.name))
    }

    /// The frame with that page, and its number there.
    pub(crate) fn find(&self, page: u32) -> Result<(usize, usize)> {
        if page >= self.pages {
            let what = "the backup names a page that this pack does not have";
            return Err(Error::damaged(what).in_file(Some(&self.name)));
        }
        let number = self.places.partition_point(|place| place.first <= page) - 1;
        Ok((number, (page - self.places[number].first) as usize))
    }

    /// What is known of the pages of a frame without unpacking them.
    pub(crate) fn head(&self, frame: usize) -> Result<Head> {
        let place = &self.places[frame];
        let stored = self.stored(place)?;
        Frame::head(&stored, &place.entry, self.page_size).in_file(Some(&self.name))
    }

    fn stored(&self, place: &Room) -> Result<Vec<u8>> {
        let mut room = vec![0; place.entry.stored()];
        let read = self.file.read_exact_at(&mut room, place.offset);
        read.in_file(Some(&self.name))?;
        Ok(room)
    }
}
