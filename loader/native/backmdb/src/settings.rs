//! What slapd is configured to do, as far as it decides what a database holds; and how the build goes.

use std::path::PathBuf;

use lmdbfile::Format;
use values::keys::Substrings;

/// The configuration of one database (slapd-mdb(5), slapd-config(5)).
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of slapd's")]
pub struct Settings {
    pub suffixes: Vec<String>,
    /// Suffixes below those that other databases have: what is there is not this one's.
    pub foreign: Vec<String>,
    pub root_dn: Option<String>,
    /// Attribute description, and which keys it gets; in the order of the configuration.
    pub indexes: Vec<(String, Vec<Method>)>,
    /// `index_hash64`.
    pub wide_hash: bool,
    /// `index_intlen`, 4 to 8 bytes.
    pub integer_length: usize,
    pub substrings: Substrings,
    /// `multival`: a description, or "default"; attributes with more values than this live in id2v.
    pub apart_above: Vec<(String, u32)>,
    /// `sortvals`.
    pub sorted: Vec<String>,
    /// `idlexp`: an index key with 2^idlexp entries or more is stored as a range.
    pub list_exponent: u32,
    /// `maxentrysize`, in bytes; 0 is without limit.
    pub max_entry_size: usize,
    /// `maxsize`, in bytes.
    pub map_size: u64,
    /// slapd 2.4, whose index keys of times are others.
    pub of_2_4: bool,
    /// Has the table id2v: slapd 2.5 and later.
    pub has_id2v: bool,
    /// Has the table ixck: slapd 2.6 and later.
    pub has_ixck: bool,
    /// `lastmod`: entries get the operational attributes they lack.
    pub last_mod: bool,
    /// slapo-translucent(5): an entry may hold no more than what differs from a remote one.
    pub translucent: bool,
    /// slapd 2.7 and later: the file is LMDB 1.0's, and what an entry lacks of its RDN comes before its
    /// structuralObjectClass.
    pub of_2_7: bool,
    /// `dbpagesize`, in bytes.
    pub page_size: u32,
    /// Of the CSNs that are made.
    pub server_id: u16,
}

impl Settings {
    /// The file that this slapd creates.
    pub const fn file_options(&self) -> lmdbfile::Options {
        let format = if self.of_2_7 { Format::V3 } else { Format::V1 };
        lmdbfile::Options { format, page_size: self.page_size, map_size: self.map_size }
    }
}

/// A kind of index keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Presence,
    Equality,
    Approx,
    Substrings,
}

impl Method {
    /// As slapd.conf spells it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "pres" => Some(Self::Presence),
            "eq" => Some(Self::Equality),
            "approx" => Some(Self::Approx),
            "sub" => Some(Self::Substrings),
            _ => None,
        }
    }
}

/// What is done with values that their syntax forbids, and slapadd stores all the same.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueCheck {
    /// Their entries are rejected.
    Refuse,
    /// They are taken, and counted.
    Count,
    /// Nobody looks.
    #[default]
    Skip,
}

impl ValueCheck {
    /// As the caller spells it.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "refuse" => Some(Self::Refuse),
            "count" => Some(Self::Count),
            "skip" => Some(Self::Skip),
            _ => None,
        }
    }
}

/// How to build: what to check, what to do with entries that fail, and what may be used.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the user's")]
pub struct Options {
    /// The time of what is made, as in createTimestamp: 20260102030405Z.
    pub now: String,
    /// The number of the first entryCSN that is made: parts of one tree must not make the same ones.
    pub first: u64,
    /// contextCSN from the entries' CSNs, as `slapadd -w` writes it.
    pub write_context: bool,
    /// The contextCSN the suffix entry gets, which no entry's CSN may exceed.
    pub claimed: Option<Vec<String>>,
    pub values: ValueCheck,
    /// Entries need not fit the schema, nor bear their RDN's values, as slapadd's -s and slapd's consumers have it.
    pub check_schema: bool,
    /// An entry that lacks a value of its RDN gets it, as slapadd has it; else it is refused, as servers have it.
    pub complete_naming: bool,
    /// What is added to entries is added up, for a comparison of the database with what was read.
    pub account: bool,
    /// Values given as `attribute:< file:///path` are read.
    pub file_urls: bool,
    /// Bytes that sorting may keep in memory.
    pub memory: usize,
    pub jobs: usize,
    /// For temporary files.
    pub scratch: PathBuf,
    /// More rejected entries than this end the build.
    pub max_rejects: u64,
    /// Made when an entry is rejected.
    pub rejects: PathBuf,
}
