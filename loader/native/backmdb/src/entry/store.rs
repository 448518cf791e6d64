//! Stores an entry's value in id2e and its rows in id2v.

use std::cmp::Ordering;

use codec::id2v;

use super::{Encoder, RejectReason};
use crate::checks::Profile;
use crate::draft::{Attribute, Shape, ValueSpans};
use crate::encoded::{Encoded, MultivalRecord};
use codec::id2e;

/// A value that is stored in id2v.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// The attribute's number in ad2i.
    number: u32,
    of: Attribute,
    pair: ValueSpans,
}

/// The layout of the values of all entries with the same shape.
#[derive(Default)]
pub(super) struct StoredLayout {
    shape: Shape,
    /// All bytes before the values, with lengths and flags set to 0.
    head: Vec<u8>,
    /// The parts of the draft that are copied after the head, in order.
    pieces: Vec<Piece>,
    /// Some values are stored in id2v.
    any_apart: bool,
}

/// A part of the draft that is copied at once.
#[derive(Debug)]
struct Piece {
    /// Index in `EntryLines::pairs`.
    pair: usize,
    part: Part,
    /// Index of the word in the head for the piece's length; [`Part::Both`] has a second length in the next word.
    word: usize,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Value,
    Normal,
    /// A value followed by its normal form.
    Both,
}

impl Encoder<'_> {
    pub(super) fn store(&mut self, profile: &Profile, out: &mut Encoded) -> Result<(), RejectReason> {
        if !self.layout.shape.is_of(&self.draft) {
            self.lay_out(out.number)?;
        }
        let (draft, layout, blobs) = (&self.draft, &self.layout, &mut out.blobs);
        let start = blobs.len();
        blobs.extend_from_slice(&layout.head);
        let mut run = 0..0;
        for piece in &layout.pieces {
            let pair = &draft.pairs[piece.pair];
            let head = &mut blobs[start..];
            let (first, last) = match piece.part {
                Part::Value => (pair.value, pair.value),
                Part::Normal => (pair.normal, pair.normal),
                Part::Both => (pair.value, pair.normal),
            };
            id2e::put_length(head, piece.word, first.length);
            if let Part::Both = piece.part {
                id2e::put_length(head, piece.word + 1, last.length);
            }
            // Adjacent pieces are copied at once. Most pieces are adjacent.
            let end = last.at + last.length + 1;
            if run.end == first.at {
                run.end = end;
            } else {
                blobs.extend_from_slice(&draft.bytes[std::mem::replace(&mut run, first.at..end)]);
            }
        }
        blobs.extend_from_slice(&draft.bytes[run]);
        id2e::end(blobs, start, profile.1.flags);
        let most = self.shared.settings.max_entry_size;
        if most > 0 && out.blobs.len() - start > most {
            return Err(RejectReason::Entry(format!("larger than maxentrysize ({most} bytes)")));
        }
        if self.layout.any_apart { self.rows(out) } else { Ok(()) }
    }

    /// Returns true if the values are stored in id2v.
    fn is_apart(&self, one: &Attribute) -> bool {
        one.count > self.lookup.get(one.column).apart_above as usize
    }

    /// Computes the layout for entries of this shape.
    fn lay_out(&mut self, chunk: u64) -> Result<(), RejectReason> {
        let mut layout = std::mem::take(&mut self.layout);
        (layout.shape, layout.any_apart) = (Shape::default(), false);
        layout.head.clear();
        layout.pieces.clear();
        let apart = |one: &Attribute| self.is_apart(one);
        let words = |one: &Attribute| id2e::words(one.count, apart(one), one.normals);
        let words = self.draft.attributes.iter().map(words).sum();
        let mut writer = id2e::Writer::new(&mut layout.head, words);
        for one in &self.draft.attributes {
            self.number(one.column, chunk)?;
            let (column, apart) = (self.lookup.get(one.column), self.is_apart(one));
            let number = column.number().unwrap_or_default();
            writer.attribute(number, column.sorted, apart, one.count, one.normals);
            layout.any_apart |= apart;
            let parts = match (one.normals, one.count) {
                _ if apart => &[][..],
                (false, _) => &[Part::Value],
                (true, 1) => &[Part::Both],
                (true, _) => &[Part::Value, Part::Normal],
            };
            for &part in parts {
                for pair in one.first..one.first + one.count {
                    layout.pieces.push(Piece { pair, part, word: writer.length(0) });
                    if let Part::Both = part {
                        writer.length(0);
                    }
                }
            }
        }
        writer.finish(0);
        layout.head.truncate(id2e::head_size(words));
        layout.shape.keep(&self.draft);
        self.layout = layout;
        Ok(())
    }

    /// Makes sure that the column has a number in ad2i. A new number is assigned only after all previous chunks have
    /// their numbers.
    fn number(&self, column: usize, chunk: u64) -> Result<(), RejectReason> {
        let column = self.lookup.get(column);
        if column.number().is_none() {
            let given = self.shared.numbers.with(chunk, |()| self.shared.columns.assign_number(column));
            given.map_err(|given_up| RejectReason::Broken(given_up.into()))??;
        }
        Ok(())
    }

    /// Appends the rows for id2v in order. Values that are equal by their equality rule become one row.
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
        for value in &apart {
            let normal = value.of.normals.then(|| draft.bytes_of(value.pair.normal));
            let record = id2v::row(normal, draft.bytes_of(value.pair.value));
            if record.len() > self.shared.longest_row {
                let text = &lookup.get(value.of.column).text;
                return Err(RejectReason::Entry(format!("{text}: a value is too long for id2v (multival)")));
            }
            out.rows.push(MultivalRecord { column: u16::try_from(value.number).unwrap_or(u16::MAX), record });
        }
        self.apart = apart;
        Ok(())
    }
}
