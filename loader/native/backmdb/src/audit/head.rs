//! The first rung: the tables that back-mdb has, with their flags, and counts that must fit together.

use codec::tables;
use lmdbfile::{Flags, Reader, Table};

use super::findings::{Finding, Findings, Kind};

/// The bit of LMDB's own flags that may be set in the table of free pages (`MDB_FIXEDMAP`), and those that
/// mean something for a table.
const FIXED_MAP: u16 = 0x01;
const OF_TABLE: u16 = 0x7f;

pub fn check(reader: &Reader, findings: &mut Findings) {
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
    // LMDB keeps the size of values there when all have one.
    if record.pad != 0 && name != "free" && !record.flags.contains(Flags::DUPFIXED) {
        findings.add(Kind::Table, || {
            Finding::new(format!("a value size of {}", record.pad)).of_table(name)
        });
    }
    let found = record.flags.bits() & mask;
    if found != expected.bits() & mask {
        let expected = expected.bits();
        findings.add(Kind::Table, || {
            Finding::new(format!("flags 0x{found:02x} where slapd has 0x{expected:02x}"))
                .of_table(name)
        });
    }
}

/// dn2i has a record of the root, and two for each node: its own, and one in its parent's list.
fn counts(reader: &Reader, findings: &mut Findings) {
    let table = |name: &[u8]| reader.table(name);
    let (Some(id2e), Some(dn2i)) = (table(b"id2e"), table(b"dn2i")) else { return };
    let (entries, nodes) = (id2e.record().entries, dn2i.record().entries);
    // The entry of the empty DN is the root itself.
    let root = id2e.get(&0u64.to_ne_bytes()).is_ok_and(|found| found.is_some());
    let expected = entries.saturating_sub(u64::from(root)).saturating_mul(2).saturating_add(1);
    if nodes != expected && (entries > 0 || nodes > 1) {
        findings.add(Kind::Count, || {
            Finding::new(format!("{entries} entries in id2e, but {nodes} records in dn2i"))
        });
    }
}
