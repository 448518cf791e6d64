//! Opens the tables that hold the entries.

use lmdbfile::{Reader, TableReader};
use tree::Names;

use crate::descriptions::Descriptions;
use crate::entry::{Decoder, Entry};
use crate::parents::ParentDn;
use crate::{Error, Result, Source};

/// A snapshot of the database, as one worker reads it.
#[derive(Debug)]
pub(crate) struct Snapshot(Reader);

impl Snapshot {
    pub(crate) fn open(source: &Source<'_>) -> Result<Self> {
        let opened = match source.txn {
            Some(txn) => Reader::open_at(source.path, txn),
            None => Reader::open(source.path),
        };
        let mut reader = opened?;
        codec::tables::set_orders(&mut reader);
        Ok(Self(reader))
    }

    /// Opens the same snapshot for another worker.
    pub(crate) fn fork(&self) -> Result<Self> {
        Ok(Self(self.0.fork()?))
    }

    pub(crate) fn tables(&self) -> Result<Tables<'_>> {
        let table = |name: &str| {
            let found = self.0.table(name.as_bytes());
            found.ok_or_else(|| {
                Error::damaged(format!("the table {name} is missing: no database of back-mdb"))
            })
        };
        Ok(Tables {
            id2e: table("id2e")?,
            dn2i: table("dn2i")?,
            ad2i: table("ad2i")?,
            id2v: self.0.table(b"id2v"),
            page_size: self.0.layout().page_size() as u64,
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables<'r> {
    pub(crate) id2e: TableReader<'r>,
    pub(crate) dn2i: TableReader<'r>,
    ad2i: TableReader<'r>,
    /// Exists in databases of slapd 2.5 and later.
    pub(crate) id2v: Option<TableReader<'r>>,
    pub(crate) page_size: u64,
}

impl Tables<'_> {
    /// Calls `see` with the entry `id`, unless it was never added. The entry has no DN.
    pub(crate) fn show(&self, id: u64, see: impl FnOnce(&Entry<'_>) -> Result<()>) -> Result<()> {
        let value = self.id2e.get(&id.to_ne_bytes())?.unwrap_or_default();
        if value.is_empty() {
            return Ok(());
        }
        let descriptions = self.descriptions(&Names::default())?;
        let decoder = Decoder { descriptions: &descriptions, id2v: self.id2v };
        see(&decoder.entry(id, &value, &ParentDn::default()))
    }

    /// `ignore` names the attributes that fingerprints leave out.
    pub(crate) fn descriptions(&self, ignore: &Names) -> Result<Descriptions> {
        Descriptions::read(&self.ad2i, ignore)
    }
}
