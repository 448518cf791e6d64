//! A worker takes chunks and encodes their entries; it reuses its memory from chunk to chunk.

use std::path::PathBuf;
use std::sync::Arc;

use common::{InFile, WithCode};
use ldif::records::Records;
use ldif::{Record, tail};

use crate::chunks::{Chunk, Chunks};
use crate::encoded::{Encoded, Rejection};
use crate::entry::{Encoder, RejectReason, in_line};
use crate::shared::BuildContext;
use crate::{Code, Error, Result, positions};

/// The position of the entry of the empty DN, if it is rejected.
const NOWHERE: u32 = u32::MAX;

pub struct Worker<'a, 'c> {
    chunks: &'a Chunks<'c>,
    shared: &'a BuildContext<'a>,
    encoder: Encoder<'a>,
    path: Option<Arc<PathBuf>>,
}

impl<'a, 'c> Worker<'a, 'c> {
    pub fn new(chunks: &'a Chunks<'c>, shared: &'a BuildContext<'a>, postings: extsort::Writer) -> Result<Self> {
        let encoder = Encoder::new(shared, postings).with_code(Code::Schema)?;
        Ok(Self { chunks, shared, encoder, path: None })
    }

    /// Encodes the next chunk into `out`; returns false at the end of the input.
    pub fn next(&mut self, buffer: &mut Vec<u8>, out: &mut Encoded) -> Result<bool> {
        let Some(chunk) = self.chunks.next(std::mem::take(buffer))? else {
            return Ok(false);
        };
        out.clear();
        let result = self.chunk(&chunk, out).in_file(chunk.path.as_deref());
        *buffer = chunk.bytes;
        result.map(|()| true)
    }

    fn chunk(&mut self, chunk: &Chunk, out: &mut Encoded) -> Result<()> {
        let block = chunk.block();
        let records = Records::new(&block).refusing_version(self.shared.options.as_slapadd);
        let records: Vec<Record<'_>> = records.collect::<Result<_>>()?;
        let (root, below) = records.split_at(usize::from(self.begins_at_root(chunk, &records)));
        let first = self.first_position(chunk.number, below.len() as u64)?;
        (out.number, out.path) = (chunk.number, self.path_of(chunk));
        out.ends_input = chunk.last;
        (out.records, out.bytes) = (records.len() as u64, chunk.bytes.len() as u64);
        let open_ends = self.shared.counters.open_ends();
        let open_end = chunk.path.as_ref().is_some_and(|path| open_ends.contains(path));
        self.encoder.parents.clear();
        for record in root {
            out.unplaced = 1;
            let encoded = self.encoder.encode_root(record, out);
            note_rejection(encoded, record, open_end, NOWHERE, out)?;
        }
        for (position, record) in (first..).zip(below) {
            let (blobs, rows) = (out.blobs.len(), out.rows.len());
            let encoded = self.encoder.encode(record, position, out);
            if encoded.is_err() {
                out.blobs.truncate(blobs);
                out.rows.truncate(rows);
            }
            note_rejection(encoded, record, open_end, position, out)?;
        }
        self.encoder.postings.finish_index()?;
        self.shared.numbers.pass(chunk.number)?;
        self.shared.counters.add(out.records, out.bytes);
        Ok(())
    }

    fn first_position(&self, chunk: u64, records: u64) -> Result<u32> {
        let first = self.shared.positions.with(chunk, |count| positions::take(count, records))?;
        self.shared.positions.pass(chunk)?;
        first
    }

    fn path_of(&mut self, chunk: &Chunk) -> Option<Arc<PathBuf>> {
        if self.path.as_deref() != chunk.path.as_ref() {
            self.path = chunk.path.clone().map(Arc::new);
        }
        self.path.clone()
    }

    /// Returns true if the input begins with the entry of the empty DN and the database has the empty suffix.
    fn begins_at_root(&self, chunk: &Chunk, records: &[Record<'_>]) -> bool {
        let is_root = |record: &Record<'_>| record.entry().is_ok_and(|entry| entry.dn.is_empty());
        chunk.number == 0 && self.shared.suffixes.has_empty() && records.first().is_some_and(is_root)
    }
}

/// Adds a rejection if the entry was refused. `open_end`: the last line of the record's file has no newline.
fn note_rejection(
    encoded: std::result::Result<(), RejectReason>,
    record: &Record<'_>,
    open_end: bool,
    position: u32,
    out: &mut Encoded,
) -> Result<()> {
    match encoded {
        Ok(()) => Ok(()),
        Err(RejectReason::Broken(error)) => Err(error.at(record.line)),
        Err(RejectReason::Entry(reason)) => {
            if tail::is_cut(record, open_end) {
                let error = Error::new(Code::Truncated, "the last record is incomplete");
                out.marks.cut = Some(error.at(record.line));
            }
            let dn = record.entry().map(|entry| String::from_utf8_lossy(&entry.dn).into_owned());
            out.rejections.push(Rejection {
                position,
                path: out.path.clone(),
                line: record.line,
                dn: dn.unwrap_or_default(),
                reason: syntax_error(record).unwrap_or(reason),
                orphan: false,
                missing: None,
                text: record.bytes.to_vec(),
            });
            Ok(())
        }
    }
}

/// Returns the first syntax error in the record's lines, which may be the cause of its other errors.
fn syntax_error(record: &Record<'_>) -> Option<String> {
    let error = record.entry().ok()?.fields.find_map(Result::err)?;
    (error.code == Code::Syntax).then(|| in_line(error).message)
}
