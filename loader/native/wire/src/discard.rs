//! Searches whose entries are counted and dropped: what reading a server takes when nothing is done with what it says.

use common::Counters;

use crate::{Channel, Result, Search, search};

/// Receives every entry. Their attributes are not looked at.
pub fn discard(channel: &mut Channel, asked: &Search, counters: &Counters) -> Result<()> {
    search(channel, asked, |entry| {
        counters.add(1, entry.length());
        Ok(())
    })
}
