//! Reads, checks and completes a record, and encodes it for each table.

mod account;
mod complete;
mod index;
mod memo;
mod note;
mod store;

use std::sync::Arc;

pub use index::Posting;
use ldif::{Field, Fields, Record};
pub use memo::{LastValue, LineRun};
use schema::{ObjectClassSet, Rdn, ValueForm};
use values::InvalidValue;

use crate::checks::{Profile, SchemaCheck};
use crate::draft::{EntryLines, ValueSpans};
use crate::encoded::{Encoded, ParentNumbers};
use crate::entry::account::Account;
use crate::indexer::IndexKeys;
use crate::lookup::{ExpectedLine, Lookup};
use crate::naming::{HashedDn, ParentCache};
use crate::operational::Operational;
use crate::shared::BuildContext;
use crate::{Code, Error, ValueCheck, lock};

/// The reason why a record did not become an entry.
pub enum RejectReason {
    /// The entry is invalid and is rejected.
    Entry(String),
    /// The build must end.
    Broken(Error),
}

impl From<InvalidValue> for RejectReason {
    fn from(refusal: InvalidValue) -> Self {
        Self::Entry(refusal.0.into_owned())
    }
}

/// A syntax error of LDIF rejects only its record, because the following records may be valid.
impl From<Error> for RejectReason {
    fn from(error: Error) -> Self {
        match error.code {
            Code::Syntax | Code::ChangeType | Code::Url => Self::Entry(error.message),
            _ => Self::Broken(error),
        }
    }
}

/// Adds the line number to the message, because a rejection only has the line number of its record.
pub fn in_line(error: Error) -> Error {
    match error.line {
        Some(line) => Error { message: format!("line {line}: {}", error.message), ..error },
        None => error,
    }
}

pub struct Encoder<'a> {
    shared: &'a BuildContext<'a>,
    lookup: Lookup<'a>,
    naming: ParentCache<'a>,
    /// Buffer for the RDN of the next entry.
    rdn: Rdn,
    checks: SchemaCheck<'a>,
    operational: Operational,
    context_csn: usize,
    pub parents: ParentNumbers,
    pub postings: extsort::Writer,
    account: Option<Account>,
    draft: EntryLines,
    /// Buffer for a value in base64.
    decoded: Vec<u8>,
    /// The build generated the entryUUID of the current entry.
    generated_uuid: bool,
    /// The entryCSN of the current entry in the input. The stored entryCSN may be older.
    csn: u128,
    /// `csn` is newer than the claimed contextCSN.
    newer: bool,
    /// Buffer for values of the current entry that are stored in id2v.
    apart: Vec<store::Apart>,
    layout: store::StoredLayout,
    /// The object classes of the last entry whose object class was indexed, and their index keys.
    class_keys: (Option<Arc<ObjectClassSet>>, IndexKeys),
}

impl<'a> Encoder<'a> {
    pub fn new(shared: &'a BuildContext<'a>, postings: extsort::Writer) -> Result<Self, InvalidValue> {
        let mut lookup = Lookup::new(&shared.columns);
        Ok(Self {
            shared,
            naming: ParentCache::new(shared.schema, &shared.suffixes),
            rdn: Rdn::default(),
            checks: SchemaCheck::new(shared.schema, &mut lookup)?,
            operational: Operational::new(shared, &mut lookup)?,
            context_csn: lookup.column(b"contextCSN")?,
            lookup,
            parents: ParentNumbers::default(),
            postings,
            account: shared.options.account.then(|| Account::new(shared.settings.of_2_7)),
            draft: EntryLines::default(),
            decoded: Vec::new(),
            generated_uuid: false,
            csn: 0,
            newer: false,
            apart: Vec::new(),
            layout: store::StoredLayout::default(),
            class_keys: Default::default(),
        })
    }

    /// Appends the entry of a record to `out`. If it fails, `out.blobs` and `out.rows` may have a part of the entry.
    pub fn encode(&mut self, record: &Record<'_>, position: u32, out: &mut Encoded) -> Result<(), RejectReason> {
        let entry = record.entry()?;
        if entry.change && self.shared.options.as_slapadd {
            return Err(InvalidValue("slapadd does not accept `changetype:`".into()).into());
        }
        let (place, above) = self.naming.place(&entry.dn, std::mem::take(&mut self.rdn))?;
        let profile = self.fill(record, (&entry.dn, entry.fields), &place, position, out)?;
        self.index(&profile, position)?;
        self.note_csn(out);
        self.keep(record, position, &place, above, out);
        self.rdn = place.rdn;
        Ok(())
    }

    /// Encodes the record of the empty DN, the first record of the input, into `out`. slapd generates no index keys for
    /// this entry.
    pub fn encode_root(&mut self, record: &Record<'_>, out: &mut Encoded) -> Result<(), RejectReason> {
        self.fill(record, (b"", record.entry()?.fields), &HashedDn::of_root(), 0, out)?;
        self.note_csn(out);
        if !out.rows.is_empty() {
            let message = "the entry of the empty DN has more values than multival allows";
            return Err(InvalidValue(message.into()).into());
        }
        out.root = Some(std::mem::take(&mut out.blobs));
        Ok(())
    }

