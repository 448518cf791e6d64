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

/// Pairs of names of one attribute type, in lower case: an alias, and the name that the server uses.
pub type Aliases = Vec<(String, String)>;

#[allow(clippy::struct_excessive_bools, reason = "each is an option by itself")]
#[derive(Debug)]
pub struct Options {
    /// Number of connections.
    pub jobs: usize,
    /// Number of entries per transaction. 0 adjusts the number to the server; 1 disables transactions.
    pub batch: usize,
    /// Whether the server supports transactions.
    pub transactions: bool,
    /// Minimum and maximum number of outstanding requests on a connection. The round-trip time decides the number.
    pub window: (usize, usize),
    pub exists: OnExists,
    /// Attribute types whose values are not sent. Attribute options, such as `;lang-de`, make no difference.
    pub leave_out: Vec<String>,
    /// Whether adds carry the Relax Rules control (draft-zeilenga-ldap-relax).
    pub relax: bool,
    /// The suffixes of the server; the entry of a suffix has no parent.
    pub contexts: Vec<String>,
    pub aliases: Aliases,
    /// Attribute types whose values are DNs that the server may look up when it adds an entry. An entry is sent after
    /// all entries to which its values of these types refer.
    pub references: Vec<String>,
    /// Whether entries that name other entries are added outside of transactions. Required if the server changes the
    /// named entries: slapd 2.7.0 damages entries that slapo-memberof changes within an LDAP transaction (2.5.13 and
    /// 2.6.10 do not).
    pub singly: bool,
    pub max_rejects: u64,
    pub rejects: PathBuf,
    /// Maximum rate in entries per second; 0 means no limit.
    pub max_rate: u64,
    pub journal: PathBuf,
    /// Whether every entry may have been added by an earlier run. If so, each entry is looked up before it is sent.
    pub all_uncertain: bool,
    /// Memory limit for deferred entries, in bytes. If they need more, unlinked temporary files in `scratch` keep them.
    pub memory: usize,
    pub scratch: PathBuf,
    /// Time for which a worker tries to reconnect to a server that does not respond.
    pub patience: Duration,
}
