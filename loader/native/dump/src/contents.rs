//! Reads single facts from a database: tables, attribute descriptions, contextCSN, the newest entryCSNs, freed pages.

use std::collections::BTreeMap;
use std::path::Path;

use codec::id2e::{self, Stored};
use codec::idl::{self, IndexRecord};
use codec::{ad2i, dn2i, id, id2v, tables};
use common::Counters;
use lmdbfile::{Reader, Table, TableReader};
use tree::csn;

use crate::tables::open;
use crate::{Error, Result};

/// A snapshot of a data file.
pub struct Contents(Reader);

/// Length of a CSN in the form of slapd 2.4 and later, in bytes.
const CSN_LENGTH: usize = 40;
/// Number of digits of a CSN up to the second. The index key of a CSN depends on these digits only.
const SECOND_DIGITS: usize = 14;

impl Contents {
    /// Opens the snapshot of transaction `txn` (see [`Source::txn`](crate::Source::txn)). `None` may also mean that the
    /// caller detects changes from the meta pages.
    pub fn open(path: &Path, txn: Option<u64>) -> Result<Self> {
        open(path, txn).map(Self)
    }

    /// Opens the snapshot with the meta page `page`, for which the caller must have a reader slot.
    pub fn open_meta(path: &Path, page: &[u8]) -> Result<Self> {
        Ok(Self(tables::with_orders(Reader::open_meta(path, page)?)))
    }

    pub fn tables(&self) -> BTreeMap<String, Table> {
        let records = self.0.names().filter_map(|name| {
            let name_text = String::from_utf8_lossy(name).into_owned();
            Some((name_text, self.0.table(name)?.record()))
        });
        records.collect()
    }

