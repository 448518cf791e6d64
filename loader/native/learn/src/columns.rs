//! The sample of one kind, decoded: its entries' values, attribute by attribute.

use common::Result;
use ldif::Record;
use rustc_hash::FxHashMap;

use crate::kind::Kind;
use crate::statistics::described;

/// The text values of an entry by the number of their attribute; None where the entry has none.
pub type SampledEntry = Vec<Vec<String>>;

#[derive(Debug, Default)]
pub struct SampledEntries {
    /// Lower case, ascending.
    pub names: Vec<String>,
    pub rows: Vec<SampledEntry>,
}

impl SampledEntries {
    pub fn of(kind: &Kind) -> Result<Self> {
        let mut names: Vec<String> = kind.attributes.keys().map(|name| (**name).into()).collect();
        names.sort_unstable();
        let numbers: FxHashMap<&str, usize> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let mut rows = Vec::with_capacity(kind.records.len());
        for (_, bytes) in kind.records.sorted() {
            rows.push(row(bytes, &numbers)?);
        }
        Ok(Self { names, rows })
    }

    /// All values of an attribute.
    pub fn values(&self, number: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(move |row| row[number].iter().map(String::as_str))
    }
}

fn row(bytes: &[u8], numbers: &FxHashMap<&str, usize>) -> Result<SampledEntry> {
    let record = Record { bytes, line: 1, closed: true, last: false };
    let mut row = vec![Vec::new(); numbers.len()];
    for field in record.entry()?.fields {
        let field = field?;
        let name = String::from_utf8_lossy(described(&field)).to_ascii_lowercase();
        let (Some(&number), value) = (numbers.get(name.as_str()), field.value()?) else { continue };
        if let Ok(text) = std::str::from_utf8(&value) {
            row[number].push(text.to_owned());
        }
    }
    Ok(row)
}
