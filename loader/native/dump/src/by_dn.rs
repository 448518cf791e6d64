//! Reads single entries by DN.

use common::Counters;
use ldif::write::line;

use crate::tables::Snapshot;
use crate::{Code, Result, Source, base};

/// Returns the entries with these DNs as LDIF. DNs without an entry are skipped.
pub fn pick(source: &Source<'_>, names: &[String], counters: &Counters) -> Result<Vec<u8>> {
    let snapshot = Snapshot::open(source)?;
    let tables = snapshot.tables()?;
    let mut text = Vec::new();
    for name in names {
        counters.check()?;
        let found = match base::find(&tables, name) {
            Err(error) if error.code == Code::NoSuchBase => continue,
            found => found?,
        };
        tables.show(found.id, |entry| {
            line(&mut text, b"dn", &found.dn);
            let values = text.len();
            entry.each(|value| match value {
                Some(value) => value.description.line(value.bytes, &mut text),
                None => text.truncate(values),
            })?;
            text.push(b'\n');
            Ok(())
        })?;
    }
    Ok(text)
}
