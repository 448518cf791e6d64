//! Updates the database of a stopped consumer in one transaction, so that all changes are applied or none.
//!
//! [`backmdb::changes`] determines the changes. LMDB itself applies them, because only with LMDB does a killed process
//! leave the previous state intact.

mod transaction;

use std::os::fd::OwnedFd;
use std::path::Path;

use backmdb::changes::{self, ChangeCounts, SyncResult};
use backmdb::{Options, Settings};
use common::{Code, Counters, Error, InFile, Result};
use heed::{Env, EnvOpenOptions};
use schema::Schema;

use transaction::Transaction;

/// Maximum number of tables. slapd opens at most 128 or 256.
const MOST_TABLES: u32 = 512;
/// The largest page size of a system, in bytes. The map size must be a multiple of the page size.
const LARGEST_PAGE: u64 = 65_536;

/// Updates the database in an environment directory, and syncs the database. Changes nothing if
/// [`ChangeCounts::unsettled`] is not empty, or if `allowed` ends without a byte. The caller makes its own checks
/// meanwhile, and sends a byte if they succeed.
pub fn refresh(
    directory: &Path,
    known: (&Schema, &Settings),
    options: &Options,
    synced: &SyncResult,
    allowed: OwnedFd,
    counters: &Counters,
) -> Result<ChangeCounts> {
    let env = open(directory, known.1.map_size)?;
    let mut transaction = Transaction::new(&env, allowed)?;
    let path = directory.join("data.mdb");
    let done = changes::apply(&path, known, options, synced, &mut transaction, counters)?;
    counters.begin("sync", 0);
    counters.check()?;
    transaction.commit()?;
    Ok(done)
}

fn open(directory: &Path, map_size: u64) -> Result<Env> {
    let too_large = |_| Error::new(Code::Full, "maxsize is too large for this machine");
    let map_size = usize::try_from(map_size / LARGEST_PAGE * LARGEST_PAGE).map_err(too_large)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(map_size).max_dbs(MOST_TABLES);
    // SAFETY: only LMDB changes the mapped file: slapd is stopped, and its locks keep other programs out.
    #[allow(unsafe_code)]
    let opened = unsafe { options.open(directory) };
    transaction::checked(opened).in_file(Some(directory))
}
