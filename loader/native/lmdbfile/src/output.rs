//! Where pages go: to the file, written by a thread of its own past the page cache, or in pieces to whoever takes them.

use std::path::{Path, PathBuf};

use common::killpoint;
use disk::{Buffer, DirectFile, DirectWriter, Fill, PieceWriter};

use crate::error::programming_error;
use crate::{Error, Result};

/// As the user's own mask has it.
const MODE: u32 = 0o666;

/// A page with its offset.
type LatePage = (u64, Vec<u8>);

#[derive(Debug)]
enum End {
    Disk(DirectWriter),
    Pieces(PieceWriter),
}

impl End {
    fn fill(&mut self) -> &mut dyn Fill {
        match self {
            Self::Disk(stream) => stream,
            Self::Pieces(pieces) => pieces,
        }
    }
}

/// The end that is written to.
#[derive(Debug)]
pub(crate) struct Output {
    end: End,
    path: PathBuf,
    failure: Option<Error>,
}

impl Output {
    pub fn create(path: &Path) -> Result<Self> {
        Self::disk(path, DirectWriter::create(path, MODE, disk::BUFFER))
    }

    /// Of a file that is there, from `offset` on.
    pub fn past(path: &Path, offset: u64) -> Result<Self> {
        Self::disk(path, DirectWriter::past(path, offset, disk::BUFFER))
    }

    fn disk(path: &Path, stream: std::io::Result<DirectWriter>) -> Result<Self> {
        let stream = stream.map_err(|error| Error::from(error).of_file(path))?;
        Ok(Self { end: End::Disk(stream), path: path.to_path_buf(), failure: None })
    }

    pub fn pieces(pieces: PieceWriter) -> Self {
        Self { end: End::Pieces(pieces), path: PathBuf::new(), failure: None }
    }

    /// Takes `bytes` in; may wait for the disk.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.end.fill().write(bytes);
        written.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    pub fn zeros(&mut self, count: usize) -> Result<()> {
        let written = self.end.fill().zeros(count);
        written.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// Writes what is left and the pages that come late, and waits until the disk has all. Of pieces, whoever takes them
    /// gets the late pages otherwise.
    pub fn finish(mut self, late: &[LatePage]) -> Result<()> {
        let finished = match self.end {
            End::Disk(stream) => written(stream, late).map(drop),
            End::Pieces(pieces) => pieces.finish(),
        };
        finished.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// The same, and then the one page that makes the others count. `before`: called before that one.
    pub fn switch(
        mut self,
        late: &[LatePage],
        last: &LatePage,
        before: &mut dyn FnMut(),
    ) -> Result<()> {
        let End::Disk(stream) = self.end else {
            return Err(programming_error("pieces have no meta page to be switched"));
        };
        let switch = || {
            let mut file = written(stream, late)?;
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
