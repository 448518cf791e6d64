//! Opens LDIF for reading: a path or a file descriptor, compressed or not.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use common::{CancellablePipe, InFile};
use rustix::fs::{Mode, OFlags};

use crate::blocks::BLOCK_SIZE;
use crate::open_end::LineEnder;
use crate::summed::ChecksummedReader;
use crate::{Code, Counters, Error, Result};

/// Maximum window of zstd, which `zstd --long=31` uses.
const ZSTD_WINDOW_LOG: u32 = 31;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Size of a read from a pipe in bytes: small, so that counters advance while a slow server writes to the pipe.
const PIPE_BLOCK: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
    Gzip,
}

/// Opens a file. A FIFO is opened only if it belongs to this account, because opening it may wait for a writer forever.
pub(crate) fn open_unheld(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(file);
    }
    if metadata.file_type().is_fifo() && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::new(Code::Io, "a FIFO of another account, which might never write to it"));
    }
    // Opens the same file again for blocking reads, even if its path was replaced meanwhile.
    Ok(File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?)
}

/// A stream of uncompressed LDIF, with the path that it comes from.
pub struct Input<'a> {
    pub path: Option<PathBuf>,
    pub block_size: usize,
    reader: Box<dyn Read + Send + 'a>,
}

impl<'a> Input<'a> {
    /// Reads a file. At the end of the file, its size and checksum are added to `counters`.
    pub fn from_path(path: &Path, counters: &'a Counters) -> Result<Self> {
        let open = || -> Result<Self> {
            let file = open_unheld(path)?;
            let has_length = file.metadata()?.is_file();
            let (compression, reader) = sniff(ChecksummedReader::new(file, path, counters))?;
            expect_name_kept(path, compression)?;
            if has_length && compression == Compression::None {
                return Ok(Self::plain(reader, path, counters));
            }
            let reader = decompress(compression, reader)?;
            Ok(Input { path: Some(path.to_path_buf()), block_size: BLOCK_SIZE, reader })
        };
        open().in_file(Some(path))
    }

    /// Reads a file from `offset` on; the offset counts uncompressed bytes.
    pub fn from_path_at(path: &Path, offset: u64, counters: &'a Counters) -> Result<Self> {
        let open = || -> Result<Self> {
            let mut file = open_unheld(path)?;
            let (compression, reader) = sniff(&file)?;
            if compression == Compression::None {
                drop(reader);
                file.seek(SeekFrom::Start(offset))?;
                return Ok(Self::plain(file, path, counters));
            }
            drop(reader);
            let mut input = Self::from_path(path, counters)?;
            io::copy(&mut input.by_ref().take(offset), &mut io::sink())?;
            Ok(input)
        };
        let input: Input<'_> = open().in_file(Some(path))?;
        Ok(Input { path: Some(path.to_path_buf()), ..input })
    }

    /// Reads an uncompressed file of known length, whose last line may lack its line end.
    fn plain(reader: impl Read + Send + 'a, path: &Path, counters: &'a Counters) -> Self {
        let reader = Box::new(LineEnder::new(reader, path, counters));
        Self { path: Some(path.to_path_buf()), block_size: BLOCK_SIZE, reader }
    }

    /// Reads a pipe, socket or file. Cancelling `counters` ends a wait for the other side.
    pub fn from_fd(fd: OwnedFd, counters: &'a Counters) -> Result<Self> {
        let (compression, reader) = sniff(CancellablePipe::new(fd, counters))?;
        let reader = decompress(compression, reader)?;
        Ok(Self { path: None, block_size: PIPE_BLOCK, reader })
    }

    pub fn from_reader(reader: impl Read + Send + 'a) -> Self {
        Self { path: None, block_size: BLOCK_SIZE, reader: Box::new(reader) }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Input").field("path", &self.path).finish_non_exhaustive()
    }
}

type Sniffed<R> = io::Chain<Cursor<Vec<u8>>, R>;

fn sniff<R: Read>(mut reader: R) -> io::Result<(Compression, Sniffed<R>)> {
    let mut head = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut head)?;
    let compression = if head.starts_with(&ZSTD_MAGIC) {
        Compression::Zstd
    } else if head.starts_with(&GZIP_MAGIC) {
        Compression::Gzip
    } else {
        Compression::None
    };
    Ok((compression, Cursor::new(head).chain(reader)))
}

fn decompress<'a>(compression: Compression, reader: impl Read + Send + 'a) -> Result<Box<dyn Read + Send + 'a>> {
    Ok(match compression {
        Compression::None => Box::new(reader),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(reader))),
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::new(reader)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}

/// Returns an error if the name indicates compression, but the file is not compressed: empty, truncated or replaced.
fn expect_name_kept(path: &Path, found: Compression) -> Result<()> {
    let promised = match extension(path) {
        "zst" => Compression::Zstd,
        "gz" => Compression::Gzip,
        _ => return Ok(()),
    };
    if found != Compression::None {
        return Ok(());
    }
    if path.metadata()?.len() < 4 {
        return Err(Error::new(Code::Truncated, "the compressed file ends in its header"));
    }
    Err(Error::new(Code::Corrupt, format!("named as {promised:?} but not compressed")))
}

/// Returns the extension of the name without `.partial`, which marks unfinished outputs of ditseed.
pub fn extension(path: &Path) -> &str {
    let named = if path.extension().is_some_and(|last| last == "partial") {
        path.file_stem().map(Path::new)
    } else {
        Some(path)
    };
    named.and_then(Path::extension).and_then(std::ffi::OsStr::to_str).unwrap_or("")
}
