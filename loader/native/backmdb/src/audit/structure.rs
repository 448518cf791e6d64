//! First and second level of the audit: back-mdb's tables have consistent flags and counts; every page is either used
//! once or free; keys and values are in order. Then reads the attribute descriptions of ad2i.

use std::collections::BTreeSet;

use codec::{ad2i, tables};
use ldif::Counters;
use lmdbfile::{ErrorKind, Flags, PageUsage, Reader, Seen, Table};

use super::findings::{Finding, Findings, Kind};

/// LMDB's flag that the table of free pages may have (`MDB_FIXEDMAP`), and the flags of tables.
const FIXED_MAP: u16 = 0x01;
const OF_TABLE: u16 = 0x7f;

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
    // LMDB stores the common size of all values there.
    if record.pad != 0 && name != "free" && !record.flags.contains(Flags::DUPFIXED) {
        findings.add(Kind::Table, || Finding::new(format!("a value size of {}", record.pad)).of_table(name));
    }
    let found = record.flags.bits() & mask;
    if found != expected.bits() & mask {
        let expected = expected.bits();
        findings.add(Kind::Table, || {
            Finding::new(format!("flags 0x{found:02x}, but slapd requires 0x{expected:02x}")).of_table(name)
        });
    }
}

/// Compares the number of entries with that of records in dn2i: one for the root, two per node.
fn counts(reader: &Reader, findings: &mut Findings) {
    let table = |name: &[u8]| reader.table(name);
    let (Some(id2e), Some(dn2i)) = (table(b"id2e"), table(b"dn2i")) else { return };
    let (entries, nodes) = (id2e.record().entries, dn2i.record().entries);
    // The entry of the empty DN is the root itself.
    let root = id2e.get(&0u64.to_ne_bytes()).is_ok_and(|found| found.is_some());
    let expected = entries.saturating_sub(u64::from(root)).saturating_mul(2).saturating_add(1);
    if nodes != expected && (entries > 0 || nodes > 1) {
        findings.add(Kind::Count, || Finding::new(format!("{entries} entries in id2e, but {nodes} records in dn2i")));
    }
}

/// Pages after which progress is reported and the cancel flag checked.
const STEP: u64 = 1024;

/// Returns the damaged tables. `new`: the file was written in one go, so it has no free pages. `seen`: pages that were
/// checked while the file was copied. Fails only if the operating system cannot read the file.
pub fn pages(
    reader: &Reader,
    new: bool,
    seen: Option<&Seen>,
    counters: &Counters,
    findings: &mut Findings,
) -> lmdbfile::Result<BTreeSet<String>> {
    counters.begin("pages", reader.pages());
    let (mut met, mut reported) = (0, 0);
    let (found, mut damage) = reader.survey(seen, &mut |page| {
        met += page.count;
        if met - reported >= STEP {
            counters.advance(met - reported);
            reported = met;
        }
        !counters.is_cancelled()
    });
    if let Some(place) = damage.iter().position(|error| error.kind == ErrorKind::Io) {
        return Err(damage.swap_remove(place));
    }
    for error in &damage {
        findings.add(Kind::Page, || error.into());
    }
    lost(&found, findings);
    if new && found.free > 0 {
        let free = found.free;
        findings.add(Kind::FreePages, || Finding::new(format!("{free} free pages in a new file")));
    }
    Ok(damage.into_iter().filter_map(|error| error.table).collect())
}

fn lost(found: &PageUsage, findings: &mut Findings) {
    for run in &found.unreachable {
        let pages = run.end - run.start;
        findings.add(Kind::LostPages, || Finding {
            page: Some(run.start),
            ..Finding::new(format!("{pages} pages that are neither used nor free"))
        });
    }
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

/// Accepts a name or OID, and options (RFC 4512, 2.5); like slapd, also `_` and a final `=`.
fn is_description(text: &[u8]) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._;=".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphanumeric) && text.iter().all(known)
}
