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
    /// LMDB's limit for a DUPSORT value (a record of id2v or dn2i) in this file, in bytes.
    pub longest_row: usize,
    /// In a seeding, the contextCSN that no entry may exceed.
    pub claim: Option<Claim>,
    /// The entries come from a server that keeps changing, so an entry may come twice.
    pub live: bool,
    /// Change of the checksum by attributes that the build added; 0 unless [`Options::account`].
    pub completed: Mutex<Checksum>,
    /// Number of records in the previous chunks.
    pub positions: Turn<u64>,
    /// The turn to number new attribute descriptions. A chunk has it until all its entries are encoded, so the order of
    /// the numbers is that of the input.
    pub numbers: Turn<()>,
}
