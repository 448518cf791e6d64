//! Applies a selection: reads whole entries as LDIF, and writes the entries that the consumer stores.

use std::ops::Range;
use std::path::Path;

use common::{Code, Counters, Result, Scope, WithCode};
use ldif::walk::each_record;
use ldif::{Field, Input, Output, Record, write};
use schema::Schema;

use crate::columns::{AttributeDescriptions, SpecialAttribute};
use crate::filter::Values;
use crate::glue::Glue;
use crate::place::{ConsumerDn, DnNormaliser};
use crate::selection::Selection;

/// slapd's flag of the object class `subentry` (RFC 3672). A search returns subentries only on request.
const SUBENTRY: u32 = 0x4;
/// Text is written when it has at least this many bytes.
const CHUNK: usize = 256 * 1024;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    pub read: u64,
    /// Number of entries that the consumer stores, without glue entries.
    pub kept: u64,
    /// Number of glue entries.
    pub glue: u64,
}

/// Writes the entries that the consumer stores to `entries`, and the glue entries to `glue`, each followed by a blank
/// line. The suffix entry, in either file, gets `context_csns`; contextCSN is removed from all other entries.
pub fn select(
    paths: &[impl AsRef<Path>],
    entries: &Path,
    glue: &Path,
    selection: &Selection,
    schema: &Schema,
    context_csns: &[String],
    counters: &Counters,
) -> Result<Selected> {
    let mut stage = Stage::new(selection, schema, context_csns, entries)?;
    for path in paths {
        let path = path.as_ref();
        each_record(Input::from_path(path, counters)?, counters, |record| stage.record(record))?;
    }
    stage.finish(entries, glue, counters)
}

struct Stage<'a> {
    selection: &'a Selection,
    schema: &'a Schema,
    namer: DnNormaliser<'a>,
    glue: Glue,
    columns: AttributeDescriptions<'a>,
    /// LDIF lines with the values of contextCSN.
    context: Vec<u8>,
    out: Output,
    text: Vec<u8>,
    done: Selected,
    record: RecordInfo,
}

enum Line {
    /// The range of an unchanged line in the record.
    Copied(Range<usize>),
    /// A line whose value is a DN, rewritten for the consumer.
    Rewritten(Vec<u8>),
}

/// The parsed lines of a record.
#[derive(Default)]
struct RecordInfo {
    /// The lines of the output, each with the number of its attribute description.
    lines: Vec<(usize, Line)>,
    filtered: Vec<Vec<(schema::AttributeId, Vec<Vec<u8>>)>>,
    classes: Vec<Vec<u8>>,
    csn: Option<Vec<u8>>,
    own: [bool; 4],
}

