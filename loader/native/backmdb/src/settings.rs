//! The settings of slapd that affect the contents of a database, and the options of a build.

use std::path::PathBuf;

use lmdbfile::Format;
use values::keys::Substrings;

/// The configuration of one database (slapd-mdb(5), slapd-config(5)).
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of slapd's")]
pub struct Settings {
    pub suffixes: Vec<String>,
    /// Subordinate suffixes that belong to other databases, with all entries below them.
    pub foreign: Vec<String>,
    pub root_dn: Option<String>,
    /// Attribute descriptions and their kinds of index keys, in the order of the configuration.
    pub indexes: Vec<(String, Vec<Method>)>,
    /// `index_hash64`.
    pub wide_hash: bool,
    /// `index_intlen`, 4 to 8 bytes.
    pub integer_length: usize,
    pub substrings: Substrings,
    /// `multival`: a description or "default", and the number of values beyond which they are stored in id2v.
    pub apart_above: Vec<(String, u32)>,
    /// `sortvals`.
    pub sorted: Vec<String>,
    /// `idlexp`: an index key with 2^idlexp entries or more is stored as a range.
    pub list_exponent: u32,
    /// `maxentrysize`, in bytes; 0 means no limit.
    pub max_entry_size: usize,
    /// `maxsize`, in bytes.
    pub map_size: u64,
    /// The database is for slapd 2.4, which generates other index keys for times.
    pub of_2_4: bool,
    /// The database has the table id2v: slapd 2.5 and later.
    pub has_id2v: bool,
    /// The database has the table ixck: slapd 2.6 and later.
    pub has_ixck: bool,
    /// `lastmod`: entries get the operational attributes that they lack.
    pub last_mod: bool,
    /// slapo-translucent(5): an entry may contain only its differences from a remote entry.
    pub translucent: bool,
    /// The database is for slapd 2.7 or later: the file has the format of LMDB 1.0, missing RDN values are added before
    /// a missing structuralObjectClass, and computed attributes are not stored.
    pub of_2_7: bool,
    /// `dbpagesize`, in bytes.
    pub page_size: u32,
    /// Server ID of generated CSNs.
    pub server_id: u16,
}

impl Settings {
    /// Returns the options of the file that this slapd creates.
    pub const fn file_options(&self) -> lmdbfile::Options {
        let format = if self.of_2_7 { Format::V3 } else { Format::V1 };
        lmdbfile::Options { format, page_size: self.page_size, map_size: self.map_size }
    }
}

common::named!(
    /// A kind of index key.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Method {
        Presence = "pres",
        Equality = "eq",
        Approx = "approx",
        Substrings = "sub",
    }
);

common::named!(
    /// Treatment of values that slapadd stores although they violate their syntax.
    #[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ValueCheck {
        /// The entry is rejected.
        Refuse = "refuse",
        /// The value is stored and counted.
        Count = "count",
        /// Values are not checked.
        #[default]
        Skip = "skip",
    }
);

/// The options of a build: checks, treatment of invalid entries, and resources.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the user's")]
pub struct Options {
    /// Time of generated attributes, in the format of createTimestamp: 20260102030405Z.
    pub now: String,
    /// Number of the first generated entryCSN. Builds of parts of one tree need different numbers.
    pub first: u64,
    /// Computes contextCSN from the entries' entryCSNs, like `slapadd -w`.
    pub write_context: bool,
    /// The contextCSN for the suffix entry. A newer entryCSN is replaced by an older CSN.
    pub claimed: Option<Vec<String>>,
    pub values: ValueCheck,
    /// Checks entries against the schema, and that they have the values of their RDN. `slapadd -s` and slapd's syncrepl
    /// consumer do not check that.
    pub check_schema: bool,
    /// Adds the values of the RDN that an entry lacks, like slapadd. Otherwise such an entry is refused, as by a
    /// server.
    pub complete_naming: bool,
    /// Computes how added attributes change the checksum, to compare the database with the input.
    pub account: bool,
    /// Reads the files of values given as `attribute:< file:///path`.
    pub file_urls: bool,
    /// Refuses `version:` and `changetype: add`, as slapadd does.
    pub as_slapadd: bool,
    /// Memory for sorting, in bytes.
    pub memory: usize,
    pub jobs: usize,
    /// Directory for temporary files.
    pub scratch: PathBuf,
    /// Maximum number of rejected entries. If there are more, the build fails.
    pub max_rejects: u64,
    /// Reject file; written only if entries are rejected.
    pub rejects: PathBuf,
}
