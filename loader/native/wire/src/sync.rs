//! Content synchronization (RFC 4533), refreshOnly mode: changes and deletions since a cookie.
//!
//! A provider reports either the deleted entries, or all entries that still exist: changed entries in full, unchanged
//! entries by their entryUUID.

use std::path::{Path, PathBuf};

use common::Counters;
use extsort::TupleSorter;
use ldif::Output;
use tree::Names;

use crate::ber::{OCTETS, Reader, SET, Writer};
use crate::message::{Message, tag};
use crate::search::write;
use crate::{Channel, Error, Recorder, Result, Search, filter};

pub(crate) const REQUEST: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.1";
const STATE: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.2";
const DONE: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.3";
const INFO: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.4";

const REFRESH_ONLY: i32 = 1;
/// The choice `syncIdSet` of a Sync Info message.
const ID_SET: u8 = 0xa3;
/// Two of the states of an entry (RFC 4533, 2.2).
const PRESENT: i32 = 0;
const DELETE: i32 = 3;

/// Bytes of memory for sorting the provider's entryUUIDs. Beyond that, a temporary file is used.
const SORT_MEMORY: usize = 64 << 20;

/// Output files: LDIF in `changed`; entryUUIDs of 16 bytes each in `present` and `deleted`.
#[derive(Debug, Clone)]
pub struct Files {
    pub changed: PathBuf,
    pub present: PathBuf,
    pub deleted: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// Number of entries that were received in full.
    pub entries: u64,
    pub present: u64,
    pub deleted: u64,
    /// entryUUIDs that the provider reported more than once for existing entries.
    pub repeated: Vec<Vec<u8>>,
    /// The cookie for the next refresh; `None` if it has not changed.
    pub cookie: Option<Vec<u8>>,
    /// Whether the provider reported all entries that exist. Entries that it neither sent nor listed were then deleted.
    pub names_present: bool,
    /// Whether there were more than `most` entries. The rest is then not read, and the channel is unusable.
    pub cut: bool,
}

/// Requests the changes to the result of `query` since `cookie`. At most `most` entries are received in full.
pub fn sync(
    channel: &mut Channel,
    query: &Search,
    cookie: &[u8],
    most: u64,
    files: &Files,
    drop: Names,
    counters: &Counters,
) -> Result<SyncCounts> {
    let (id, mut request) = (channel.next_id(), Writer::default());
    let filter = filter::encode(&query.filter)?;
    let mut value = Writer::default();
    value.sequence(|value| {
        value.enumerated(REFRESH_ONLY);
        value.octets(cookie);
    });
    write(&mut request, id, query, &filter, &[], Some(value.bytes()));
    let mut receiver = SyncReceiver::new(files, drop, counters)?;
    channel.gather(true);
    channel.send(request.bytes())?;
    loop {
        let message = channel.receive()?;
        match message.tag {
            _ if message.id != id => {}
            tag::ENTRY => receiver.entry(&message, counters)?,
            tag::INTERMEDIATE => receiver.info(&message, counters)?,
            tag::REFERENCE => {}
            tag::DONE => {
                message.result()?.check()?;
                receiver.done(&message)?;
                break;
            }
            other => return Err(Error::protocol(format!("{other:#04x} answers a search"))),
        }
        if receiver.synced.entries > most {
            receiver.synced.cut = true;
            break;
        }
    }
    channel.gather(false);
    receiver.finish()
}

struct SyncReceiver {
    changed: Output,
    present: Output,
    deleted: Output,
    /// entryUUIDs of the entries that exist at the provider.
    met: TupleSorter<u128>,
    recorder: Recorder,
    text: Vec<u8>,
    synced: SyncCounts,
}

impl SyncReceiver {
    fn new(files: &Files, drop: Names, counters: &Counters) -> Result<Self> {
        let scratch = files.present.parent().unwrap_or(Path::new("."));
        let create = |path: &Path| Output::create(path, 0);
        Ok(Self {
            changed: create(&files.changed)?,
            present: create(&files.present)?,
            deleted: create(&files.deleted)?,
            met: TupleSorter::new(SORT_MEMORY, 1, scratch, counters.flag()),
            recorder: Recorder::new(drop),
            text: Vec::new(),
            synced: SyncCounts::default(),
        })
    }

    fn entry(&mut self, message: &Message<'_>, counters: &Counters) -> Result<()> {
        let missing = || Error::protocol("an entry without the Sync State control");
        let mut value = Reader::new(message.control(STATE)?.ok_or_else(missing)?).sequence()?;
        let (state, uuid) = (value.enumerated()?, value.octets()?);
        match state {
            PRESENT => self.named(uuid, false, counters),
            DELETE => self.named(uuid, true, counters),
            _ => {
                self.met.push(number(uuid)?)?;
                self.text.clear();
                self.recorder.record(&message.entry()?, &mut self.text)?;
                self.changed.write(&self.text)?;
                self.synced.entries += 1;
                counters.add(1, self.text.len() as u64);
                Ok(())
            }
        }
    }

    fn named(&mut self, uuid: &[u8], deleted: bool, counters: &Counters) -> Result<()> {
        let number = number(uuid)?;
        let (output, count) = if deleted {
            (&mut self.deleted, &mut self.synced.deleted)
        } else {
            self.met.push(number)?;
            (&mut self.present, &mut self.synced.present)
        };
        output.write(uuid)?;
        *count += 1;
        counters.add(1, 0);
        Ok(())
    }

    /// Reads sets of entryUUIDs. Other Sync Info messages belong to the persist stage and are ignored.
    fn info(&mut self, message: &Message<'_>, counters: &Counters) -> Result<()> {
        let mut value = Reader::new(message.intermediate(INFO)?.unwrap_or_default());
        let Some(set) = value.optional(ID_SET)? else { return Ok(()) };
        let mut set = Reader::new(set);
        set.optional(OCTETS)?;
        let deleted = set.boolean()?;
        let mut uuids = Reader::new(set.expect(SET)?);
        while !uuids.is_at_end() {
            self.named(uuids.octets()?, deleted, counters)?;
        }
        Ok(())
    }

    fn done(&mut self, message: &Message<'_>) -> Result<()> {
        let missing = || Error::protocol("a synchronization ended without the Sync Done control");
        let mut value = Reader::new(message.control(DONE)?.ok_or_else(missing)?).sequence()?;
        self.synced.cookie = value.optional(OCTETS)?.map(<[u8]>::to_vec);
        self.synced.names_present = !value.boolean()?;
        Ok(())
    }

    fn finish(mut self) -> Result<SyncCounts> {
        for output in [self.changed, self.present, self.deleted] {
            output.finish()?;
        }
        let (mut before, repeated) = (None, &mut self.synced.repeated);
        for uuid in self.met.finish()? {
            let uuid = uuid?.to_be_bytes();
            if before.replace(uuid) == Some(uuid) {
                repeated.push(uuid.to_vec());
            }
        }
        repeated.dedup();
        Ok(self.synced)
    }
}

fn number(uuid: &[u8]) -> Result<u128> {
    let wrong = |_| Error::protocol("an entryUUID that is not 16 bytes long");
    uuid.try_into().map(u128::from_be_bytes).map_err(wrong)
}
