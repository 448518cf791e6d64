//! The stage: whole LDIF in, what the consumer holds of it out.

use std::ops::Range;
use std::path::Path;

use ldif::walk::each_record;
use ldif::{Code, Counters, Error, Field, Input, Output, Record, Result, write};
use rustc_hash::FxHashMap;
use schema::{Description, Schema};
use values::Refusal;

use crate::attributes::{Attributes, Listed, is_of};
use crate::filter::{Filter, Truth, Values};
use crate::glue::Glue;
use crate::place::{Namer, Scope, Suffixes};

/// RFC 4517, 3.3.9.
const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";
/// slapd's flag of the object class `subentry` (RFC 3672), which no search shows unless it asks for it.
const SUBENTRY: u32 = 0x4;
/// Written at once.
const CHUNK: usize = 256 * 1024;

/// What the consumer is configured to do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Of the consumer's database.
    pub suffix: String,
    pub root_dn: Option<String>,
    /// `lastmod`: entries get the operational attributes they lack.
    pub last_mod: bool,
    pub base: String,
    pub scope: Scope,
    /// None: the provider has evaluated it.
    pub filter: Option<String>,
    pub listed: Listed,
    pub massage: Option<String>,
}

/// The configuration, understood by a schema.
#[derive(Debug)]
pub struct Selection {
    filter: Option<Filter>,
    attributes: Attributes,
    suffixes: Suffixes,
    suffix: Vec<u8>,
    scope: Scope,
    /// creatorsName and modifiersName of entries that come without.
    root_dn: Option<Vec<u8>>,
}

impl Selection {
    /// Refuses what is not known to come out as slapd's consumer would have it.
    pub fn read(settings: &Settings, schema: &Schema) -> std::result::Result<Self, Refusal> {
        let filter = settings.filter.as_deref();
        let root_dn = settings.root_dn.as_deref().filter(|_| settings.last_mod);
        Ok(Self {
            filter: filter.map(|text| Filter::read(text, schema)).transpose()?,
            attributes: Attributes::read(&settings.listed, schema)?,
            suffixes: Suffixes::read(
                &settings.base,
                settings.scope,
                settings.massage.as_deref(),
                schema,
            )?,
            suffix: schema.dn(settings.suffix.as_bytes())?.normal(),
            scope: settings.scope,
            root_dn: root_dn
                .map(|text| schema.dn(text.as_bytes()).map(|dn| dn.pretty()))
                .transpose()?,
        })
    }

    /// The attributes to ask the provider for.
    pub fn request(&self) -> Vec<String> {
        self.attributes.request()
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Selected {
    pub read: u64,
    /// Of those read.
    pub selected: u64,
    /// Made for ancestors that are not selected; not among those.
    pub glue: u64,
}

/// Writes the entries that the consumer holds to `entries`, those that it makes besides to `glue`, a blank line after
/// each. The entry of the suffix gets `context_csns`, whichever it is, and no other any.
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
        each_record(Input::from_path(path)?, counters, |record| stage.record(record))?;
    }
    stage.finish(entries, glue, counters)
}

/// What is known of an attribute description as it is spelled.
#[derive(Debug)]
struct Column {
    description: Option<Description>,
    keep: bool,
    /// Values are DNs, which `suffixmassage` rewrites.
    dn: bool,
    /// Numbers of the descriptions that the filter asks of, which this one is of.
    asked: Vec<usize>,
    part: Part,
}

/// Attributes that the stage itself looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Class,
    Csn,
    /// One of `OWN`.
    Own(usize),
    Other,
}

/// What slapd's consumer adds to entries that come without (`slap_add_opattrs`).
const OWN: [&str; 4] = ["creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp"];

struct Stage<'a> {
    selection: &'a Selection,
    schema: &'a Schema,
    namer: Namer<'a>,
    glue: Glue,
    columns: Vec<Column>,
    spelled: FxHashMap<Box<[u8]>, usize>,
    /// Lines of contextCSN.
    context: Vec<u8>,
    out: Output,
    text: Vec<u8>,
    done: Selected,
    found: Found,
}

#[derive(Debug)]
enum Line {
    /// As it stands in the record.
    Given(Range<usize>),
    Made(Vec<u8>),
}

