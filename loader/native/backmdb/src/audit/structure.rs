//! First and second level of the audit: the flags and counts of back-mdb's tables are consistent, every page is either
//! used once or free, and keys and values are in order. Also reads the attribute descriptions of ad2i.

use std::collections::BTreeSet;

use codec::{ad2i, tables};
use ldif::Counters;
use lmdbfile::{ErrorKind, Flags, Reader, Seen, Table};

use super::findings::{Finding, Findings, Kind};

/// A flag of the environment (`MDB_FIXEDMAP`) that LMDB stores with the flags of the table of free pages.
const FIXED_MAP: u16 = 0x01;
/// Mask of all flags that a table can have.
const OF_TABLE: u16 = 0x7f;

/// Checks the flags and counts of all tables.
pub fn head(reader: &Reader, findings: &mut Findings) {
    let [free, main] = reader.system_tables();
    flags("free", free, Flags::INTEGERKEY, !FIXED_MAP & OF_TABLE, findings);
    flags("main", main, Flags::NONE, u16::MAX, findings);
    for name in tables::ALL.iter().filter(|table| table.required).map(|table| table.name) {
        if reader.table(name.as_bytes()).is_none() {
            findings.add(Kind::Table, || Finding::new("the table is missing").of_table(name));
        }
    }
    for name in reader.names() {
        if let (Some(table), Ok(text)) = (reader.table(name), std::str::from_utf8(name)) {
            flags(text, table.record(), tables::flags(text), u16::MAX, findings);
        }
    }
    counts(reader, findings);
}

fn flags(name: &str, record: Table, expected: Flags, mask: u16, findings: &mut Findings) {
    // In `pad`, LMDB stores the size of all values of a table with `DUPFIXED`.
    if record.pad != 0 && name != "free" && !record.flags.contains(Flags::DUPFIXED) {
        findings.add(Kind::Table, || Finding::new(format!("a value size of {}", record.pad)).of_table(name));
    }
    let flags = record.flags.bits() & mask;
    if flags != expected.bits() & mask {
        let expected = expected.bits();
        findings.add(Kind::Table, || {
            Finding::new(format!("flags 0x{flags:02x}, but slapd requires 0x{expected:02x}")).of_table(name)
        });
    }
}

/// Compares the number of entries with the number of records in dn2i, which has one record for the root and two for
/// each node.
fn counts(reader: &Reader, findings: &mut Findings) {
    let (Some(id2e), Some(dn2i)) = (reader.table(b"id2e"), reader.table(b"dn2i")) else { return };
    let (entries, nodes) = (id2e.record().entries, dn2i.record().entries);
    // The entry of the empty DN is the root itself.
    let root = id2e.get(&0u64.to_ne_bytes()).is_ok_and(|value| value.is_some());
    let expected = entries.saturating_sub(u64::from(root)).saturating_mul(2).saturating_add(1);
    if nodes != expected && (entries > 0 || nodes > 1) {
        findings.add(Kind::Count, || Finding::new(format!("{entries} entries in id2e, but {nodes} records in dn2i")));
    }
}

/// Number of pages after which progress is reported.
const STEP: u64 = 1024;

/// Checks all pages, and returns the names of damaged tables. `new`: a build has just written the file, so it must have
/// no free pages. `seen`: pages that were checked while the file was copied. Fails only if the operating system cannot
/// read the file.
pub fn pages(
    reader: &Reader,
    new: bool,
    seen: Option<&Seen>,
    counters: &Counters,
    findings: &mut Findings,
) -> lmdbfile::Result<BTreeSet<String>> {
    counters.begin("pages", reader.pages());
    let mut unreported = 0;
    let (usage, mut damage) = reader.survey(seen, &mut |page| {
        unreported += page.count;
        if unreported >= STEP {
            counters.advance(std::mem::take(&mut unreported));
        }
        !counters.is_cancelled()
    });
    if let Some(index) = damage.iter().position(|error| error.kind == ErrorKind::Io) {
        return Err(damage.swap_remove(index));
    }
    for error in &damage {
        findings.add(Kind::Page, || error.into());
    }
    for run in &usage.unreachable {
        let pages = run.end - run.start;
        findings.add(Kind::LostPages, || Finding {
            page: Some(run.start),
            ..Finding::new(format!("{pages} pages that are neither used nor free"))
        });
    }
    let free = usage.free;
    if new && free > 0 {
        findings.add(Kind::FreePages, || Finding::new(format!("{free} free pages in a new file")));
    }
    Ok(damage.into_iter().filter_map(|error| error.table).collect())
}

/// Returns the descriptions in the order of their numbers, from 1.
pub fn descriptions(reader: &Reader, findings: &mut Findings) -> Vec<String> {
    let (mut texts, mut seen) = (Vec::new(), BTreeSet::new());
    let Some(table) = reader.table(b"ad2i") else { return texts };
    let mut each = || -> lmdbfile::Result<()> {
        let mut cursor = table.cursor()?;
        while let Some((key, value)) = cursor.next()? {
            let text = String::from_utf8_lossy(value).into_owned();
            let add = |findings: &mut Findings, message: String| {
                findings.add(Kind::Description, || Finding::new(message).of_table("ad2i"));
            };
            if !ad2i::follows(key, texts.len()) {
                let expected = texts.len() + 1;
                add(findings, format!("{text} does not have the number {expected}"));
            }
            if !is_description(value) {
                add(findings, format!("{text}: no attribute description"));
            }
            if !seen.insert(text.clone()) {
                add(findings, format!("{text} has two numbers"));
            }
            texts.push(text);
        }
        Ok(())
    };
    if let Err(error) = each() {
        findings.add(Kind::Page, || (&error).into());
    }
    texts
}

/// Returns true for a name or OID with any options (RFC 4512, 2.5). Like slapd, also accepts `_` and a final `=`.
fn is_description(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._;=".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphanumeric) && text.iter().all(is_allowed)
}
