//! An entry's value in id2e, and its rows in id2v.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use codec::id2v;
use schema::ObjectClassSet;

use super::{Encoder, RejectReason};
use crate::draft::{Attribute, EntryLines, Span, ValueSpans};
use crate::encoded::{Encoded, MultivalRecord};
use codec::id2e;

/// A value that goes into id2v. number: of its attribute in ad2i.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    number: u32,
    of: Attribute,
    pair: ValueSpans,
}

impl Encoder<'_> {
    pub(super) fn store(
        &mut self,
        profile: &(u32, Arc<ObjectClassSet>),
        out: &mut Encoded,
    ) -> Result<(), RejectReason> {
        let (mut words, mut any_apart) = (0, false);
        for one in &self.draft.attributes {
            self.number(one.column, out.number)?;
            let apart = self.is_apart(one);
            words += id2e::words(one.count, apart, one.normals);
            any_apart |= apart;
        }
        let start = out.blobs.len();
        let mut writer = id2e::Writer::new(&mut out.blobs, words);
        let mut run = 0..0;
        for one in &self.draft.attributes {
            let (column, apart) = (self.lookup.get(one.column), self.is_apart(one));
            let number = column.number().unwrap_or_default();
            writer.attribute(number, column.sorted, apart, one.count, one.normals);
            if !apart {
                let pairs = self.draft.pairs_of(one);
                for pair in pairs {
                    self.piece(pair.value, &mut run, &mut writer);
                }
                for pair in pairs.iter().filter(|_| one.normals) {
                    self.piece(pair.normal, &mut run, &mut writer);
                }
            }
        }
        writer.data(&self.draft.bytes[run]);
        writer.finish(profile.1.flags);
        let most = self.shared.settings.max_entry_size;
        if most > 0 && out.blobs.len() - start > most {
            return Err(RejectReason::Entry(format!("larger than maxentrysize ({most} bytes)")));
        }
        if any_apart { self.rows(out) } else { Ok(()) }
    }

    /// Lives in id2v.
    fn is_apart(&self, one: &Attribute) -> bool {
        one.count > self.lookup.get(one.column).apart_above as usize
    }

    /// Adds a value. Pieces that follow each other, as most do, are copied as one `run`.
    #[inline]
    fn piece(&self, piece: Span, run: &mut Range<usize>, writer: &mut id2e::Writer<'_>) {
        writer.length(piece.length);
        let end = piece.at + piece.length + 1;
        if run.end == piece.at {
            run.end = end;
        } else {
            writer.data(&self.draft.bytes[std::mem::replace(run, piece.at..end)]);
        }
    }

    /// The column's number in ad2i: a new one only when all entries before have theirs.
    fn number(&self, column: usize, chunk: u64) -> Result<(), RejectReason> {
        let column = self.lookup.get(column);
        if column.number().is_none() {
            let given =
                self.shared.numbers.with(chunk, |()| self.shared.columns.assign_number(column));
            given.map_err(|given_up| RejectReason::Broken(given_up.into()))??;
        }
        Ok(())
    }

    /// id2v's rows in their order; values that are equal by their rule are one row.
    fn rows(&mut self, out: &mut Encoded) -> Result<(), RejectReason> {
        let mut apart = std::mem::take(&mut self.apart);
        apart.clear();
        for one in self.draft.attributes.iter().filter(|one| self.is_apart(one)) {
            let number = self.lookup.get(one.column).number().unwrap_or_default();
            let pairs = self.draft.pairs_of(one).iter();
            apart.extend(pairs.map(|pair| Apart { number, of: *one, pair: *pair }));
        }
        let (draft, lookup) = (&self.draft, &self.lookup);
        let compare = |left: &Apart, right: &Apart| {
            let order = lookup.get(left.of.column).order;
            let normal = |one: &Apart| draft.bytes_of(one.pair.normal);
            let normals = || order.compare(normal(left), normal(right));
            left.number.cmp(&right.number).then_with(normals)
        };
        apart.sort_by(compare);
        apart.dedup_by(|left, right| compare(left, right) == Ordering::Equal);
        for one in &apart {
            let record = row(draft, one);
            if record.len() > self.shared.longest_row {
                let text = &lookup.get(one.of.column).text;
                return Err(RejectReason::Entry(format!(
                    "{text}: a value is too long to live apart (multival)"
                )));
            }
            out.rows.push(MultivalRecord {
                column: u16::try_from(one.number).unwrap_or(u16::MAX),
                record,
            });
        }
        self.apart = apart;
        Ok(())
    }
}

/// `servers/slapd/back-mdb/id2entry.c`: the normal form first, which orders; then the value and its length.
fn row(draft: &EntryLines, one: &Apart) -> Vec<u8> {
    let normal = one.of.normals.then(|| draft.bytes_of(one.pair.normal));
    id2v::row(normal, draft.bytes_of(one.pair.value))
}
