//! Splits LDIF among glued databases: each record goes to the database that holds its entry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::InFile;
use ldif::records::Records;
use ldif::{Counters, Output, Record};
use rustc_hash::{FxHashMap, FxHashSet};
use schema::{Rdn, Schema};
use tree::editor::Editor;
use tree::join::{ContextCsnStamp, context_csn};

use crate::chunks::{Chunks, Source};
use crate::{Code, Error, Result};

/// Parent DNs that are cached.
const PARENTS: usize = 4096;

/// Compression threads per output, besides the reading thread.
const THREADS: u32 = 1;

/// The output for one database. The first one also gets records that are below no suffix or cannot be read: its builder
/// reports why they are refused.
pub struct SplitTarget {
    pub suffixes: Vec<String>,
    pub path: PathBuf,
}

/// What was written for one database.
#[derive(Debug, Default)]
pub struct SplitCounts {
    pub entries: u64,
    /// Server ID -> greatest entryCSN.
    pub newest: BTreeMap<String, String>,
}

/// `includes` as in [`Chunks::new`]. `claimed`: the contextCSN that the entry `root` will get. Entries of the other
/// databases get no contextCSN and no newer entryCSN.
pub fn split(
    sources: Vec<Source>,
    includes: bool,
    schema: &Schema,
    shares: &[SplitTarget],
    claimed: Option<(&str, &[String])>,
    counters: &Counters,
) -> Result<Vec<SplitCounts>> {
    let mut split = Split {
        chooser: SuffixRouter::read(schema, shares)?,
        outputs: shares.iter().map(|share| Output::create(&share.path, THREADS)).collect::<Result<_>>()?,
        stamping: claimed.map(|(root, csns)| ContextCsnStamp::new(root, csns)),
        editor: Editor::new(context_csn()),
        found: shares.iter().map(|_| SplitCounts::default()).collect(),
        text: Vec::new(),
    };
    let chunks = Chunks::new(sources, includes, counters);
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next(buffer)? {
        let path = chunk.path.as_deref();
        let mut entries = 0;
        for record in Records::new(&chunk.block()) {
            let record = record.in_file(path)?;
            split.take(&record).map_err(|error| ldif::walk::locate(error, &record, path))?;
            entries += 1;
        }
        counters.add(entries, chunk.bytes.len() as u64);
        buffer = chunk.bytes;
    }
    for output in split.outputs {
        output.finish()?;
    }
    Ok(split.found)
}

struct Split<'a> {
    chooser: SuffixRouter<'a>,
    outputs: Vec<Output>,
    stamping: Option<ContextCsnStamp>,
    editor: Editor,
    found: Vec<SplitCounts>,
    text: Vec<u8>,
}

impl Split<'_> {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let number = record.entry().map_or(0, |entry| self.chooser.of(&entry.dn));
        self.note(number, record);
        self.text.clear();
        match &mut self.stamping {
            Some(stamping) if number > 0 => {
                stamping.copy(&mut self.editor, record, &mut self.text)?;
            }
            _ => {
                self.text.extend_from_slice(record.bytes);
                self.text.push(b'\n');
            }
        }
        self.outputs[number].write(&self.text)
    }

    /// Counts a record and its entryCSN; unreadable records are left to the builder, here too.
    fn note(&mut self, number: usize, record: &Record<'_>) {
        let found = &mut self.found[number];
        found.entries += 1;
        let Ok(entry) = record.entry() else { return };
        for field in entry.fields.flatten().filter(|field| field.is("entryCSN")) {
            let Ok(value) = field.value() else { continue };
            let Some(sid) = tree::csn::sid(&value) else { continue };
            let newest = found.newest.entry(sid).or_default();
            if newest.as_bytes() < &*value {
                *newest = String::from_utf8_lossy(&value).into_owned();
            }
        }
    }
}

/// Routes an entry to the database with the longest suffix above it.
struct SuffixRouter<'a> {
    schema: &'a Schema,
    /// Normalised suffix -> its database.
    suffixes: FxHashMap<Vec<u8>, usize>,
    /// Parents of suffixes: below these the whole DN must be compared.
    above: FxHashSet<Vec<u8>>,
    /// DN of a parent as spelled -> the database of its children; most entries have the parent of the previous entry.
    known: FxHashMap<Box<[u8]>, usize>,
}

impl<'a> SuffixRouter<'a> {
    fn read(schema: &'a Schema, shares: &[SplitTarget]) -> Result<Self> {
        let mut found =
            Self { schema, suffixes: FxHashMap::default(), above: FxHashSet::default(), known: FxHashMap::default() };
        for (number, share) in shares.iter().enumerate() {
            for text in &share.suffixes {
                let refused =
                    |refusal: values::InvalidValue| Error::new(Code::Schema, format!("suffix {text}: {}", refusal.0));
                let dn = schema.dn(text.as_bytes()).map_err(refused)?;
                let normal = dn.normal();
                if let Some(leaf) = dn.rdns.first() {
                    found.above.insert(rest(&normal, leaf.normal.len()).to_vec());
                }
                found.suffixes.insert(normal, number);
            }
        }
        Ok(found)
    }

    fn of(&mut self, text: &[u8]) -> usize {
        let (_, above) = schema::split_leaf(text).unwrap_or((text, &[]));
        if let Some(&number) = self.known.get(above) {
            return number;
        }
        let Ok(dn) = self.schema.dn(text) else { return 0 };
        let Some(leaf) = dn.rdns.first() else { return 0 };
        let normal = dn.normal();
        let number = self.longest(&dn.rdns, &normal);
        if !self.above.contains(rest(&normal, leaf.normal.len())) {
            if self.known.len() >= PARENTS {
                self.known.clear();
            }
            self.known.insert(above.into(), number);
        }
        number
    }

    fn longest(&self, rdns: &[Rdn], normal: &[u8]) -> usize {
        let mut left = normal;
        for rdn in rdns {
            if let Some(&number) = self.suffixes.get(left) {
                return number;
            }
            left = rest(left, rdn.normal.len());
        }
        self.suffixes.get(left).copied().unwrap_or(0)
    }
}

/// Returns a normalised DN without its first RDN, which has `leaf` bytes.
fn rest(normal: &[u8], leaf: usize) -> &[u8] {
    normal.get(leaf + 1..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::schema;

    fn share(suffix: &str) -> SplitTarget {
        SplitTarget { suffixes: vec![suffix.to_owned()], path: PathBuf::new() }
    }

    #[test]
    fn the_longest_suffix_decides_whatever_is_cached() {
        let shares = [share("dc=com"), share("dc=b,dc=a,dc=com"), share("dc=a,dc=com")];
        let mut chooser = SuffixRouter::read(schema(), &shares).unwrap();
        for _ in 0..2 {
            for (dn, number) in [
                ("dc=com", 0),
                ("dc=x,dc=com", 0),
                ("DC = A , dc=com", 2),
                ("domainComponent=b,dc=a,dc=com", 1),
                ("dc=x,dc=b,dc=a,dc=com", 1),
                ("dc=y,dc=b,dc=a,dc=com", 1),
                ("dc=x,dc=a,dc=com", 2),
                ("dc=b,dc=x,dc=com", 0),
                ("dc=ba,dc=com", 0),
                ("dc=org", 0),
                ("nonsense", 0),
                ("", 0),
            ] {
                assert_eq!(chooser.of(dn.as_bytes()), number, "{dn}");
            }
        }
    }
}
