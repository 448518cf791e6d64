//! The options of a load.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// An input: a file or a stream.
#[derive(Debug)]
pub enum Source {
    Path(PathBuf),
    Stream(OwnedFd),
}

common::named!(
    /// What to do with an entry whose DN already exists on the server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum OnExists {
        /// Reject the entry.
        Error = "error",
        /// Keep the server's entry.
        Skip = "skip",
        /// Replace the user attributes of the server's entry with those of the LDIF.
        Replace = "replace",
        /// `Replace` if the entry in the LDIF is newer by entryCSN or modifyTimestamp, otherwise `Skip`.
        Newer = "newer",
    }
);

impl OnExists {
    /// Whether the content of an existing entry must be read.
    pub const fn compares(self) -> bool {
        matches!(self, Self::Replace | Self::Newer)
    }
}

/// Pairs of names of an attribute type in lower case: another name, and the name that the server uses.
pub type Aliases = Vec<(String, String)>;

#[allow(clippy::struct_excessive_bools, reason = "each is an option by itself")]
#[derive(Debug)]
pub struct Options {
    /// Number of connections.
    pub jobs: usize,
    /// Number of entries per transaction; 0 adjusts it to the server, 1 disables transactions.
    pub batch: usize,
    /// Whether the server supports transactions.
    pub transactions: bool,
    /// Number of outstanding requests on a connection: the number for a short round-trip time, and the upper limit.
    pub window: (usize, usize),
    pub exists: OnExists,
    /// Attribute types that are not sent, whatever their options.
    pub leave_out: Vec<String>,
    /// Whether adds carry the Relax Rules control (draft-zeilenga-ldap-relax).
    pub relax: bool,
    /// The suffixes of the server; the entry of a suffix has no parent.
    pub contexts: Vec<String>,
    pub aliases: Aliases,
    /// Attribute types whose values are DNs that the server may look up when it adds an entry: an entry is sent after
    /// all entries that it names. Empty if the server looks up none.
    pub references: Vec<String>,
    /// Whether entries that name others are added outside of transactions, because the server may change the named
    /// entries: slapd 2.7.0 damages entries that slapo-memberof changes within an LDAP transaction (2.5.13 and 2.6.10
    /// do not).
    pub singly: bool,
    pub max_rejects: u64,
    pub rejects: PathBuf,
    /// Maximum rate in entries per second; 0 means no limit.
    pub max_rate: u64,
    pub journal: PathBuf,
    /// Whether an earlier run may have added any of the entries, so that all are looked up.
    pub all_uncertain: bool,
    /// Memory limit for deferred entries, in bytes. Entries beyond it go to unlinked temporary files in `scratch`.
    pub memory: usize,
    pub scratch: PathBuf,
    /// How long to reconnect to a server that does not respond.
    pub patience: Duration,
}
