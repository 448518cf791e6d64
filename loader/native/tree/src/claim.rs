//! The contextCSN that a seed claims, and the treatment of entries that are newer.
//!
//! A consumer that starts with a cookie ignores the deletion of an entry whose entryCSN is newer than the cookie
//! (OpenLDAP's syncrepl.c, `nonpresent_callback`), because it takes the entry for a later change of its own. So if an
//! entry was read that the provider changed after the claimed CSN, and the provider deletes it before the consumer
//! starts, the consumer would keep it forever. If its entryCSN is lowered to the claim, it is deleted like any other;
//! and if the provider still has the entry, its entryCSN there is newer, and syncrepl sends it again.

use common::Result;
use ldif::{Record, write};

use crate::csn;

#[derive(Debug, Default)]
pub struct Claim {
    /// The claimed CSN of each server: packed, as text, and as an `entryCSN` line.
    claimed: Vec<(u128, Vec<u8>, Vec<u8>)>,
}

impl Claim {
    pub fn new(context_csns: &[impl AsRef<str>]) -> Self {
        let texts = context_csns.iter().map(|text| text.as_ref().as_bytes());
        let with_line = |text: &[u8]| {
            let mut line = Vec::new();
            write::line(&mut line, b"entryCSN", text);
            (csn::pack(text), text.to_vec(), line)
        };
        // 0: no CSN. As a number it would be of the server 000.
        Self { claimed: texts.map(with_line).filter(|(claimed, ..)| *claimed != 0).collect() }
    }

    /// Returns the `entryCSN` line that must replace the record's line, if the record's CSN is newer than the claim.
    pub fn held_back(&self, record: &Record<'_>) -> Result<Option<&[u8]>> {
        for field in record.entry()?.fields {
            let field = field?;
            if field.is("entryCSN") {
                return Ok(self.older(csn::pack(&field.value()?)).map(|(_, line)| line));
            }
        }
        Ok(None)
    }

    /// Returns the CSN that must replace the packed `entry_csn`, if `entry_csn` is newer than the claim.
    pub fn older_csn(&self, entry_csn: u128) -> Option<&[u8]> {
        self.older(entry_csn).map(|(csn, _)| csn)
    }

    /// Whether a consumer with the claimed contextCSN has seen the change; false if the claim has no CSN of its server,
    /// and for 0.
    pub fn covers(&self, entry_csn: u128) -> bool {
        entry_csn != 0 && self.of_server(entry_csn).is_some_and(|(claimed, ..)| entry_csn <= *claimed)
    }

    /// Returns what is claimed of the CSN's server.
    fn of_server(&self, entry_csn: u128) -> Option<&(u128, Vec<u8>, Vec<u8>)> {
        self.claimed.iter().rfind(|(claimed, ..)| csn::server(*claimed) == csn::server(entry_csn))
    }

    fn older(&self, entry_csn: u128) -> Option<(&[u8], &[u8])> {
        let (claimed, text, line) = self.of_server(entry_csn)?;
        (entry_csn > *claimed).then_some((text.as_slice(), line.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_csn_is_neither_claimed_nor_covered() {
        let [older, newer] = [b"20251231000000.000000Z#000000#000#000000", b"20260101000000.000001Z#000000#000#000000"];
        let claim = Claim::new(&["20260101000000.000000Z#000000#000#000000", "no CSN", "x#000000#000#000000"]);
        assert!(claim.covers(csn::pack(older)) && claim.older_csn(csn::pack(newer)).is_some());
        for text in [&b""[..], b"no CSN", b"x#000000#000#000000"] {
            assert!(!claim.covers(csn::pack(text)) && claim.older_csn(csn::pack(text)).is_none());
        }
        assert!(!Claim::new(&["no CSN"]).covers(csn::pack(older)));
    }
}
