//! Opens the tables with the entries, and reads their attribute descriptions.

use std::path::Path;

use lmdbfile::{Reader, TableReader};
use tree::{Description, Names};

use crate::entry::Entry;
use crate::parents::ParentDn;
use crate::{Error, Result};

/// Opens the snapshot of transaction `txn`, for which the caller must have a reader slot. `None` means that no process
/// writes, or that the caller detects writes from the meta pages.
pub(crate) fn open(path: &Path, txn: Option<u64>) -> Result<Reader> {
    Ok(codec::tables::with_orders(Reader::open_at(path, txn)?))
}

#[derive(Clone, Copy)]
pub(crate) struct Tables<'r> {
    pub(crate) id2e: TableReader<'r>,
    pub(crate) dn2i: TableReader<'r>,
    pub(crate) ad2i: TableReader<'r>,
    /// The table id2v, which databases of slapd 2.5 and later have.
    pub(crate) id2v: Option<TableReader<'r>>,
}

impl<'r> Tables<'r> {
    pub(crate) fn of(reader: &'r Reader) -> Result<Self> {
        let table = |name: &str| {
            reader
                .table(name.as_bytes())
                .ok_or_else(|| Error::damaged(format!("the table {name} is missing: not a database of back-mdb")))
        };
        let (id2e, dn2i, ad2i) = (table("id2e")?, table("dn2i")?, table("ad2i")?);
        Ok(Self { id2e, dn2i, ad2i, id2v: reader.table(b"id2v") })
    }

    /// Calls `see` with the entry `id`, unless it was never added. The entry is passed without its DN.
    pub(crate) fn show(&self, id: u64, see: impl FnOnce(&Entry<'_>) -> Result<()>) -> Result<()> {
        let value = self.id2e.get(&id.to_ne_bytes())?.unwrap_or_default();
        if value.is_empty() {
            return Ok(());
        }
        let (descriptions, place) = (&Descriptions::read(&self.ad2i, &Names::default())?, &ParentDn::default());
        see(&Entry { id, place, descriptions, value: &value, id2v: self.id2v })
    }
}

/// Maximum number of attribute descriptions that slapd supports in a database (`servers/slapd/back-mdb/attr.c`).
const MOST: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Descriptions {
    /// Descriptions, indexed by their number in ad2i.
    known: Vec<Option<Description>>,
    /// Whether no description has two numbers. slapd never assigns two, but a damaged table may contain them.
    pub(crate) distinct: bool,
}

impl Descriptions {
    /// Reads ad2i; `ignore` names the attributes that fingerprints omit.
    pub(crate) fn read(ad2i: &TableReader<'_>, ignore: &Names) -> Result<Self> {
        let (mut found, drop) = (Vec::new(), Names::default());
        let mut cursor = ad2i.cursor()?;
        while let Some((key, text)) = cursor.next()? {
            let number = codec::ad2i::read(key).map_or(MOST, |number| number as usize);
            if number >= MOST {
                return Err(Error::damaged("a number that no attribute can have (table ad2i)"));
            }
            let description = Description::learn(text, &drop, ignore).ok_or_else(|| {
                let text = text[..text.len().min(80)].escape_ascii();
                Error::damaged(format!("\"{text}\" is not an attribute description (table ad2i)"))
            })?;
            found.resize_with(found.len().max(number + 1), || None);
            found[number] = Some(description);
        }
        let mut hashes: Vec<u64> = found.iter().flatten().map(|one: &Description| one.hash).collect();
        hashes.sort_unstable();
        let distinct = hashes.windows(2).all(|pair| pair[0] != pair[1]);
        Ok(Self { known: found, distinct })
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Description> {
        self.known.get(number as usize)?.as_ref()
    }
}
