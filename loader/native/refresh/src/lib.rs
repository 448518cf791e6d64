//! A stopped consumer's database brought up to date in one transaction: all of it is there afterwards, or nothing.
//!
//! What is to be done is found out by [`backmdb::changes`]; it is done by LMDB itself, for it alone changes a file in
//! such a way that a kill leaves what was there.

mod transaction;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use backmdb::changes::{self, ChangeCounts, SyncResult};
use backmdb::{Options, Settings};
use common::{Code, Counters, Error, InFile, Result};
use heed::{Env, EnvOpenOptions};
use schema::Schema;

use transaction::Transaction;

/// Slapd allows 128 or 256 tables.
const MOST_TABLES: u32 = 512;
/// Maps are of whole pages, and no page is larger.
const WHOLE: u64 = 65_536;
const DATA: &str = "data.mdb";

/// Brings the database in an environment directory up to date; durable when it returns. Nothing is changed where
/// [`Done::unsettled`] names anything, or when `allowed` ends without a byte: somebody finds out beside the work
/// whether it may be.
pub fn refresh(
    directory: &Path,
    known: (&Schema, &Settings),
    options: &Options,
    told: &SyncResult,
    allowed: OwnedFd,
    counters: &Counters,
) -> Result<ChangeCounts> {
    let env = open(directory, known.1.map_size)?;
    let mut transaction = Transaction::begin(&env)?;
    let path = directory.join(DATA);
    let done = changes::apply(&path, known, options, told, &mut transaction, counters)?;
    if done.unsettled.is_empty() {
        let mut byte = [0];
        if File::from(allowed).read(&mut byte)? == 0 {
            return Err(Error::new(Code::Cancelled, "it may not be"));
        }
        counters.begin("sync", 0);
        counters.check()?;
        transaction.commit()?;
    }
    Ok(done)
}

fn open(directory: &Path, map_size: u64) -> Result<Env> {
    let too_large = |_| Error::new(Code::Full, "maxsize is more than fits here");
    let map_size = usize::try_from(map_size / WHOLE * WHOLE).map_err(too_large)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(map_size).max_dbs(MOST_TABLES);
    // SAFETY: the file is mapped, so nobody but LMDB may change it: slapd does not run, and its locks keep others away.
    #[allow(unsafe_code)]
    let opened = unsafe { options.open(directory) };
    transaction::told(opened).in_file(Some(directory))
}
