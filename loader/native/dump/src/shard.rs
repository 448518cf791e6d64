//! Files of LDIF that are loaded one after the other.

use std::path::{Path, PathBuf};

use common::Result;
use ldif::Output;
use tree::fingerprint::ShardTotals;

/// Written at once.
const CHUNK: usize = 256 << 10;

/// Where files go, and what is done to them.
#[derive(Debug, Clone)]
pub struct ShardTarget {
    pub directory: PathBuf,
    /// With zstd; `.zst` is added to the names.
    pub compress: bool,
}

impl ShardTarget {
    /// Names sort as the numbers do.
    pub(crate) fn name(&self, number: usize) -> String {
        let suffix = if self.compress { "ldif.zst" } else { "ldif" };
        format!("{number:04}.{suffix}")
    }
}

/// One file, made with its first entry.
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

/// A finished one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub name: String,
    /// XXH3 of 128 bits, in hexadecimal digits.
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

    /// What was added to `text` is whole entries.
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

    /// On the disk; `None` where there was no entry.
    pub(crate) fn finish(self) -> Result<Option<Finished>> {
        self.end()?.map(ClosingShard::wait).transpose()
    }

    /// No more comes.
    pub(crate) fn end(mut self) -> Result<Option<ClosingShard>> {
        self.flush()?;
        let Some(output) = self.output else { return Ok(None) };
        let (name, bytes, tally) = (self.name, self.bytes, self.tally);
        Ok(Some(ClosingShard { name, bytes, tally, output: output.end()? }))
    }
}

/// One on its way to the disk.
#[derive(Debug)]
pub(crate) struct ClosingShard {
    name: String,
    bytes: u64,
    tally: ShardTotals,
    output: ldif::Closing,
}

impl ClosingShard {
    /// Until it is there.
    pub(crate) fn wait(self) -> Result<Finished> {
        let sum = self.output.wait()?;
        Ok(Finished { name: self.name, sum, bytes: self.bytes, tally: self.tally })
    }
}
