//! Encodes the changed entries of the provider as the database will store them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use common::InFile;
use ldif::records::Records;
use ldif::{Counters, Record};
use rustc_hash::FxHashMap;

use super::{SyncResult, Uuid};
use crate::chunks::Chunks;
use crate::encoded::{Encoded, Hash};
use crate::entry::{Encoder, RejectReason};
use crate::shared::BuildContext;
use crate::{Code, Error, Result, Source, damaged_entry};
use codec::id2e;

/// Maximum number of changed entries. The positions of the index keys have 32 bits: the keys that entry n had before
/// the change have position 2n, its new keys have position 2n + 1.
const MOST: usize = 1 << 30;

/// A changed entry, with its RDN in normalised and pretty form.
pub struct ReceivedEntry {
    pub uuid: Uuid,
    pub hash: Hash,
    /// Index into [`ReceivedEntries::parents`].
    pub parent: u32,
    pub normal: Box<[u8]>,
    pub pretty: Box<[u8]>,
    pub suffix: bool,
    /// Offset and length of the value in [`ReceivedEntries::values`].
    value: (u64, usize),
}

pub struct ReceivedEntries {
    /// Indexed by entry number.
    pub entries: Vec<ReceivedEntry>,
    /// Entry numbers, without lost entries and without copies of an entry that came again later.
    pub by_uuid: FxHashMap<Uuid, usize>,
    /// Hash and text of each parent's DN.
    pub parents: Vec<(Hash, Box<[u8]>)>,
    values: File,
}

impl ReceivedEntries {
    /// Returns the value of an entry for id2e.
    pub fn value(&self, number: usize) -> Result<Vec<u8>> {
        let (at, length) = self.entries[number].value;
        let mut value = vec![0; length];
        self.values.read_exact_at(&mut value, at)?;
        Ok(value)
    }

    /// Returns false for a lost entry, and for a copy of an entry that came again later.
    pub fn is_live(&self, number: usize) -> bool {
        self.by_uuid.get(&self.entries[number].uuid) == Some(&number)
    }
}

struct Receiver {
    received: ReceivedEntries,
    /// Indexes of parents by the hashes of their DNs.
    parents: FxHashMap<Hash, u32>,
    file: BufWriter<File>,
    /// Bytes in `file`.
    size: u64,
    uuid_number: u32,
}

/// Encodes all changed entries; their keys go to the encoder's postings.
pub fn receive(shared: &BuildContext<'_>, report: &SyncResult, encoder: &mut Encoder<'_>) -> Result<ReceivedEntries> {
    let path = shared.options.scratch.join("values");
    let file = File::create(&path).in_file(Some(&path))?;
    let values = File::open(&path).in_file(Some(&path))?;
    let received = ReceivedEntries { entries: Vec::new(), by_uuid: FxHashMap::default(), parents: Vec::new(), values };
    let uuid_number = shared.columns.number_of(b"entryUUID")?;
    let (parents, file) = (FxHashMap::default(), BufWriter::with_capacity(1 << 20, file));
    let mut task = Receiver { received, parents, file, size: 0, uuid_number };
    let sources = report.changed.iter().cloned().map(Source::Path).collect();
    task.all(&Chunks::new(sources, false, shared.counters), encoder, shared.counters)?;
    task.file.flush()?;
    for uuid in &report.lost {
        task.received.by_uuid.remove(uuid);
    }
    Ok(task.received)
}

/// Returns the entryUUID in a value of id2e. `number`: the number of the attribute entryUUID in ad2i.
pub fn uuid_of(value: &[u8], number: u32) -> Result<Option<Uuid>> {
    let mut uuid = None;
    id2e::each(value, damaged_entry, |stored| {
        if stored.number == number {
            let bytes = stored.first_normal().and_then(|bytes| bytes.try_into().ok());
            uuid = bytes.map(u128::from_be_bytes);
        }
        Ok(())
    })?;
    Ok(uuid)
}

impl Receiver {
    fn all(&mut self, chunks: &Chunks<'_>, encoder: &mut Encoder<'_>, counters: &Counters) -> Result<()> {
        let (mut buffer, mut out) = (Vec::new(), Encoded::default());
        while let Some(chunk) = chunks.next(std::mem::take(&mut buffer))? {
            for record in Records::new(&chunk.block()) {
                out.clear();
                encoder.parents.clear();
                let record = record.in_file(chunk.path.as_deref())?;
                let position = self.position()?;
                encoder.encode(&record, position, &mut out).map_err(|refused| refusal(&record, refused))?;
                self.keep(&out)?;
            }
            counters.add(0, chunk.bytes.len() as u64);
            encoder.postings.finish_index()?;
            buffer = chunk.bytes;
        }
        Ok(())
    }

    /// Returns the position of the next entry's new index keys.
    #[allow(clippy::cast_possible_truncation, reason = "the number is below 2^30")]
    fn position(&self) -> Result<u32> {
        let number = self.received.entries.len();
        if number >= MOST {
            return Err(Error::new(Code::TooMany, "more than 2^30 entries changed"));
        }
        Ok(2 * number as u32 + 1)
    }

    fn keep(&mut self, out: &Encoded) -> Result<()> {
        let Some(kept) = out.kept.first() else { return Ok(()) };
        let uuid = uuid_of(&out.blobs, self.uuid_number)?;
        let uuid = uuid.ok_or_else(|| Error::new(Code::Schema, "an entry without entryUUID"))?;
        let (normal, pretty) = out.names.split_at(usize::from(kept.normal));
        let parent = self.parent(out, kept.parent);
        self.file.write_all(&out.blobs)?;
        let value = (self.size, out.blobs.len());
        self.size += out.blobs.len() as u64;
        self.received.by_uuid.insert(uuid, self.received.entries.len());
        self.received.entries.push(ReceivedEntry {
            uuid,
            hash: kept.hash,
            parent,
            normal: normal.into(),
            pretty: pretty.into(),
            suffix: kept.suffix,
            value,
        });
        Ok(())
    }

    fn parent(&mut self, out: &Encoded, index: u32) -> u32 {
        let parent = &out.parents[index as usize];
        let all = &mut self.received.parents;
        *self.parents.entry(parent.hash).or_insert_with(|| {
            all.push((parent.hash, parent.text.clone()));
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

fn refusal(record: &Record<'_>, refused: RejectReason) -> Error {
    match refused {
        RejectReason::Broken(error) => error,
        RejectReason::Entry(reason) => {
            let dn = record.entry().map(|entry| String::from_utf8_lossy(&entry.dn).into_owned());
            let error = Error::new(Code::Rejected, reason);
            Error { dn: dn.ok(), ..error }
        }
    }
}