impl<'a> Stage<'a> {
    fn new(selection: &'a Selection, schema: &'a Schema, context_csns: &[String], entries: &Path) -> Result<Self> {
        let mut context = Vec::new();
        for csn in context_csns {
            write::line(&mut context, b"contextCSN", csn.as_bytes());
        }
        Ok(Self {
            selection,
            schema,
            namer: DnNormaliser::new(schema),
            glue: Glue::new(selection.suffix.clone()),
            columns: AttributeDescriptions::new(selection, schema),
            context,
            out: Output::create(entries, 0)?,
            text: Vec::with_capacity(2 * CHUNK),
            done: Selected::default(),
            record: RecordInfo::default(),
        })
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.done.read += 1;
        let entry = record.entry()?;
        let placed = self.namer.place(&self.selection.suffixes, &entry.dn);
        if matches!(placed, Ok(None)) {
            return Ok(());
        }
        self.look(entry.fields)?;
        if !self.is_wanted() {
            return Ok(());
        }
        // An invalid DN matters only if the entry is selected.
        let Some(placed) = placed.with_code(Code::Syntax)? else { return Ok(()) };
        self.done.kept += 1;
        self.glue.above(&placed, self.record.csn.as_deref());
        self.write(record, &placed);
        if self.text.len() < CHUNK { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        self.out.write(&self.text)?;
        self.text.clear();
        Ok(())
    }

    /// Parses the lines of a record.
    fn look(&mut self, fields: ldif::fields::Fields<'_>) -> Result<()> {
        let count = self.selection.filter.as_ref().map_or(0, |filter| filter.descriptions().len());
        self.record = RecordInfo { filtered: vec![Vec::new(); count], ..RecordInfo::default() };
        for field in fields {
            let field = field?;
            let number = self.columns.number(field.description());
            self.note(number, &field)?;
            let line = if self.columns.get(number).dn {
                let (mut line, value) = (Vec::new(), field.value()?);
                write::line(&mut line, field.description(), &self.selection.suffixes.rewrite_suffix(&value));
                Line::Rewritten(line)
            } else {
                Line::Copied(field.span.clone())
            };
            self.record.lines.push((number, line));
        }
        Ok(())
    }

    fn note(&mut self, number: usize, field: &Field<'_>) -> Result<()> {
        let column = self.columns.get(number);
        match column.part {
            SpecialAttribute::Class => self.record.classes.push(field.value()?.into_owned()),
            SpecialAttribute::Csn => self.record.csn = Some(field.value()?.into_owned()),
            SpecialAttribute::Own(own) => self.record.own[own] = column.keep,
            SpecialAttribute::Other => {}
        }
        let Some(description) = column.description.as_ref().filter(|_| !column.asked.is_empty()) else {
            return Ok(());
        };
        let value = field.value()?;
        let (id, mut normal) = (description.attribute, Vec::new());
        if !self.schema.normalise(id, &value, &mut normal).with_code(Code::Syntax)? {
            normal = value.into_owned();
        }
        for &index in &column.asked {
            let attributes = &mut self.record.filtered[index];
            match attributes.iter_mut().find(|(known, _)| *known == id) {
                Some((_, values)) => values.push(normal.clone()),
                None => attributes.push((id, vec![normal.clone()])),
            }
        }
        Ok(())
    }

    fn is_wanted(&self) -> bool {
        let classes: Vec<&[u8]> = self.record.classes.iter().map(Vec::as_slice).collect();
        if self.schema.flags(&classes) & SUBENTRY != 0 && self.selection.suffixes.scope != Scope::Base {
            return false;
        }
        let values = Values(&self.record.filtered);
        let filter = self.selection.filter.as_ref();
        filter.is_none_or(|filter| filter.test(self.schema, &values) == Some(true))
    }

    /// Writes the values of each attribute together: slapd 2.6.11 to 2.6.14 corrupt entries in which they are not.
    fn write(&mut self, record: &Record<'_>, placed: &ConsumerDn) {
        write::line(&mut self.text, b"dn", &placed.dn);
        let columns = &self.columns;
        let mut lines: Vec<_> = self.record.lines.iter().filter(|(number, _)| columns.get(*number).keep).collect();
        let first = |number: usize| lines.iter().position(|(other, _)| *other == number);
        let order: Vec<_> = lines.iter().map(|(number, _)| first(*number)).collect();
        if !order.is_sorted() {
            let mut sorted: Vec<_> = order.into_iter().zip(lines).collect();
            sorted.sort_by_key(|(first, _)| *first);
            lines = sorted.into_iter().map(|(_, line)| line).collect();
        }
        for (_, line) in lines {
            let line = match line {
                Line::Copied(span) => &record.bytes[span.clone()],
                Line::Rewritten(text) => text,
            };
            self.text.extend_from_slice(line);
            if line.last() != Some(&b'\n') {
                self.text.push(b'\n');
            }
        }
        let own = self.selection.own_lines(self.record.csn.as_deref(), self.record.own);
        self.text.extend_from_slice(&own);
        if placed.normal == self.selection.suffix {
            self.text.extend_from_slice(&self.context);
        }
        self.text.push(b'\n');
    }

    fn finish(mut self, entries: &Path, glue: &Path, counters: &Counters) -> Result<Selected> {
        self.send()?;
        self.out.finish()?;
        if !self.glue.is_empty() {
            let (namer, wanted) = (&mut self.namer, &mut self.glue);
            let own = Counters::default(); // the progress of the run does not include this pass
            each_record(Input::from_path(entries, &own)?, &own, |record| {
                counters.check()?;
                wanted.present(&namer.normal(&record.entry()?.dn).with_code(Code::Syntax)?);
                Ok(())
            })?;
        }
        let mut out = Output::create(glue, 0)?;
        for (normal, missing) in self.glue.entries() {
            let mut text = missing.record();
            text.extend_from_slice(&self.selection.own_lines(missing.csn.as_deref(), [false; 4]));
            if *normal == self.selection.suffix {
                text.extend_from_slice(&self.context);
            }
            text.push(b'\n');
            out.write(&text)?;
            self.done.glue += 1;
        }
        out.finish()?;
        Ok(self.done)
    }
}
