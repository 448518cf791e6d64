//! The contextCSN that a seed claims, and entries that are newer than it.
//!
//! A consumer that starts with a cookie ignores the deletion of entries whose entryCSN is newer than
//! the cookie (OpenLDAP's syncrepl.c, `nonpresent_callback`): it takes them for its own later changes.
//! An entry that changed on the provider after the claimed CSN, was read all the same and is deleted
//! there before the consumer starts, would so stay for ever. Held back to the claim it is deleted like
//! any other; and one that still stands is newer at the provider, so that syncrepl sends it again.

use std::collections::HashMap;

use common::Result;
use ldif::{Record, write};

use crate::csn;

#[derive(Debug, Default)]
pub struct Claim {
    /// Server ID: its CSN as a number, as it stands, and as an `entryCSN` line.
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

    /// The `entryCSN` line that the record must have instead of its own, when that is newer.
    pub fn held_back(&self, record: &Record<'_>) -> Result<Option<&[u8]>> {
        for field in record.entry()?.fields {
            let field = field?;
            if field.is("entryCSN") {
                return Ok(self.older(&field.value()?).map(|(_, line)| line));
            }
        }
        Ok(None)
    }

    /// The CSN that an entry must have instead of `entry_csn`, when that is newer.
    pub fn older_csn(&self, entry_csn: &[u8]) -> Option<&[u8]> {
        self.older(entry_csn).map(|(csn, _)| csn)
    }

    /// A consumer with this contextCSN has seen the change. It has seen none of a server that the claim does not know.
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

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMED: &str = "20260101000000.000005Z#000000#001#000000";

    #[test]
    fn only_newer_ones_of_a_claimed_server_are_held_back() {
        let claim = Claim::new(&[CLAIMED]);
        let line = |text: &str| claim.older(text.as_bytes()).map(|(_, line)| line);
        assert_eq!(line(CLAIMED), None);
        assert_eq!(line("20260101000000.000004Z#000000#001#000000"), None);
        assert_eq!(line("20260101000000.000006Z#000000#002#000000"), None);
        let expected = format!("entryCSN: {CLAIMED}\n");
        assert_eq!(line("20260101000000.000006Z#000000#001#000000"), Some(expected.as_bytes()));
    }
}
