//! Sorting more than memory holds. Knows no LDAP: it sorts index [postings](Postings), small
//! [tuples](TupleSorter) and byte [records](RecordSorter), puts records into [buckets](Buckets), and
//! [spools](Spool) what needs no order.
//!
//! All of them keep their data in memory up to a limit, and what is more in temporary files that
//! have no name, so that nothing of them is left after the process, however it ends. What comes out
//! depends neither on the limit nor on the number of threads.

mod buckets;
mod memory;
mod merge;
mod postings;
mod records;
mod scratch;
mod spool;
mod tuples;

pub use buckets::{Buckets, bucket_records};
use common::{Code, Error, Result};
pub use postings::{KeySize, Postings, Sorted, Visitor, Writer};
pub use records::{RecordSorter, Records};
pub use spool::{Spool, SpoolReader};
pub use tuples::{TupleSorter, Tuples};

fn too_large() -> Error {
    Error::new(Code::TooLarge, "a record of 4 GiB or more")
}
