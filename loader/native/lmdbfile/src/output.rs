//! The file, written by a thread of its own past the page cache.

use std::path::{Path, PathBuf};

use common::killpoint;
use disk::{Buffer, DirectFile, DirectWriter};

use crate::{Error, Result};

/// As the user's own mask has it.
const MODE: u32 = 0o666;

/// A page with its offset.
type LatePage = (u64, Vec<u8>);

/// The end that is written to.
#[derive(Debug)]
pub(crate) struct Output {
    stream: DirectWriter,
    path: PathBuf,
    failure: Option<Error>,
}

impl Output {
    pub fn create(path: &Path) -> Result<Self> {
        let stream = DirectWriter::create(path, MODE, disk::BUFFER);
        let stream = stream.map_err(|error| Error::from(error).of_file(path))?;
        Ok(Self { stream, path: path.to_path_buf(), failure: None })
    }

    /// Of a file that is there, from `offset` on.
    pub fn past(path: &Path, offset: u64) -> Result<Self> {
        let stream = DirectWriter::past(path, offset, disk::BUFFER);
        let stream = stream.map_err(|error| Error::from(error).of_file(path))?;
        Ok(Self { stream, path: path.to_path_buf(), failure: None })
    }

    /// Takes `bytes` in; may wait for the disk.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write(bytes).map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    pub fn zeros(&mut self, count: usize) -> Result<()> {
        self.stream.zeros(count).map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// Writes what is left and the pages that come late, and waits until the disk has all.
    pub fn finish(mut self, late: &[LatePage]) -> Result<()> {
        let finish = || written(self.stream, late).map(drop);
        finish().map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// The same, and then the one page that makes the others count. `before`: called before that one.
    pub fn switch(
        mut self,
        late: &[LatePage],
        last: &LatePage,
        before: &mut dyn FnMut(),
    ) -> Result<()> {
        let switch = || {
            let mut file = written(self.stream, late)?;
            killpoint("index.synced");
            before();
            file.write_at(&Buffer::from(&last.1[..]), last.0)?;
            killpoint("index.switched");
            file.sync()
        };
        switch().map_err(|error| fail(&mut self.failure, &self.path, error))
    }
}

/// Once the disk has all.
fn written(stream: DirectWriter, late: &[LatePage]) -> std::io::Result<DirectFile> {
    let mut file = stream.finish()?;
    for (offset, page) in late {
        file.write_at(&Buffer::from(&page[..]), *offset)?;
    }
    file.sync()?;
    Ok(file)
}

/// The same each time it is asked.
fn fail(failure: &mut Option<Error>, path: &Path, error: std::io::Error) -> Error {
    failure.get_or_insert_with(|| Error::from(error).of_file(path)).clone()
}
