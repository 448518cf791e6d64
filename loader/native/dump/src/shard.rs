//! Writes the numbered LDIF files of an export.

use std::path::{Path, PathBuf};

use common::Result;
use ldif::Output;
use tree::fingerprint::ShardTotals;

/// The size of one write, in bytes.
const CHUNK: usize = 256 << 10;

/// The directory of the files, and whether they are compressed.
#[derive(Debug, Clone)]
pub struct ShardTarget {
    pub directory: PathBuf,
    /// Compress with zstd, and append `.zst` to the file names.
    pub compress: bool,
}

impl ShardTarget {
    /// File names sort in the order of their numbers.
    pub(crate) fn name(&self, number: usize) -> String {
        let suffix = if self.compress { "ldif.zst" } else { "ldif" };
        format!("{number:04}.{suffix}")
    }
}

/// A file under way. It is created when the first data is written, so that a range without entries leaves no file.
#[derive(Debug)]
pub(crate) struct Shard {
    name: String,
    path: PathBuf,
    output: Option<Output>,
    pub(crate) text: Vec<u8>,
    /// Before compression.
    pub(crate) bytes: u64,
    pub(crate) tally: ShardTotals,
}

/// A file that is complete and synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub name: String,
    /// The 128-bit XXH3 checksum of the file, in hexadecimal.
    pub sum: String,
    /// Before compression.
    pub bytes: u64,
    pub tally: ShardTotals,
}

impl Shard {
    pub(crate) fn new(directory: &Path, name: String) -> Self {
        let path = directory.join(&name);
        let text = Vec::with_capacity(CHUNK + (CHUNK >> 2));
        Self { name, path, output: None, text, bytes: 0, tally: ShardTotals::default() }
    }

    /// Writes `text` if there is enough of it. The caller has appended complete entries only.
    #[inline]
    pub(crate) fn written(&mut self) -> Result<()> {
        if self.text.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut output = match self.output.take() {
            Some(output) => output,
            None => Output::create_summed(&self.path, 0)?,
        };
        self.bytes += self.text.len() as u64;
        let written = output.write(&self.text);
        self.text.clear();
        self.output = Some(output);
        written
    }

    /// Closes the file and waits until it is synced; `None` if there was no entry.
    pub(crate) fn finish(self) -> Result<Option<Finished>> {
        self.end()?.map(ClosingShard::wait).transpose()
    }

    /// Ends the file without waiting for the sync.
    pub(crate) fn end(mut self) -> Result<Option<ClosingShard>> {
        self.flush()?;
        let Some(output) = self.output else { return Ok(None) };
        let (name, bytes, tally) = (self.name, self.bytes, self.tally);
        Ok(Some(ClosingShard { name, bytes, tally, output: output.end()? }))
    }
}

/// A complete file that is being synced.
#[derive(Debug)]
pub(crate) struct ClosingShard {
    name: String,
    bytes: u64,
    tally: ShardTotals,
    output: ldif::Closing,
}

impl ClosingShard {
    /// Waits until the file is synced.
    pub(crate) fn wait(self) -> Result<Finished> {
        let sum = self.output.wait()?;
        Ok(Finished { name: self.name, sum, bytes: self.bytes, tally: self.tally })
    }
}
