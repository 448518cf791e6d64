//! Encodes the entries that changed at the provider as the database will store them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use common::{InFile, WithCode};
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

/// Maximum number of changed entries: entry n posts its index keys at 2n before the change and 2n + 1 after it.
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
    value: (u64, usize),
}

pub struct ReceivedEntries {
    /// By entry number; entries that came again later, or were lost, are not in [`ReceivedEntries::by_uuid`].
    pub entries: Vec<ReceivedEntry>,
    pub by_uuid: FxHashMap<Uuid, usize>,
    /// Hash and text of each DN.
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

    pub fn is_live(&self, number: usize) -> bool {
        let uuid = self.entries.get(number).map(|one| one.uuid);
        uuid.is_some_and(|uuid| self.by_uuid.get(&uuid) == Some(&number))
    }
}

struct Receiver {
    arrived: ReceivedEntries,
    known: FxHashMap<Hash, u32>,
    file: BufWriter<File>,
    at: u64,
    uuid_number: u32,
}

/// Encodes all changed entries; their keys go to the encoder's postings.
pub fn receive(shared: &BuildContext<'_>, report: &SyncResult, encoder: &mut Encoder<'_>) -> Result<ReceivedEntries> {
    let path = shared.options.scratch.join("values");
    let file = File::create(&path).in_file(Some(&path))?;
    let values = File::open(&path).in_file(Some(&path))?;
    let arrived = ReceivedEntries { entries: Vec::new(), by_uuid: FxHashMap::default(), parents: Vec::new(), values };
    let uuid_number = uuid_number(shared)?;
    let (known, file) = (FxHashMap::default(), BufWriter::with_capacity(1 << 20, file));
    let mut receiver = Receiver { arrived, known, file, at: 0, uuid_number };
    let sources = report.changed.iter().cloned().map(Source::Path).collect();
    receiver.all(&Chunks::new(sources, false, shared.counters), encoder, shared.counters)?;
    receiver.file.flush()?;
    for uuid in &report.lost {
        receiver.arrived.by_uuid.remove(uuid);
    }
    Ok(receiver.arrived)
}

/// Returns the number of entryUUID in ad2i.
pub fn uuid_number(shared: &BuildContext<'_>) -> Result<u32> {
    let column = shared.columns.column(b"entryUUID");
    let column = column.with_code(Code::Schema)?;
    shared.columns.assign_number(&column).with_code(Code::Schema)
}

/// Returns the entryUUID in a value of id2e.
pub fn uuid_of(value: &[u8], number: u32) -> Result<Option<Uuid>> {
    let mut found = None;
    id2e::each(value, damaged_entry, |stored| {
        if stored.number == number {
            let bytes = stored.first_normal().and_then(|bytes| bytes.try_into().ok());
            found = bytes.map(u128::from_be_bytes);
        }
        Ok(())
    })?;
    Ok(found)
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

    #[allow(clippy::cast_possible_truncation, reason = "just looked at")]
    fn position(&self) -> Result<u32> {
        let number = self.arrived.entries.len();
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
        let value = (self.at, out.blobs.len());
        self.at += out.blobs.len() as u64;
        self.arrived.by_uuid.insert(uuid, self.arrived.entries.len());
        self.arrived.entries.push(ReceivedEntry {
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
        let all = &mut self.arrived.parents;
        *self.known.entry(parent.hash).or_insert_with(|| {
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