    /// Reads and completes the record and encodes its value.
    fn fill(
        &mut self,
        record: &Record<'_>,
        (dn, mut fields): (&[u8], Fields<'_>),
        place: &HashedDn,
        position: u32,
        out: &mut Encoded,
    ) -> Result<Profile, RejectReason> {
        if self.shared.options.file_urls {
            fields = fields.with_urls();
        }
        self.draft.clear();
        (self.csn, self.newer) = (0, false);
        self.lookup.rewind();
        self.lines(fields)?;
        if place.suffix.is_some() {
            for text in self.shared.options.claimed.iter().flatten() {
                self.new_value(self.context_csn, text.as_bytes())?;
            }
        }
        self.draft.gather();
        self.note_marks(record, dn, out);
        let sum_before = self.sum();
        let profile = self.complete(place, position)?;
        if let (Some(before), Some(after)) = (sum_before, self.sum()) {
            self.account_for(record, after.wrapping_sub(before))?;
        }
        self.sort()?;
        self.store(&profile, out)?;
        Ok(profile)
    }

    /// Returns the checksum of the current entry's values; `None` unless [`crate::Options::account`].
    fn sum(&mut self) -> Option<u128> {
        self.account.as_mut().map(|account| account.sum(&self.draft, &self.lookup))
    }

    fn account_for(&mut self, record: &Record<'_>, added: u128) -> Result<(), RejectReason> {
        let Some(account) = &mut self.account else { return Ok(()) };
        let difference = account.difference(record, added)?;
        if difference != 0 {
            lock(&self.shared.completed).add(difference);
        }
        Ok(())
    }

    /// Adds all lines. Most entries have the attribute descriptions of the previous entry, and many of its values.
    fn lines(&mut self, mut fields: Fields<'_>) -> Result<(), RejectReason> {
        let mut decoded = std::mem::take(&mut self.decoded);
        loop {
            let expected = match self.lookup.expected() {
                Some(line) if line.run.len() > 0 && fields.pass_text(&line.run.text, line.run.len()) => {
                    line.run.add_to(&mut self.draft);
                    let lines = line.run.len();
                    self.lookup.advance(lines);
                    continue;
                }
                Some(line) if line.form == ValueForm::Text => {
                    if text_line(&mut self.draft, line, &mut fields) {
                        self.lookup.advance(1);
                        continue;
                    }
                    fields.next_value(&line.head, &mut decoded).map(|value| (line.column, line.form, value))
                }
                Some(line) if repeated_line(&mut self.draft, line, &mut fields) => {
                    self.lookup.advance_single();
                    continue;
                }
                Some(line) => fields.next_value(&line.head, &mut decoded).map(|value| (line.column, line.form, value)),
                None => None,
            };
            if let Some((column, form, value)) = expected {
                self.lookup.advance(1);
                if !self.add_ordinary(column, form, value) && !self.is_left_out(column) {
                    let added = self.line_value(column, value);
                    let spelling = || self.lookup.last_spelling();
                    added.map_err(|refusal| self.refused(column, value, spelling(), &refusal))?;
                }
            } else if let Some(field) = fields.next() {
                self.line(&field.map_err(in_line)?)?;
            } else {
                self.decoded = decoded;
                return Ok(());
            }
        }
    }

    fn line(&mut self, field: &Field<'_>) -> Result<(), RejectReason> {
        let spelling = field.description();
        let column = self.lookup.next(spelling);
        let column = column.map_err(|refusal| RejectReason::Entry(format!("{}: {}", lossy(spelling), refusal.0)))?;
        if let Some(rule) = &self.lookup.get(column).unproven {
            let message = format!("{}: values of {rule} are not supported by the native engine", lossy(spelling));
            return Err(RejectReason::Broken(Error::new(Code::Unproven, message)));
        }
        if self.is_left_out(column) {
            return Ok(());
        }
        let value = field.value().map_err(in_line)?;
        if self.add_ordinary(column, self.lookup.get(column).form, &value) {
            return Ok(());
        }
        self.line_value(column, &value).map_err(|refusal| self.refused(column, &value, spelling, &refusal))
    }

    /// Returns true for attributes that are not stored: contextCSN in a seeding, and computed attributes in slapd 2.7.
    fn is_left_out(&self, column: usize) -> bool {
        (self.shared.claim.is_some() && column == self.context_csn)
            || (self.shared.settings.of_2_7 && self.lookup.get(column).computed)
    }

    /// Adds a value if its form is simple enough to check and normalise here, as for most values. No setting drops or
    /// changes such a value, except that a seeding stores no newer CSN than it claims.
    #[inline]
    fn add_ordinary(&mut self, column: usize, form: ValueForm, value: &[u8]) -> bool {
        let draft = &mut self.draft;
        let pair = match form {
            ValueForm::Text => draft.add_text(value),
            ValueForm::Octets => {
                let value = draft.add_bytes(value);
                Some(ValueSpans { value, normal: value })
            }
            ValueForm::Telephone => {
                values::telephone(value).map(|(kept, length)| draft.add_pair(value, &kept[..length]))
            }
            ValueForm::Uuid => values::uuid::octets(value).map(|octets| draft.add_pair(value, &octets)),
            ValueForm::Csn if !self.is_left_out(column) => {
                let older = if column == self.operational.csn { self.note_csn_read(value) } else { None };
                let value = older.unwrap_or(value);
                values::is_normal_csn(value).then(|| self.draft.add_pair(value, value))
            }
            _ => None,
        };
        if let Some(pair) = pair {
            self.draft.add_line(column, pair, form != ValueForm::Octets);
        }
        pair.is_some()
    }

    fn line_value(&mut self, column: usize, value: &[u8]) -> Result<(), InvalidValue> {
        let older = if column == self.operational.csn { self.note_csn_read(value) } else { None };
        self.value(column, older.unwrap_or(value))
    }

    /// Returns a reason with the refused object class, or else with the attribute: another value may be a secret.
    fn refused(&self, column: usize, value: &[u8], spelling: &[u8], refusal: &InvalidValue) -> RejectReason {
        let is_class = column == self.checks.object_class || column == self.checks.structural;
        if is_class {
            return RejectReason::Entry(format!("{}: {}", refusal.0, lossy(value)));
        }
        RejectReason::Entry(format!("{}: {}", lossy(spelling), refusal.0))
    }

    /// Notes an entryCSN of the input. If it is newer than the claimed contextCSN, returns the older CSN to be stored.
    fn note_csn_read(&mut self, csn: &[u8]) -> Option<&'a [u8]> {
        let claim = self.shared.claim.as_ref();
        if claim.is_none() && !self.shared.live {
            return None;
        }
        let csn = tree::csn::pack(csn);
        if self.shared.live {
            self.csn = csn;
            self.newer = claim.is_some_and(|claim| !claim.covers(csn));
        }
        claim.and_then(|claim| claim.older_csn(csn))
    }

