//! Adds missing operational attributes as slapadd does (`servers/slapd/slapadd.c`), but reproducibly: the entryUUID is
//! computed from the DN and the time of the build, the entryCSN from that time and the entry's position.

use schema::{Dn, Schema};
use values::InvalidValue;
use xxhash_rust::xxh3::xxh3_128;

use values::uuid::spelled;

use crate::Settings;
use crate::draft::{EntryLines, ValueSpans};
use crate::encoded::Hash;
use crate::lookup::Lookup;
use crate::shared::BuildContext;

pub struct Operational {
    /// The columns of the attributes.
    pub uuid: usize,
    creator: usize,
    created: usize,
    pub csn: usize,
    modifier: usize,
    pub modified: usize,
    /// Pretty and normalised DN of the creator.
    name: (Vec<u8>, Vec<u8>),
    /// Time of the build, in the format of createTimestamp.
    now: String,
    /// A CSN in which microseconds and count are 0.
    csn_pattern: Vec<u8>,
    /// The number of the entryCSN that is generated for position 0.
    first: u64,
}

impl Operational {
    pub fn new(shared: &BuildContext<'_>, lookup: &mut Lookup<'_>) -> Result<Self, InvalidValue> {
        let name = Self::creator(shared.schema, shared.settings)?;
        let (now, sid) = (shared.options.now.clone(), shared.settings.server_id);
        Ok(Self {
            uuid: lookup.column(b"entryUUID")?,
            creator: lookup.column(b"creatorsName")?,
            created: lookup.column(b"createTimestamp")?,
            csn: lookup.column(b"entryCSN")?,
            modifier: lookup.column(b"modifiersName")?,
            modified: lookup.column(b"modifyTimestamp")?,
            name: (name.pretty(), name.normal()),
            csn_pattern: csn_pattern(&now, sid),
            first: shared.options.first,
            now,
        })
    }

    /// Returns the DN for creatorsName and modifiersName of entries that lack them. Without rootdn it is the empty DN
    /// (`SLAPD_ANONYMOUS` in `servers/slapd/slap.h`).
    pub fn creator(schema: &Schema, settings: &Settings) -> Result<Dn, InvalidValue> {
        schema.dn(settings.root_dn.as_deref().unwrap_or_default().as_bytes())
    }

    /// Adds missing attributes in slapadd's order. Returns true if the entry had no entryUUID.
    pub fn complete(&self, draft: &mut EntryLines, hash: Hash, position: u32) -> bool {
        let generated_uuid = draft.find(self.uuid).is_none();
        if generated_uuid {
            self.add_uuid(draft, hash);
        }
        self.add_name(draft, self.creator);
        self.add_time(draft, self.created);
        if draft.find(self.csn).is_none() {
            self.add_csn(draft, position);
        }
        self.add_name(draft, self.modifier);
        self.add_time(draft, self.modified);
        generated_uuid
    }

    fn add_uuid(&self, draft: &mut EntryLines, hash: Hash) {
        let seed = [&hash[0].to_le_bytes()[..], &hash[1].to_le_bytes(), self.now.as_bytes()].concat();
        let bits = uuid(&seed);
        let pair = draft.add_pair(&spelled(bits), &bits.to_be_bytes());
        draft.add_line(self.uuid, pair, true);
    }

    fn add_name(&self, draft: &mut EntryLines, column: usize) {
        if draft.find(column).is_none() {
            let pair = draft.add_pair(&self.name.0, &self.name.1);
            draft.add_line(column, pair, true);
        }
    }

    fn add_time(&self, draft: &mut EntryLines, column: usize) {
        if draft.find(column).is_none() {
            let value = draft.add_bytes(self.now.as_bytes());
            draft.add_line(column, ValueSpans { value, normal: value }, false);
        }
    }

    fn add_csn(&self, draft: &mut EntryLines, position: u32) {
        let number = self.first + u64::from(position);
        let value = draft.add_bytes(&self.csn_pattern);
        number_csn(&mut draft.bytes[value.at..], number);
        draft.add_line(self.csn, ValueSpans { value, normal: value }, false);
    }
}

/// Returns a UUID derived from `seed`.
pub fn uuid(seed: &[u8]) -> u128 {
    // Version 8 (RFC 9562): a vendor-specific value.
    xxh3_128(seed) & !((0xf000 << 64) | (0xc000 << 48)) | (0x8000 << 64) | (0x8000 << 48)
}

/// Returns a CSN in which microseconds and count are 0. `now`: a time in the format of createTimestamp.
pub fn csn_pattern(now: &str, server_id: u16) -> Vec<u8> {
    let seconds = now.trim_end_matches('Z');
    format!("{seconds}.000000Z#000000#{server_id:03x}#000000").into_bytes()
}

/// Returns `pattern` (see [`csn_pattern`]) with the low 24 bits of `number` as count and the rest as microseconds.
pub fn csn_at(pattern: &[u8], number: u64) -> Vec<u8> {
    let mut text = pattern.to_vec();
    number_csn(&mut text, number);
    text
}

fn number_csn(text: &mut [u8], number: u64) {
    let (micros, count) = (number >> 24, number & 0xff_ffff);
    let at = "20260101000000.".len();
    digits(&mut text[at..at + 6], micros, 10);
    digits(&mut text[at + 8..at + 14], count, 16);
}

/// Fills `text` with the last digits of a number.
#[allow(clippy::cast_possible_truncation, reason = "less than the base")]
fn digits(text: &mut [u8], mut number: u64, base: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
    }
}
