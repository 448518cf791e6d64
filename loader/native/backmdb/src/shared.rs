//! What all workers of a build look at.

use std::sync::Mutex;

use ldif::Counters;
use schema::Schema;
use tree::claim::Claim;
use tree::fingerprint::Checksum;
use workers::Turn;

use crate::descriptions::AttributeDescriptions;
use crate::naming::Suffixes;
use crate::{Options, Settings};

#[derive(Debug)]
pub struct BuildContext<'a> {
    pub schema: &'a Schema,
    pub settings: &'a Settings,
    pub options: &'a Options,
    pub counters: &'a Counters,
    pub columns: AttributeDescriptions<'a>,
    pub suffixes: Suffixes,
    /// LMDB's limit for a DUPSORT value of the file: a record of id2v or dn2i.
    pub longest_row: usize,
    /// Of a seed: the contextCSN that no entry may exceed.
    pub claim: Option<Claim>,
    /// The entries come from a server that goes on to change, so that some may come twice.
    pub live: bool,
    /// What completing the entries has added to the checksum of their tree, if an account is kept of it.
    pub completed: Mutex<Checksum>,
    /// How many records the chunks before have.
    pub positions: Turn<u64>,
    /// Passes when all entries of a chunk are encoded: new attribute descriptions are numbered in order.
    pub numbers: Turn<()>,
}
