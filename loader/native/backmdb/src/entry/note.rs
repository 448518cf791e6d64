//! Notes what later phases of the build need of an entry.

use ldif::Record;

use super::Encoder;
use crate::encoded::{Encoded, EncodedEntry, EntryVersion, LastRecord};
use crate::naming::HashedDn;

impl Encoder<'_> {
    /// Notes whether the entry has entryCSN and modifyTimestamp, for [`crate::encoded::TruncationChecks`].
    pub(super) fn note_marks(&self, record: &Record<'_>, dn: &[u8], out: &mut Encoded) {
        let stamped = [self.operational.csn, self.operational.modified].map(|column| self.draft.find(column).is_some());
        if record.last {
            let empty = self.draft.attributes.is_empty();
            let last = LastRecord { line: record.line, dn: dn.to_vec(), stamped, empty };
            out.marks.last = Some(last).filter(|_| !record.closed);
            return;
        }
        out.marks.records += 1;
        out.marks.stamped.iter_mut().zip(stamped).for_each(|(count, has)| *count += u64::from(has));
    }

    /// Notes the greatest entryCSN of each server ID, for [`crate::Options::write_context`].
    pub(super) fn note_csn(&self, out: &mut Encoded) {
        if !self.shared.options.write_context {
            return;
        }
        let Some(attribute) = self.draft.find(self.operational.csn) else { return };
        let Some(csn) = self.draft.normals_of(attribute).next() else { return };
        let Some(sid) = tree::csn::sid(csn) else { return };
        let newest = out.newest.entry(sid).or_default();
        if newest.as_slice() < csn {
            *newest = csn.to_vec();
        }
    }

    /// Returns the entryUUID of the current entry; 0 if it has none.
    fn uuid(&self) -> u128 {
        let attribute = self.draft.find(self.operational.uuid);
        let normal = attribute.and_then(|attribute| self.draft.normals_of(attribute).next());
        normal.and_then(|bytes| bytes.try_into().ok()).map_or(0, u128::from_be_bytes)
    }

    pub(super) fn keep(
        &mut self,
        record: &Record<'_>,
        position: u32,
        place: &HashedDn,
        above: &[u8],
        out: &mut Encoded,
    ) {
        let parent = self.parents.index(place.parent, above, position, &mut out.parents);
        let (normal, pretty) = place.names();
        out.names.extend_from_slice(normal);
        out.names.extend_from_slice(pretty);
        #[allow(clippy::cast_possible_truncation, reason = "a name has at most 1023 bytes")]
        let normal = normal.len() as u16;
        if self.shared.live {
            out.keys.push(EntryVersion { uuid: self.uuid(), csn: self.csn, newer: self.newer });
        }
        out.kept.push(EncodedEntry {
            position,
            line: record.line,
            hash: place.hash,
            parent,
            blob_end: out.blobs.len(),
            names_end: out.names.len(),
            normal,
            rows_end: out.rows.len(),
            suffix: place.suffix.is_some(),
            generated_uuid: self.generated_uuid,
        });
    }
}
