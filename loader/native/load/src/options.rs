//! What a load is asked to do.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// One file, or a stream.
#[derive(Debug)]
pub enum Source {
    Path(PathBuf),
    Stream(OwnedFd),
}

/// What becomes of an entry whose DN is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExists {
    /// It is rejected.
    Error,
    /// The server's stays.
    Skip,
    /// The server's user attributes become those of the LDIF.
    Replace,
    /// As `Replace`, where the LDIF's entry is newer by entryCSN or modifyTimestamp.
    Newer,
}

impl OnExists {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "error" => Self::Error,
            "skip" => Self::Skip,
            "replace" => Self::Replace,
            "newer" => Self::Newer,
            _ => return None,
        })
    }

    /// Is more asked of an entry that is there than whether it is?
    pub const fn compares(self) -> bool {
        matches!(self, Self::Replace | Self::Newer)
    }
}

/// The server's name of an attribute for each of its other names, all in lower case.
pub type Aliases = Vec<(String, String)>;

#[derive(Debug)]
pub struct Options {
    /// Connections.
    pub jobs: usize,
    /// Entries a transaction; 0 finds out, 1 makes none.
    pub batch: usize,
    /// The server offers transactions.
    pub transactions: bool,
    /// Requests that may wait for their answers on one connection: on a quick way to the server, and at most.
    pub window: (usize, usize),
    pub exists: OnExists,
    /// Attributes that are left out, whatever their options.
    pub leave_out: Vec<String>,
    /// Adds carry the relax control (draft-zeilenga-ldap-relax).
    pub relax: bool,
    /// Suffixes of the server: their entries have no parent there.
    pub contexts: Vec<String>,
    pub aliases: Aliases,
    pub max_rejects: u64,
    pub rejects: PathBuf,
    /// Entries a second; 0 is without limit.
    pub max_rate: u64,
    pub journal: PathBuf,
    /// Any entry of the input may have been added by an earlier run.
    pub all_uncertain: bool,
    /// Bytes for entries that wait for their parents; what is more goes to nameless files in `scratch`.
    pub memory: usize,
    pub scratch: PathBuf,
    /// So long a server that is gone is tried again.
    pub patience: Duration,
}
