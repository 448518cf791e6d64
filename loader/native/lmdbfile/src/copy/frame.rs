//! A copy as a stream: a header, frames with blocks of the file, their offsets and checksums, and an end frame.
//!
//! All numbers are little-endian. Holes are not sent. Offsets ascend, so that the end of the last block says which part
//! of the file a receiver has.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

use crate::{Error, ErrorKind, Result};

const MAGIC: &[u8; 16] = b"ditseed clone 1\n";
/// Bytes of the header.
const HEADER: usize = 48;
/// Bytes of a frame before its block.
const FRAME: usize = 24;
/// Maximum size of a block in bytes.
pub(super) const BLOCK: usize = 1 << 20;
/// The kinds of frames.
const DATA: u64 = 1;
const END: u64 = 2;

/// The header of the stream, which describes the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Identifies the image: the XXH3 of its meta pages. The seed is 1 for a compacted copy, otherwise 0.
    pub image: u64,
    /// Bytes of the file.
    pub length: u64,
    /// Offset of the first data sent. The receiver has all data before this offset.
    pub from: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Frame {
    /// A block of `size` bytes, which are at this offset of the file.
    Data {
        offset: u64,
        size: usize,
    },
    End,
}

pub(super) fn image(head: &[u8], compacted: bool) -> u64 {
    xxh3_64_with_seed(head, u64::from(compacted))
}

impl Header {
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        for field in [self.image, self.length, self.from] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        out.write_all(&bytes)
    }

    pub fn read(input: &mut dyn Read) -> Result<Self> {
        let mut bytes = Vec::with_capacity(HEADER);
        input.take(HEADER as u64).read_to_end(&mut bytes)?;
        if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
            let what = "the input is not a clone stream of this version";
            return Err(Error::new(ErrorKind::Misuse, what));
        }
        if bytes.len() < HEADER {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()));
        }
        if number(&bytes[40..]) != xxh3_64(&bytes[..40]) {
            return Err(garbled());
        }
        let (image, length, from) = (number(&bytes[16..24]), number(&bytes[24..32]), number(&bytes[32..40]));
        Ok(Self { image, length, from })
    }
}

/// Reads or writes frames.
pub(super) struct Frames<T> {
    stream: T,
    /// The XXH3 of the checksums of all frames so far. The end frame contains it.
    sum: Xxh3,
}

impl<T> Frames<T> {
    pub fn new(stream: T) -> Self {
        Self { stream, sum: Xxh3::new() }
    }
}

impl<W: Write> Frames<W> {
    pub fn data(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, DATA, bytes)
    }

    pub fn end(&mut self, length: u64) -> io::Result<()> {
        let sum = self.sum.digest().to_le_bytes();
        self.write(length, END, &sum)?;
        self.stream.flush()
    }

    #[allow(clippy::cast_possible_truncation, reason = "at most BLOCK")]
    fn write(&mut self, offset: u64, kind: u64, bytes: &[u8]) -> io::Result<()> {
        let mut header = [0; FRAME];
        header[..8].copy_from_slice(&offset.to_le_bytes());
        header[8..12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
        let sum = checksum(&header, bytes);
        header[16..].copy_from_slice(&sum);
        self.sum.update(&sum);
        self.stream.write_all(&header)?;
        self.stream.write_all(bytes)
    }
}

impl<R: Read> Frames<R> {
    /// Reads the next frame and stores its block in `room`, which has [`BLOCK`] bytes.
    pub fn next(&mut self, room: &mut [u8]) -> Result<Frame> {
        let mut header = [0; FRAME];
        self.stream.read_exact(&mut header).map_err(cut)?;
        let (offset, kind) = (number(&header[..8]), number(&header[12..16]));
        let size = usize::try_from(number(&header[8..12])).unwrap_or(usize::MAX);
        let bytes = room.get_mut(..size).ok_or_else(garbled)?;
        self.stream.read_exact(bytes).map_err(cut)?;
        let before = self.sum.digest().to_le_bytes();
        let sum = checksum(&header, bytes);
        if header[16..] != sum {
            return Err(garbled());
        }
        self.sum.update(&sum);
        match kind {
            DATA => Ok(Frame::Data { offset, size }),
            END if bytes == before => Ok(Frame::End),
            _ => Err(garbled()),
        }
    }
}

fn checksum(header: &[u8; FRAME], bytes: &[u8]) -> [u8; 8] {
    let mut sum = Xxh3::new();
    sum.update(&header[..16]);
    sum.update(bytes);
    sum.digest().to_le_bytes()
}

/// Decodes a little-endian field of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub(super) fn garbled() -> Error {
    Error::new(ErrorKind::Stream, "the stream is corrupted: a checksum does not match")
}

fn cut(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Stream, "the stream ends early"),
        _ => error.into(),
    }
}
