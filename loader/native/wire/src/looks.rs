//! Searches whose entries are looked at and not kept.

use std::time::{Duration, Instant};

use ldif::Counters;
use tree::fingerprint::{Printer, hash_value};
use tree::survey::Sampler;
use tree::{Digest, Names, Survey};

use crate::descriptions::Descriptions;
use crate::message::Entry;
use crate::{Channel, Error, Failure, Result, Search, search};

/// Result codes of a search that met a limit (RFC 4511, A.1): time, size, administrative.
const LIMITS: [i32; 3] = [3, 4, 11];

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

/// What a small search found, and how fast.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The first value of the attribute in each entry that has one.
    pub values: Vec<Vec<u8>>,
    pub entries: u64,
    /// `None`, or the limit that it met.
    pub limit: Option<Failure>,
    /// From the request to the first entry, or to the end where there is none.
    pub first: Duration,
    /// From the request to the end.
    pub last: Duration,
}

/// To meet a limit is no error here.
pub fn probe(
    channel: &mut Channel,
    asked: &Search,
    attribute: &str,
    counters: &Counters,
) -> Result<Probe> {
    let begun = Instant::now();
    let (mut values, mut entries, mut first) = (Vec::new(), 0, None);
    let ended = search(channel, asked, |entry| {
        first.get_or_insert_with(|| begun.elapsed());
        values.extend(first_value(entry, attribute)?.map(<[u8]>::to_vec));
        entries += 1;
        counters.add(1, entry.length());
        Ok(())
    });
    let limit = match ended {
        Ok(()) => None,
        Err(Error::Ldap(failure)) if LIMITS.contains(&failure.result) => Some(*failure),
        Err(error) => return Err(error),
    };
    let last = begun.elapsed();
    Ok(Probe { values, entries, limit, first: first.unwrap_or(last), last })
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
