//! Reads meta pages and single facts of a data file. Changes and creates id2e values.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;

use codec::id2e::{self, Attribute, Parts};
use common::{Code, Error, lock};
use lmdbfile::{Head, Table};
use pyo3::prelude::*;

use crate::error::{Raise, raised};
use crate::gate::Counters;
use crate::results::view;

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug, Clone, Copy)]
pub struct TableRecord {
    entries: u64,
    depth: u16,
    pages: u64,
    root: Option<u64>,
}

impl From<Table> for TableRecord {
    fn from(table: Table) -> Self {
        let Table { entries, depth, branch_pages, leaf_pages, overflow_pages, root, .. } = table;
        let pages = branch_pages.saturating_add(leaf_pages).saturating_add(overflow_pages);
        Self { entries, depth, pages, root: (depth > 0).then_some(root) }
    }
}

view!(MetaPage of head: Head {
    format: u32 = head.layout.format().version(),
    page_size: usize = head.layout.page_size(),
    map_size: u64 = head.meta.map_size,
    pages: u64 = head.meta.last_page + 1,
    used: u64 = pages * page_size as u64,
    txnid: u64 = head.meta.txn,
    free: TableRecord = head.meta.free.into(),
    main: TableRecord = head.meta.main.into(),
});

#[pymethods]
impl MetaPage {
    #[new]
    fn new(start: &[u8], alone: bool) -> PyResult<Self> {
        raised(if alone { Head::of_page(start) } else { Head::newer(start) }).map(Self::from)
    }

    fn page(&self, number: u64, txnid: u64, map_size: u64) -> Vec<u8> {
        self.head.page(number, txnid, map_size)
    }

    fn of_copy(&self) -> Vec<u8> {
        self.head.of_copy()
    }
}

#[pyclass(frozen, module = "loader._native")]
pub struct Contents(Mutex<dump::Contents>);

impl Contents {
    fn read<T: Send, E: Raise + Send>(
        &self,
        read: impl FnOnce(&dump::Contents, &common::Counters) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        Counters::default().run(|counters| read(&lock(&self.0), counters))
    }
}

#[pymethods]
impl Contents {
    #[new]
    #[pyo3(signature = (path, *, txn = None, meta = None))]
    fn new(path: PathBuf, txn: Option<u64>, meta: Option<Vec<u8>>) -> PyResult<Self> {
        let opened = Counters::default().run(|_| match meta {
            Some(page) => dump::Contents::open_meta(&path, &page),
            None => dump::Contents::open(&path, txn),
        });
        opened.map(Mutex::new).map(Self)
    }

    #[getter]
    fn tables(&self) -> BTreeMap<String, TableRecord> {
        let tables = lock(&self.0).tables();
        tables.into_iter().map(|(name, table)| (name, table.into())).collect()
    }

    fn freed(&self, since: u64) -> PyResult<HashMap<u64, u64>> {
        Ok(self.read(|contents, _| contents.freed(since))?.into_iter().collect())
    }

    fn attributes(&self) -> PyResult<BTreeMap<u32, String>> {
        self.read(|contents, _| contents.attributes())
    }

    fn suffixes(&self) -> PyResult<Vec<(String, u64)>> {
        self.read(|contents, _| contents.suffixes())
    }

    fn last_id(&self) -> PyResult<u64> {
        self.read(|contents, _| contents.last_id())
    }

    fn values(&self, id: u64, name: &str) -> PyResult<Option<Vec<Vec<u8>>>> {
        self.read(|contents, _| contents.values(id, name))
    }

    fn first_values(&self, after: u64, names: Vec<String>, most: usize) -> PyResult<Vec<(u64, Vec<String>)>> {
        self.read(|contents, _| contents.first_values(after, &names, most))
    }

    #[pyo3(signature = (stop, most = None))]
    fn newest_csns(&self, stop: Option<&str>, most: Option<u64>) -> PyResult<Vec<String>> {
        self.read(|contents, counters| contents.newest_csns(stop, most, counters))
    }

    fn csns_after(&self, since: &str) -> PyResult<Vec<(u64, String)>> {
        self.read(|contents, counters| contents.csns_after(since, counters))
    }

    fn probe(&self) -> PyResult<()> {
        self.read(|contents, _| contents.probe())
    }

    fn index_counts(&self, name: &str) -> PyResult<Vec<(Vec<u8>, u64)>> {
        self.read(|contents, counters| contents.index_counts(name, counters))
    }
}

fn attribute(number: u32, values: &[Vec<u8>]) -> Attribute<'_> {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let values = values.iter().map(Vec::as_slice).collect();
    Attribute { number, count, values, ..Attribute::default() }
}

#[pyfunction]
pub fn entry_with(entry: &[u8], number: u32, values: Vec<Vec<u8>>, normals: bool) -> PyResult<Vec<u8>> {
    let change = || {
        let parts = id2e::read(entry).ok_or_else(|| Error::damaged("the entry is damaged"))?;
        let old = parts.attributes.iter().find(|attribute| attribute.number == number);
        if old.is_some_and(|attribute| attribute.apart) {
            return Err(Error::new(Code::Unproven, "its values are kept in id2v (multival)"));
        }
        let mut new = attribute(number, &values);
        if let Some(old) = old.filter(|_| normals) {
            new.sorted = old.sorted;
            new.has_normals = old.has_normals;
            if new.has_normals {
                new.normals.clone_from(&new.values);
            }
        }
        Ok(id2e::write(&parts.with(new)))
    };
    raised(change())
}

#[pyfunction]
pub fn new_entry(flags: u32, attributes: Vec<(u32, Vec<Vec<u8>>)>) -> Vec<u8> {
    let attributes = attributes.iter().map(|(number, values)| attribute(*number, values)).collect();
    id2e::write(&Parts { flags, attributes })
}
