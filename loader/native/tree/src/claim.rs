//! The contextCSN that a seed claims, and the treatment of entries that are newer.
//!
//! A consumer that starts with a cookie ignores the deletion of an entry whose entryCSN is newer than the cookie
//! (OpenLDAP's syncrepl.c, `nonpresent_callback`), because it takes the entry for a later change of its own. So if an
//! entry was read that the provider changed after the claimed CSN, and the provider deletes it before the consumer
//! starts, the consumer would keep it forever. If its entryCSN is lowered to the claim, it is deleted like any other;
//! and if the provider still has the entry, its entryCSN there is newer, and syncrepl sends it again.

use std::collections::HashMap;

use common::Result;
use ldif::{Record, write};

use crate::csn;

#[derive(Debug, Default)]
pub struct Claim {
    /// The claimed CSN of each server ID: packed, as text, and as an `entryCSN` line.
    by_server: HashMap<String, (u128, Vec<u8>, Vec<u8>)>,
}

impl Claim {
    pub fn new(context_csns: &[impl AsRef<str>]) -> Self {
        let mut by_server = HashMap::new();
        for text in context_csns.iter().map(|text| text.as_ref().as_bytes()) {
            if let Some(sid) = csn::sid(text) {
                let mut line = Vec::new();
                write::line(&mut line, b"entryCSN", text);
                by_server.insert(sid, (csn::pack(text), text.to_vec(), line));
            }
        }
        Self { by_server }
    }

    /// Returns the `entryCSN` line that must replace the record's line, if the record's CSN is newer than the claim.
    pub fn held_back(&self, record: &Record<'_>) -> Result<Option<&[u8]>> {
        for field in record.entry()?.fields {
            let field = field?;
            if field.is("entryCSN") {
                return Ok(self.older(&field.value()?).map(|(_, line)| line));
            }
        }
        Ok(None)
    }

    /// Returns the CSN that must replace `entry_csn`, if `entry_csn` is newer than the claim.
    pub fn older_csn(&self, entry_csn: &[u8]) -> Option<&[u8]> {
        self.older(entry_csn).map(|(csn, _)| csn)
    }

    /// Whether a consumer with the claimed contextCSN has seen the change; false if the claim has no CSN of its server.
    pub fn covers(&self, entry_csn: &[u8]) -> bool {
        let sid = csn::sid(entry_csn);
        let claimed = sid.and_then(|sid| self.by_server.get(&sid));
        claimed.is_some_and(|(claimed, ..)| csn::pack(entry_csn) <= *claimed)
    }

    fn older(&self, entry_csn: &[u8]) -> Option<(&[u8], &[u8])> {
        let (claimed, text, line) = self.by_server.get(&csn::sid(entry_csn)?)?;
        (csn::pack(entry_csn) > *claimed).then_some((text.as_slice(), line.as_slice()))
    }
}
