//! Sorts more data than memory holds, independently of LDAP: index [postings](Postings), small [tuples](TupleSorter)
//! and byte [records](RecordSorter). Also divides records among [buckets](Buckets), and [spools](Spool) data that need
//! no order.
//!
//! Data beyond a memory limit go to temporary files without names, so that no file remains however the process ends.
//! The results depend neither on the limit nor on the number of threads.

mod postings;
mod records;
mod scratch;
mod sorter;
mod spool;
mod tuples;

use common::{Code, Error, Result};
pub use postings::{KeySize, Postings, Sorted, Visitor, Writer};
pub use records::{RecordSorter, Records};
pub use spool::{Buckets, Spool, SpoolReader, bucket_records};
pub use tuples::{TupleSorter, Tuples};

fn too_large() -> Error {
    Error::new(Code::TooLarge, "a record of 4 GiB or more")
}

/// Number of records or items that are read between two checks of the stop flag.
const PATIENCE: u64 = 1 << 16;
/// Bytes of a record's length, which precedes the record.
const HEADER: usize = 4;

/// Appends a record that consists of `parts`.
fn push_record(bytes: &mut Vec<u8>, parts: &[&[u8]]) -> Result<()> {
    let length = u32::try_from(parts.iter().map(|part| part.len()).sum::<usize>());
    bytes.extend_from_slice(&length.map_err(|_| too_large())?.to_le_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(())
}

/// Splits off the first record.
fn split_record<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (header, rest) = bytes.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*header) as usize)?;
    *bytes = rest;
    Some(record)
}