    fn table(&self, name: &str) -> Result<TableReader<'_>> {
        let table = self.0.table(name.as_bytes());
        table.ok_or_else(|| Error::damaged(format!("the table {name} is missing")))
    }

    /// Returns the transactions from `since` on that freed pages, with the number of their pages that are still free.
    pub fn freed(&self, since: u64) -> Result<Vec<(u64, u64)>> {
        Ok(self.0.freed(since)?)
    }

    /// Maps the numbers in ad2i to attribute descriptions.
    pub fn attributes(&self) -> Result<BTreeMap<u32, String>> {
        let (mut names, mut cursor) = (BTreeMap::new(), self.table("ad2i")?.cursor()?);
        while let Some((key, name)) = cursor.next()? {
            let number = ad2i::read(key).ok_or_else(|| damaged("a number of an attribute"))?;
            names.insert(number, String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    /// Returns the number of an attribute description, ignoring case; `None` if it was never used.
    fn number(&self, name: &str) -> Result<Option<u32>> {
        let names = self.attributes()?;
        Ok(names.into_iter().find(|(_, text)| text.eq_ignore_ascii_case(name)).map(|one| one.0))
    }

    /// Returns the suffixes in dn2i, in normal form, with their entry IDs. Each is one node, even with several RDNs.
    pub fn suffixes(&self) -> Result<Vec<(String, u64)>> {
        let mut suffixes = Vec::new();
        for record in self.table("dn2i")?.get_all(&0_u64.to_ne_bytes())? {
            let node = dn2i::read(&record).ok_or_else(|| damaged("a suffix in dn2i"))?;
            if node.child.is_some() {
                suffixes.push((String::from_utf8_lossy(node.normal).into_owned(), node.id));
            }
        }
        Ok(suffixes)
    }

    /// Returns the greatest entry ID, or 0 if there is no entry.
    pub fn last_id(&self) -> Result<u64> {
        let key = self.table("id2e")?.last_key()?;
        Ok(key.and_then(|key| id::read(&key)).unwrap_or(0))
    }

    /// Returns the values of an attribute of the entry `id`, including those in id2v; `None` if there is no such entry.
    pub fn values(&self, id: u64, name: &str) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(blob) = self.table("id2e")?.get(&id.to_ne_bytes())? else { return Ok(None) };
        let number = self.number(name)?;
        let stored = number.map_or(Ok(None), |number| stored(&blob, number))?;
        let Some(stored) = stored else { return Ok(Some(Vec::new())) };
        if !stored.apart {
            return Ok(Some(stored.values().map(<[u8]>::to_vec).collect()));
        }
        let rows = id2v::rows(&self.table("id2v")?, id, stored.number)?;
        let values = rows.iter().map(|row| {
            let (_, value) = id2v::read_row(row, stored.has_normals)?;
            Some(value.to_vec())
        });
        values.collect::<Option<_>>().map(Some).ok_or_else(|| damaged("a value in id2v"))
    }

    /// Reads at most `most` entries after the ID `after`. Returns each entry's ID, and the first value of each
    /// attribute in `names`; this value is empty if the entry does not have the attribute.
    pub fn first_values(&self, after: u64, names: &[String], most: usize) -> Result<Vec<(u64, Vec<String>)>> {
        let numbers: Vec<_> = names.iter().map(|name| self.number(name)).collect::<Result<_>>()?;
        let (mut entries, mut cursor) = (Vec::new(), self.table("id2e")?.cursor()?);
        cursor.seek(&after.saturating_add(1).to_ne_bytes())?;
        while entries.len() < most {
            let Some((key, blob)) = cursor.next()? else { break };
            let id = id::read(key).ok_or_else(|| damaged("a key of id2e"))?;
            let first = |number: &Option<u32>| {
                let attribute = number.map_or(Ok(None), |number| stored(blob, number))?;
                let value = attribute.and_then(|one| one.values().next());
                Ok(String::from_utf8_lossy(value.unwrap_or_default()).into_owned())
            };
            entries.push((id, numbers.iter().map(first).collect::<Result<_>>()?));
        }
        Ok(entries)
    }

    /// Returns the greatest entryCSN of each server ID among the entries that [`Self::each_csn`] visits.
    pub fn newest_csns(&self, stop: Option<&str>, most: Option<u64>, counters: &Counters) -> Result<Vec<String>> {
        let mut newest: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        self.each_csn(stop, most, counters, &mut |_, text| {
            let is_modern = text.len() == CSN_LENGTH && csn::pack(text) > 0;
            if let Some(server) = csn::sid(text).filter(|_| is_modern) {
                let greatest = newest.entry(server).or_default();
                if text > &greatest[..] {
                    *greatest = text.to_vec();
                }
            }
        })?;
        Ok(newest.values().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    /// Returns the entries whose entryCSN is greater than `since`.
    pub fn csns_after(&self, since: &str, counters: &Counters) -> Result<Vec<(u64, String)>> {
        let mut later = Vec::new();
        self.each_csn(Some(since), None, counters, &mut |id, text| {
            if text > since.as_bytes() {
                later.push((id, String::from_utf8_lossy(text).into_owned()));
            }
        })?;
        Ok(later)
    }

    /// Calls `see` with the ID and entryCSN of entries, from the index's last second back to the second of `stop`, for
    /// at most `most` entries: within a second, those with the highest IDs. Without an index, visits all entries.
    fn each_csn(
        &self,
        stop: Option<&str>,
        most: Option<u64>,
        counters: &Counters,
        see: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        let Some(number) = self.number("entryCSN")? else { return Ok(()) };
        let entries = self.table("id2e")?;
        let mut latest = Vec::new();
        // Reads the entries with IDs from `low` to `high`; an ID without an entry has an empty record.
        let mut range = |low: u64, high: u64, latest: &mut Vec<u8>| {
            let mut cursor = entries.cursor()?;
            cursor.seek(&low.to_ne_bytes())?;
            while let Some((key, blob)) = cursor.next()? {
                counters.check()?;
                let id = id::read(key).ok_or_else(|| damaged("a key of id2e"))?;
                if id > high {
                    break;
                }
                let attribute = if blob.is_empty() { None } else { stored(blob, number)? };
                for text in attribute.iter().flat_map(Stored::values) {
                    if text > &latest[..] {
                        *latest = text.to_vec();
                    }
                    see(id, text);
                }
            }
            Ok(())
        };
        let index = self.0.table(b"entryCSN").filter(|index| index.record().entries > 0);
        let Some(index) = index else { return range(0, u64::MAX, &mut latest) };
        let (mut seconds, mut left) = (index.cursor()?, most.unwrap_or(u64::MAX));
        while left > 0 {
            let Some(values) = seconds.previous()? else { break };
            latest.clear();
            match idl::read(&values) {
                Some((IndexRecord::List, ids)) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let last = &ids[ids.len().saturating_sub(most)..];
                    last.iter().try_for_each(|id| range(*id, *id, &mut latest))?;
                    left -= last.len() as u64;
                }
                Some((IndexRecord::Range(low, high), _)) if low <= high => {
                    range(low.max(high.saturating_sub(left - 1)), high, &mut latest)?;
                    left -= (high - low).saturating_add(1).min(left);
                }
                _ => return Err(damaged("a key of the index of entryCSN")),
            }
            let second = |text: &[u8]| text[..text.len().min(SECOND_DIGITS)].to_vec();
            let is_before = |stop: &str| second(&latest) < second(stop.as_bytes());
            if !latest.is_empty() && stop.is_some_and(is_before) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the first and the last record of every table.
    pub fn probe(&self) -> Result<()> {
        for table in self.0.names().filter_map(|name| self.0.table(name)) {
            table.cursor()?.next()?;
            table.cursor()?.previous()?;
        }
        Ok(())
    }

    /// Returns the keys of an index, each with its number of IDs.
    pub fn index_counts(&self, name: &str, counters: &Counters) -> Result<Vec<(Vec<u8>, u64)>> {
        let index = self.table(name)?;
        let (mut keys, mut counts) = (index.keys()?, Vec::new());
        while let Some(key) = keys.next()? {
            counters.check()?;
            let mut count = key.count;
            if count == 3 {
                if let Some((IndexRecord::Range(low, high), _)) = idl::read(&index.get_all(key.key)?) {
                    count = high.saturating_sub(low).saturating_add(1);
                }
            }
            counts.push((key.key.to_vec(), count));
        }
        Ok(counts)
    }
}

/// Returns the stored form of the attribute with this number, if the entry has the attribute.
fn stored(blob: &[u8], number: u32) -> Result<Option<Stored<'_>>> {
    for attribute in id2e::attributes(blob).ok_or_else(|| damaged("an entry in id2e"))? {
        let attribute = attribute.ok_or_else(|| damaged("an entry in id2e"))?;
        if attribute.number == number {
            return Ok(Some(attribute));
        }
    }
    Ok(None)
}

fn damaged(what: &str) -> Error {
    Error::damaged(format!("{what} is damaged"))
}
