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

/// Maximum number of cached parent DNs.
const PARENTS: usize = 4096;

/// Compression threads per output, in addition to the reading thread.
const THREADS: u32 = 1;

/// The output for one database. The first output also gets records that are below no suffix or cannot be read: the
/// build of its database reports why they are refused.
pub struct SplitTarget {
    pub suffixes: Vec<String>,
    pub path: PathBuf,
}

/// Counts of the records that were written for one database.
#[derive(Debug, Default)]
pub struct SplitCounts {
    pub entries: u64,
    /// Server ID -> greatest entryCSN.
    pub newest: BTreeMap<String, String>,
}

/// Writes each record to the file of its target. `includes`: as in [`Chunks::new`]. `claimed`: the root's DN, and the
/// contextCSN that it will get. Entries of all targets except the first lose their contextCSN; if their entryCSN is
/// newer than `claimed`, they get an older one.
pub fn split(
    sources: Vec<Source>,
    includes: bool,
    schema: &Schema,
    targets: &[SplitTarget],
    claimed: Option<(&str, &[String])>,
    counters: &Counters,
) -> Result<Vec<SplitCounts>> {
    let mut split = Split {
        router: SuffixRouter::read(schema, targets)?,
        outputs: targets.iter().map(|target| Output::create(&target.path, THREADS)).collect::<Result<_>>()?,
        stamp: claimed.map(|(root, csns)| ContextCsnStamp::new(root, csns)),
        editor: Editor::new(context_csn()),
        counts: targets.iter().map(|_| SplitCounts::default()).collect(),
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
    Ok(split.counts)
}

struct Split<'a> {
    router: SuffixRouter<'a>,
    outputs: Vec<Output>,
    stamp: Option<ContextCsnStamp>,
    editor: Editor,
    counts: Vec<SplitCounts>,
    text: Vec<u8>,
}

impl Split<'_> {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let number = record.entry().map_or(0, |entry| self.router.target(&entry.dn));
        self.note(number, record);
        self.text.clear();
        match &mut self.stamp {
            Some(stamp) if number > 0 => {
                stamp.copy(&mut self.editor, record, &mut self.text)?;
            }
            _ => {
                self.text.extend_from_slice(record.bytes);
                self.text.push(b'\n');
            }
        }
        self.outputs[number].write(&self.text)
    }

    /// Counts a record, and notes its entryCSN. The build of the database reports unreadable records.
    fn note(&mut self, number: usize, record: &Record<'_>) {
        let counts = &mut self.counts[number];
        counts.entries += 1;
        let Ok(entry) = record.entry() else { return };
        for field in entry.fields.flatten().filter(|field| field.is("entryCSN")) {
            let Ok(value) = field.value() else { continue };
            let Some(sid) = tree::csn::sid(&value) else { continue };
            let newest = counts.newest.entry(format!("{sid:03x}")).or_default();
            if newest.as_bytes() < &*value {
                *newest = String::from_utf8_lossy(&value).into_owned();
            }
        }
    }
}

/// Routes an entry to the target with the longest suffix above it.
struct SuffixRouter<'a> {
    schema: &'a Schema,
    /// Normalised suffix -> index of its target.
    suffixes: FxHashMap<Vec<u8>, usize>,
    /// Normalised parents of suffixes. Their children may belong to different targets, so they are not cached.
    above: FxHashSet<Vec<u8>>,
    /// Cache: parent's DN as LDIF spells it -> index of its children's target.
    cache: FxHashMap<Box<[u8]>, usize>,
}

impl<'a> SuffixRouter<'a> {
    fn read(schema: &'a Schema, targets: &[SplitTarget]) -> Result<Self> {
        let (mut suffixes, mut above) = (FxHashMap::default(), FxHashSet::default());
        for (number, target) in targets.iter().enumerate() {
            for text in &target.suffixes {
                let dn = schema.dn(text.as_bytes());
                let dn = dn.map_err(|refusal| Error::new(Code::Schema, format!("suffix {text}: {}", refusal.0)))?;
                let normal = dn.normal();
                if let Some(leaf) = dn.rdns.first() {
                    above.insert(rest(&normal, leaf.normal.len()).to_vec());
                }
                suffixes.insert(normal, number);
            }
        }
        Ok(Self { schema, suffixes, above, cache: FxHashMap::default() })
    }

    /// Returns the index of an entry's target; 0 if no suffix is above it.
    fn target(&mut self, text: &[u8]) -> usize {
        let (_, above) = schema::split_leaf(text).unwrap_or((text, &[]));
        if let Some(&number) = self.cache.get(above) {
            return number;
        }
        let Ok(dn) = self.schema.dn(text) else { return 0 };
        let Some(leaf) = dn.rdns.first() else { return 0 };
        let normal = dn.normal();
        let number = self.longest(&dn.rdns, &normal);
        if !self.above.contains(rest(&normal, leaf.normal.len())) {
            if self.cache.len() >= PARENTS {
                self.cache.clear();
            }
            self.cache.insert(above.into(), number);
        }
        number
    }

    fn longest(&self, rdns: &[Rdn], normal: &[u8]) -> usize {
        let mut dn = normal;
        for rdn in rdns {
            if let Some(&number) = self.suffixes.get(dn) {
                return number;
            }
            dn = rest(dn, rdn.normal.len());
        }
        self.suffixes.get(dn).copied().unwrap_or(0)
    }
}

/// Returns a normalised DN without its first RDN. `leaf`: the length of this RDN in bytes.
fn rest(normal: &[u8], leaf: usize) -> &[u8] {
    normal.get(leaf + 1..).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::schema;

    fn target(suffix: &str) -> SplitTarget {
        SplitTarget { suffixes: vec![suffix.to_owned()], path: PathBuf::new() }
    }

    #[test]
    fn the_longest_suffix_decides_whatever_is_cached() {
        let targets = [target("dc=com"), target("dc=b,dc=a,dc=com"), target("dc=a,dc=com")];
        let mut router = SuffixRouter::read(schema(), &targets).unwrap();
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
                assert_eq!(router.target(dn.as_bytes()), number, "{dn}");
            }
        }
    }
}