/// What a record holds.
#[derive(Debug, Default)]
struct Found {
    /// The column of each line, and the line.
    lines: Vec<(usize, Line)>,
    asked: Vec<Vec<(schema::AttributeId, Vec<Vec<u8>>)>>,
    classes: Vec<Vec<u8>>,
    csn: Option<Vec<u8>>,
    own: [bool; 4],
}

impl<'a> Stage<'a> {
    fn new(
        selection: &'a Selection,
        schema: &'a Schema,
        context_csns: &[String],
        entries: &Path,
    ) -> Result<Self> {
        let mut context = Vec::new();
        for csn in context_csns {
            write::line(&mut context, b"contextCSN", csn.as_bytes());
        }
        Ok(Self {
            selection,
            schema,
            namer: Namer::new(schema),
            glue: Glue::new(selection.suffix.clone()),
            columns: Vec::new(),
            spelled: FxHashMap::default(),
            context,
            out: Output::create(entries, 0)?,
            text: Vec::with_capacity(2 * CHUNK),
            done: Selected::default(),
            found: Found::default(),
        })
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.done.read += 1;
        let entry = record.entry()?;
        let placed = self.namer.place(&self.selection.suffixes, &entry.dn);
        let Some((normal, dn)) = placed.map_err(refused)? else { return Ok(()) };
        self.look(entry.fields)?;
        if !self.is_wanted() {
            return Ok(());
        }
        self.done.selected += 1;
        self.glue.above(&normal, &dn, self.found.csn.as_deref());
        self.write(record, &normal, &dn)?;
        if self.text.len() < CHUNK { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<()> {
        self.out.write(&self.text)?;
        self.text.clear();
        Ok(())
    }

    /// Notes what of the record's lines counts.
    fn look(&mut self, fields: ldif::fields::Fields<'_>) -> Result<()> {
        let asked = self.selection.filter.as_ref().map_or(0, |filter| filter.asked().len());
        self.found = Found { asked: vec![Vec::new(); asked], ..Found::default() };
        for field in fields {
            let field = field?;
            let number = self.column(&field);
            self.note(number, &field)?;
            let line = self.line(number, &field)?;
            self.found.lines.push((number, line));
        }
        Ok(())
    }

    /// A line with a DN in it comes out with the DN as the consumer has it.
    fn line(&self, number: usize, field: &Field<'_>) -> Result<Line> {
        if !self.columns[number].dn {
            return Ok(Line::Given(field.span.clone()));
        }
        let mut line = Vec::new();
        let value = field.value()?;
        write::line(&mut line, field.description(), &self.selection.suffixes.massage(&value));
        Ok(Line::Made(line))
    }

    fn note(&mut self, number: usize, field: &Field<'_>) -> Result<()> {
        let column = &self.columns[number];
        match column.part {
            Part::Class => self.found.classes.push(field.value()?.into_owned()),
            Part::Csn => self.found.csn = Some(field.value()?.into_owned()),
            Part::Own(own) => self.found.own[own] = column.keep,
            Part::Other => {}
        }
        let Some(description) = column.description.as_ref().filter(|_| !column.asked.is_empty())
        else {
            return Ok(());
        };
        let value = field.value()?;
        let (id, mut normal) = (description.attribute, Vec::new());
        match self.schema.normalise(id, &value, &mut normal) {
            Ok(true) => {}
            Ok(false) => normal = value.into_owned(),
            Err(refusal) => return Err(refused(refusal)),
        }
        for &asked in &column.asked {
            let attributes = &mut self.found.asked[asked];
            match attributes.iter_mut().find(|(known, _)| *known == id) {
                Some((_, values)) => values.push(normal.clone()),
                None => attributes.push((id, vec![normal.clone()])),
            }
        }
        Ok(())
    }

    fn column(&mut self, field: &Field<'_>) -> usize {
        let spelling = field.description();
        if let Some(&known) = self.spelled.get(spelling) {
            return known;
        }
        let column = self.new_column(spelling);
        // Two spellings of one description are one attribute.
        let same =
            |one: &Column| column.description.is_some() && one.description == column.description;
        let number = self.columns.iter().position(same).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.spelled.insert(spelling.into(), number);
        number
    }

    fn new_column(&self, spelling: &[u8]) -> Column {
        let attributes = &self.selection.attributes;
        let Ok(description) = self.schema.describe(spelling) else {
            let keep = attributes.keep_unknown();
            return Column {
                description: None,
                keep,
                dn: false,
                asked: Vec::new(),
                part: Part::Other,
            };
        };
        let kind = self.schema.get(description.attribute);
        let filter = self.selection.filter.as_ref().map_or(&[][..], Filter::asked);
        let asked = filter.iter().enumerate().filter(|(_, one)| is_of(&description, kind, one));
        let part = match kind.name.as_str() {
            "objectClass" => Part::Class,
            "entryCSN" => Part::Csn,
            name => OWN.iter().position(|own| *own == name).map_or(Part::Other, Part::Own),
        };
        Column {
            keep: attributes.keep(&description, self.schema),
            dn: kind.syntax_oid == DN_SYNTAX && self.selection.suffixes.massages(),
            asked: asked.map(|(number, _)| number).collect(),
            part,
            description: Some(description),
        }
    }

    fn is_wanted(&self) -> bool {
        let classes: Vec<&[u8]> = self.found.classes.iter().map(Vec::as_slice).collect();
        if self.schema.flags(&classes) & SUBENTRY != 0 && self.selection.scope != Scope::Base {
            return false;
        }
        let values = Values(&self.found.asked);
        let filter = self.selection.filter.as_ref();
        filter.is_none_or(|filter| filter.test(self.schema, &values) == Truth::True)
    }

    /// The values of one attribute come out side by side: slapd 2.6.11 to 2.6.14 damage entries where they do not.
    fn write(&mut self, record: &Record<'_>, normal: &[u8], dn: &[u8]) -> Result<()> {
        write::line(&mut self.text, b"dn", dn);
        let columns = &self.columns;
        let mut lines: Vec<_> =
            self.found.lines.iter().filter(|(number, _)| columns[*number].keep).collect();
        let first = |number: usize| lines.iter().position(|(one, _)| *one == number);
        let order: Vec<_> = lines.iter().map(|(number, _)| first(*number)).collect();
        if !order.is_sorted() {
            let mut sorted: Vec<_> = order.into_iter().zip(lines).collect();
            sorted.sort_by_key(|(first, _)| *first);
            lines = sorted.into_iter().map(|(_, line)| line).collect();
        }
        for (_, line) in lines {
            let line = match line {
                Line::Given(span) => &record.bytes[span.clone()],
                Line::Made(text) => text,
            };
            self.text.extend_from_slice(line);
            if line.last() != Some(&b'\n') {
                self.text.push(b'\n');
            }
        }
        let own = own_lines(self.selection, self.found.csn.as_deref(), self.found.own);
        self.text.extend_from_slice(&own);
        if normal == self.selection.suffix {
            self.text.extend_from_slice(&self.context);
        }
        self.text.push(b'\n');
        Ok(())
    }

    fn finish(mut self, entries: &Path, glue: &Path, counters: &Counters) -> Result<Selected> {
        self.send()?;
        self.out.finish()?;
        if !self.glue.is_empty() {
            let (namer, wanted) = (&mut self.namer, &mut self.glue);
            each_record(Input::from_path(entries)?, &Counters::default(), |record| {
                counters.check()?;
                wanted.present(&namer.normal(&record.entry()?.dn).map_err(refused)?);
                Ok(())
            })?;
        }
        let mut out = Output::create(glue, 0)?;
        for (normal, mut text, csn) in self.glue.entries() {
            text.extend_from_slice(&own_lines(self.selection, csn, [false; 4]));
            if let Some(csn) = csn {
                write::line(&mut text, b"entryCSN", csn);
            }
            if normal == self.selection.suffix {
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

/// The attributes of `OWN` that are not `present`: by the root DN, at the time of the entryCSN.
fn own_lines(selection: &Selection, csn: Option<&[u8]>, present: [bool; 4]) -> Vec<u8> {
    let mut lines = Vec::new();
    let (Some(root_dn), Some(stamp)) = (&selection.root_dn, csn.and_then(|csn| csn.get(..14)))
    else {
        return lines;
    };
    let time = [stamp, b"Z"].concat();
    for (name, present) in OWN.iter().zip(present) {
        if !present {
            let value = if name.ends_with("Name") { root_dn } else { &time };
            write::line(&mut lines, name.as_bytes(), value);
        }
    }
    lines
}

fn refused(refusal: Refusal) -> Error {
    Error::new(Code::Syntax, refusal.0.into_owned())
}
