//! Collects the attribute types and object classes that a server must know to load LDIF files, and the CSNs.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use common::{Counters, InFile, Result};
use ldif::tail::TruncationDetector;
use ldif::walk::each_record;
use ldif::{Field, Input, Record};

use crate::csn;

/// Names in lower case, each with the file and line of its first use.
pub type FirstUses = BTreeMap<String, (PathBuf, u64)>;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    pub entries: u64,
    /// Uncompressed bytes.
    pub bytes: u64,
    /// Attribute types: descriptions without options.
    pub attributes: FirstUses,
    pub object_classes: FirstUses,
    pub first_dn: Option<String>,
    /// Values of contextCSN, in the order in which they occur.
    pub context_csns: Vec<String>,
    /// The greatest entryCSN of each server ID; the key is the ID as three hexadecimal digits.
    pub max_csns: BTreeMap<String, String>,
}

pub fn scan(paths: &[impl AsRef<Path>], counters: &Counters) -> Result<Scan> {
    let mut scanner = Scanner::default();
    for (file, path) in paths.iter().map(AsRef::as_ref).enumerate() {
        let mut tail = TruncationDetector::default();
        scanner.file = file;
        let input = Input::from_path(path, counters)?;
        let visit = |record: &Record<'_>| scanner.record(record, &mut tail);
        let bytes = each_record(input, counters, visit)?;
        scanner.scan.bytes += bytes;
        tail.end().in_file(Some(path))?;
    }
    Ok(scanner.finish(paths))
}

type NameUses = HashMap<Vec<u8>, (usize, u64)>;

#[derive(Default)]
struct Scanner {
    scan: Scan,
    file: usize,
    attributes: NameUses,
    object_classes: NameUses,
    lower: Vec<u8>,
}

impl Scanner {
    fn record(&mut self, record: &Record<'_>, tail: &mut TruncationDetector) -> Result<()> {
        let entry = record.entry()?;
        tail.record(record, &entry.dn);
        self.scan.entries += 1;
        let dn = || String::from_utf8_lossy(&entry.dn).into_owned();
        self.scan.first_dn.get_or_insert_with(dn);
        for field in entry.fields {
            let field = field?;
            tail.field(&field);
            self.field(&field)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &Field<'_>) -> Result<()> {
        let at = (self.file, field.line);
        note(&mut self.attributes, &mut self.lower, field.base(), at);
        // Decodes every value, to find invalid base64 before the load.
        let value = field.value()?;
        match self.lower.as_slice() {
            b"objectclass" => note(&mut self.object_classes, &mut self.lower, &value, at),
            b"contextcsn" => self.scan.context_csns.push(text(&value)),
            b"entrycsn" => self.note_csn(&value),
            _ => {}
        }
        Ok(())
    }

    fn note_csn(&mut self, value: &[u8]) {
        let Some(sid) = csn::sid(value) else { return };
        let greatest = self.scan.max_csns.entry(format!("{sid:03x}")).or_default();
        if csn::pack(value) > csn::pack(greatest.as_bytes()) {
            *greatest = text(value);
        }
    }

    fn finish(self, paths: &[impl AsRef<Path>]) -> Scan {
        let path = |file: usize| paths[file].as_ref().to_path_buf();
        let first_uses =
            |uses: NameUses| uses.into_iter().map(|(name, (file, line))| (text(&name), (path(file), line))).collect();
        Scan { attributes: first_uses(self.attributes), object_classes: first_uses(self.object_classes), ..self.scan }
    }
}

/// Records the first use of a name, and leaves the name in lower case in `lower`.
fn note(uses: &mut NameUses, lower: &mut Vec<u8>, name: &[u8], at: (usize, u64)) {
    lower.clear();
    lower.extend(name.iter().map(u8::to_ascii_lowercase));
    if !uses.contains_key(lower.as_slice()) {
        uses.insert(lower.clone(), at);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
