//! Searches whose entries are looked at and not kept.

use ldif::Counters;
use tree::fingerprint::{Printer, hash_value};
use tree::survey::Sampler;
use tree::{Digest, Names, Survey};

use crate::descriptions::Descriptions;
use crate::message::Entry;
use crate::{Channel, Result, Search, search};

/// Samples the first value of `attribute` in each entry.
pub fn survey(
    channel: &mut Channel,
    asked: &Search,
    attribute: &str,
    sample_size: usize,
    counters: &Counters,
) -> Result<Survey> {
    let mut sampler = Sampler::new(sample_size);
    search(channel, asked, |entry| {
        sampler.see(first_value(entry, attribute)?);
        counters.add(1, entry.length());
        Ok(())
    })?;
    Ok(sampler.finish())
}

/// Adds every entry to `digest`.
pub fn digest(
    channel: &mut Channel,
    asked: &Search,
    digest: &mut Digest,
    counters: &Counters,
) -> Result<()> {
    let mut descriptions = Descriptions::new(Names::default(), digest.ignored().clone());
    let mut printer = Printer::default();
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
        digest.add_entry(&printer.end(entry.dn), entry.dn);
        counters.add(1, entry.length());
        Ok(())
    })
}

/// Of an attribute with any options.
fn first_value<'a>(entry: &Entry<'a>, wanted: &str) -> Result<Option<&'a [u8]>> {
    for attribute in entry.attributes.clone() {
        let (name, mut values) = attribute?;
        let base = name.split(|&byte| byte == b';').next().unwrap_or_default();
        if base.eq_ignore_ascii_case(wanted.as_bytes()) {
            return values.next().transpose();
        }
    }
    Ok(None)
}