    /// Adds a value with its normal form.
    #[inline]
    fn value(&mut self, column: usize, value: &[u8]) -> Result<(), InvalidValue> {
        if let Some(last) = self.lookup.last_value() {
            if last.is(value) {
                last.add_to(&mut self.draft, column);
                return Ok(());
            }
        }
        let (kept, fits) = self.new_value(column, value)?;
        // `note_csn_read` must see each entryCSN, so a line that repeats it needs processing.
        let as_it_stands = column != self.operational.csn;
        if let Some(last) = self.lookup.last_value().filter(|_| fits) {
            last.keep(&self.draft, kept, as_it_stands);
        }
        Ok(())
    }

    /// Adds a value. Returns its spans, whether its normal form is stored, and whether slapd would accept it.
    fn new_value(&mut self, column: usize, value: &[u8]) -> Result<((ValueSpans, bool), bool), InvalidValue> {
        let fits = self.check(column, value)?;
        let (pair, normals) = self.pair(column, value)?;
        self.draft.add_line(column, pair, normals);
        Ok(((pair, normals), fits))
    }

    /// Applies slapd's check if requested. Returns false for a value that is stored although slapd would refuse it.
    fn check(&self, column: usize, value: &[u8]) -> Result<bool, InvalidValue> {
        let (schema, column) = (self.shared.schema, self.lookup.get(column));
        let check = self.shared.options.values;
        if check == ValueCheck::Skip {
            return Ok(true);
        }
        match schema.check_value(column.attribute, value) {
            Err(refusal) if check == ValueCheck::Refuse => {
                // slapadd, too, refuses a value that cannot be normalised: such an error does not mention the check.
                schema.normalise(column.attribute, value, &mut Vec::new())?;
                Err(InvalidValue(format!("{} (value check)", refusal.0).into()))
            }
            Err(_) => {
                column.count_invalid_value();
                Ok(false)
            }
            Ok(()) => Ok(true),
        }
    }

    fn pair(&mut self, column: usize, value: &[u8]) -> Result<(ValueSpans, bool), InvalidValue> {
        let attribute = self.lookup.get(column).attribute;
        let stored = self.draft.add_bytes(value);
        let at = self.draft.bytes.len();
        let normals = self.shared.schema.normalise(attribute, value, &mut self.draft.bytes)?;
        let normal = if normals { self.draft.end_piece(at) } else { stored };
        Ok((ValueSpans { value: stored, normal }, normals))
    }
}

/// Adds the next line if it has the expected description and its normal form differs from the value at most in case.
#[inline]
fn text_line(draft: &mut EntryLines, line: &ExpectedLine, fields: &mut Fields<'_>) -> bool {
    let pair = fields.behind(&line.head).and_then(|text| draft.add_text_line(text));
    if let Some(pair) = pair {
        fields.pass(&line.head, pair.value.length);
        draft.add_line(line.column, pair, true);
    }
    pair.is_some()
}

/// Adds the next line if it has the expected description and value.
#[inline]
fn repeated_line(draft: &mut EntryLines, line: &ExpectedLine, fields: &mut Fields<'_>) -> bool {
    let is_same = line.repeated().is_some_and(|value| fields.pass_value(&line.head, value));
    if is_same {
        line.last.add_to(draft, line.column);
    }
    is_same
}

fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}
