//! The data that all workers of a build share.

use std::sync::Mutex;

use ldif::Counters;
use schema::Schema;
use tree::claim::Claim;
use tree::fingerprint::Checksum;
use workers::Turn;

use crate::descriptions::AttributeDescriptions;
use crate::naming::Suffixes;
use crate::{Options, Settings};

pub struct BuildContext<'a> {
    pub schema: &'a Schema,
    pub settings: &'a Settings,
    pub options: &'a Options,
    pub counters: &'a Counters,
    pub columns: AttributeDescriptions<'a>,
    pub suffixes: Suffixes,
    /// LMDB's limit for a DUPSORT value of the file: a record of id2v or dn2i.
    pub longest_row: usize,
    /// When seeding: the contextCSN that no entry may exceed.
    pub claim: Option<Claim>,
    /// The entries come from a server that keeps changing, so an entry may come twice.
    pub live: bool,
    /// Checksum of the attributes added by completing entries, if accounting is enabled.
    pub completed: Mutex<Checksum>,
    /// Number of records in the previous chunks.
    pub positions: Turn<u64>,
    /// Passes on when all entries of a chunk are encoded, so that new attribute descriptions are numbered in order.
    pub numbers: Turn<()>,
}
