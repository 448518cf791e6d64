//! Searches whose entries are looked at and not kept.

use common::Counters;
use tree::fingerprint::{Fingerprinter, hash_value};
use tree::{Digest, Names};

use crate::descriptions::Descriptions;
use crate::{Channel, Result, Search, search};

/// Adds every entry to `digest`.
pub fn digest(
    channel: &mut Channel,
    asked: &Search,
    digest: &mut Digest,
    counters: &Counters,
) -> Result<()> {
    let mut descriptions = Descriptions::new(Names::default(), digest.ignored().clone());
    let mut printer = Fingerprinter::default();
    search(channel, asked, |entry| {
        printer.begin();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let known = descriptions.of(name)?;
            for value in values {
                let value = value?;
                if !known.ignored {
                    printer.add(hash_value(known.hash, value));
                }
            }
        }
        digest.add_entry(&printer.end(entry.dn), entry.dn)?;
        counters.add(1, entry.length());
        Ok(())
    })
}

/// Receives and counts every entry, whose attributes are not looked at: what reading a server takes by itself.
pub fn discard(channel: &mut Channel, asked: &Search, counters: &Counters) -> Result<()> {
    search(channel, asked, |entry| {
        counters.add(1, entry.length());
        Ok(())
    })
}
