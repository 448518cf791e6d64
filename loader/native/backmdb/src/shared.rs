//! What all workers of a build look at.

use ldif::Counters;
use schema::Schema;
use tree::csn;

use crate::columns::Columns;
use crate::naming::Suffixes;
use crate::turn::Turn;
use crate::{Options, Settings};

#[derive(Debug)]
pub struct Shared<'a> {
    pub schema: &'a Schema,
    pub settings: &'a Settings,
    pub options: &'a Options,
    pub counters: &'a Counters,
    pub columns: Columns<'a>,
    pub suffixes: Suffixes,
    pub claim: Option<Claim>,
    /// How many records the chunks before have.
    pub positions: Turn<u64>,
    /// Passes when all entries of a chunk are encoded: new attribute descriptions are numbered in order.
    pub numbers: Turn<()>,
}

/// The contextCSN of a seed, which no entry may exceed (see `tree::claim` for the reason).
#[derive(Debug)]
pub struct Claim {
    pub texts: Vec<Vec<u8>>,
    by_server: Vec<(String, u128)>,
}

impl Claim {
    pub fn new(texts: &[String]) -> Self {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
        let by_server =
            texts.iter().filter_map(|text| Some((csn::sid(text)?, csn::pack(text)))).collect();
        Self { texts, by_server }
    }

    /// What an entry must have instead of its own CSN, when that is newer than what its server claims.
    pub fn held_back(&self, entry_csn: &[u8]) -> Option<&[u8]> {
        let sid = csn::sid(entry_csn)?;
        let at = self.by_server.iter().position(|(server, _)| *server == sid)?;
        (csn::pack(entry_csn) > self.by_server[at].1).then(|| self.texts[at].as_slice())
    }
}
