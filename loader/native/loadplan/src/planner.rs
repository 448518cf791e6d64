//! Generates the operations of a plan.

use crate::form::{ExpectedEntries, Operation, escaped};
use crate::searches::{FilterForm, SearchFilter};
use crate::subject::{PASSWORD, Password, TargetKind};
use crate::{Action, Plan};
use synth::distribution::even;
use synth::draw::{again, below, unit};
use synth::{EntryRef, Maker, write_rdn};

/// Generates operations. Every thread has its own planner.
pub struct Planner<'p> {
    plan: &'p Plan<'p>,
    maker: Maker<'p>,
    /// A buffer for the LDIF of an entry.
    text: Vec<u8>,
}

/// Maximum number of entries that are tried until one has the attribute that the operation needs.
const TRIES: u64 = 16;
/// Size limit of searches that may find many entries.
const SIZE_LIMIT: u64 = 50;
/// Maximum length of an assertion value in a filter, in bytes.
const LONGEST_ASSERTION: usize = 400;
/// Maximum size in bytes, and maximum number, of the values that a modify writes.
const MOST_MODIFIED: (usize, usize) = (4096, 50);
/// The possible result codes of a bind.
const SUCCESS: u8 = 0;
const INVALID_CREDENTIALS: u8 = 49;

/// A sequence of pseudo-random numbers.
struct RandomBits {
    bits: u64,
    turn: u64,
}

impl RandomBits {
    const fn next_bits(&mut self) -> u64 {
        self.turn += 1;
        again(self.bits, self.turn)
    }

    const fn below(&mut self, count: u64) -> u64 {
        below(self.next_bits(), count)
    }

    fn chance(&mut self, part: f64) -> bool {
        unit(self.next_bits()) < part
    }

    fn element<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(even(self.next_bits(), all.len()))
    }
}

/// The entry to which an operation applies.
struct Target<'p> {
    subject: &'p TargetKind,
    index: u64,
    record: Record,
}

impl<'p> Planner<'p> {
    pub fn new(plan: &'p Plan<'p>) -> Self {
        Self { plan, maker: Maker::new(plan.tree), text: Vec::new() }
    }

    /// Returns operation `number` of the plan.
    pub fn operation(&mut self, number: u64) -> common::Result<Operation> {
        let mut random = RandomBits { bits: self.plan.stream.at(number), turn: 0 };
        let (action, ordinal) = self.plan.schedule.at(number);
        let (deletes, renames) = (self.plan.deletes, self.plan.renames);
        match action {
            Action::Search if random.chance(self.plan.miss) => self.missing(&mut random),
            Action::Search => self.search(&mut random),
            Action::Bind => self.bind(&mut random),
            Action::Modify => self.modify(&mut random),
            Action::Add => self.add(deletes + renames + ordinal % self.plan.copies.max(1), ordinal),
            Action::Delete => Ok(Operation::Delete { dn: self.once(ordinal)?.record.dn }),
            Action::Rename => self.rename(deletes + ordinal),
        }
    }

    /// Chooses an entry to read, of a kind that `fits` accepts, or of any kind if `fits` accepts no kind.
    fn often(&mut self, random: &mut RandomBits, fits: impl Fn(&TargetKind) -> bool) -> common::Result<Target<'p>> {
        let fitting = self.plan.subject(random.next_bits(), fits);
        let subject = fitting.or_else(|| self.plan.subject(random.next_bits(), |_| true)).unwrap_or(0);
        let index = self.plan.targets[subject].often(random.next_bits());
        self.target(subject, index)
    }

    /// Returns the entry to delete, rename or copy. `item` is the number of the operation in [`Plan::once`].
    fn once(&mut self, item: u64) -> common::Result<Target<'p>> {
        let (subject, number) = self.plan.once.holder(item).unwrap_or((0, 0));
        let index = self.plan.targets[subject].once(number);
        self.target(subject, index)
    }

    fn target(&mut self, subject: usize, index: u64) -> common::Result<Target<'p>> {
        let subject = &self.plan.subjects[subject];
        Ok(Target { subject, index, record: self.record(subject, index)? })
    }

    fn record(&mut self, subject: &TargetKind, index: u64) -> common::Result<Record> {
        self.text.clear();
        self.maker.entry_of(subject.kind, index, &mut self.text);
        Record::read(&self.text)
    }

    fn parent(&mut self, target: &Target<'_>) -> Vec<u8> {
        self.dn(self.plan.tree.parent(target.subject.kind, target.index))
    }

    fn suffix(&mut self) -> Vec<u8> {
        self.dn(EntryRef::Branch(0))
    }

    fn dn(&mut self, entry: EntryRef) -> Vec<u8> {
        let mut dn = Vec::new();
        self.maker.dn(entry, &mut dn);
        dn
    }

    fn search(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let mut target = self.often(random, |subject| !subject.filters.is_empty())?;
        for _ in 0..TRIES {
            let Some(search) = search(random, &target.subject.filters, self.plan.base_weight) else { break };
            if let Some((filter, expected)) = filter(random, search, &target.record) {
                return Ok(Operation::Search { base: self.suffix(), scope: "sub", filter, expected });
            }
            target = self.often(random, |subject| !subject.filters.is_empty())?;
        }
        Ok(base_search(target.record.dn, ExpectedEntries::Exactly(1)))
    }

    /// Returns a search for a value that no entry has.
    fn missing(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let target = self.often(random, |subject| !subject.filters.is_empty())?;
        let nobody = format!("nobody-{:016x}", random.next_bits());
        let search = search(random, &target.subject.filters, self.plan.base_weight);
        if let Some(search) = search.filter(|search| search.form == FilterForm::Equality) {
            let value = unlike(&nobody, target.record.values(&search.attribute).next().unwrap_or_default());
            let filter = format!("({}={})", search.attribute, escaped(&value));
            let expected = ExpectedEntries::Exactly(0);
            return Ok(Operation::Search { base: self.suffix(), scope: "sub", filter, expected });
        }
        let base = [format!("cn={nobody},").as_bytes(), &self.parent(&target)].concat();
        Ok(base_search(base, ExpectedEntries::NoBase))
    }

    fn bind(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        for _ in 0..TRIES {
            let target = self.often(random, |subject| subject.password.is_some())?;
            let Some(mut password) = self.password(&target) else { continue };
            let mut result = SUCCESS;
            if random.chance(self.plan.miss) {
                password.extend_from_slice(b"-wrong");
                result = INVALID_CREDENTIALS;
            }
            return Ok(Operation::Bind { dn: target.record.dn, password, result });
        }
        let nobody = format!("cn=nobody-{:016x},", random.next_bits());
        let dn = [nobody.as_bytes(), &self.suffix()].concat();
        Ok(Operation::Bind { dn, password: b"wrong".to_vec(), result: INVALID_CREDENTIALS })
    }

    /// Returns the clear-text password of the entry. This must be the last generated entry, whose values are still
    /// available. Never returns an empty password: the bind would be unauthenticated (RFC 4513, 5.1.2).
    fn password(&self, target: &Target<'_>) -> Option<Vec<u8>> {
        let stored = target.record.values(PASSWORD).next()?;
        let plain = match target.subject.password? {
            Password::Slot(slot) => self.maker.value(slot)?,
            Password::Plain => stored,
        };
        (!plain.is_empty()).then(|| plain.to_vec())
    }

    /// Returns a modify that replaces the values of an attribute by values from another entry of the same kind.
    fn modify(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let target = self.often(random, |subject| !subject.modifiable.is_empty())?;
        let subject = target.subject;
        let same = self.plan.subjects.iter().position(|other| other.kind == subject.kind).unwrap_or(0);
        let mut attribute = String::new();
        for _ in 0..TRIES {
            attribute = random.element(&subject.modifiable).cloned().unwrap_or_default();
            let donor = self.plan.targets[same].any(random.next_bits());
            let record = self.record(subject, donor)?;
            let values: Vec<Vec<u8>> = record.values(&attribute).map(<[u8]>::to_vec).collect();
            let size: usize = values.iter().map(Vec::len).sum();
            if !values.is_empty() && size <= MOST_MODIFIED.0 && values.len() <= MOST_MODIFIED.1 {
                return Ok(Operation::Modify { dn: target.record.dn, attribute, values });
            }
        }
        // None of the tried entries has suitable values, so the entry keeps its own values.
        let values = target.record.values(&attribute).map(<[u8]>::to_vec).collect();
        Ok(Operation::Modify { dn: target.record.dn, attribute, values })
    }

    /// Returns an operation that adds a copy of an entry under another RDN.
    fn add(&mut self, item: u64, ordinal: u64) -> common::Result<Operation> {
        let target = self.once(item)?;
        let (rdn, old, new) = self.renamed(&target, &format!("-new{ordinal}"));
        let dn = [rdn.as_slice(), b",", &self.parent(&target)].concat();
        // Operational attributes are not in the template, and clients must not write them.
        let in_template = |name: &str| target.subject.attributes.iter().any(|known| known.eq_ignore_ascii_case(name));
        let naming = self.naming(&target).0;
        let values = target.record.values.into_iter().filter(|(name, _)| in_template(name));
        let values = values.map(|(name, value)| {
            let is_name = name.eq_ignore_ascii_case(&naming) && value == old;
            (name, if is_name { new.clone() } else { value })
        });
        Ok(Operation::Add { dn, values: values.collect() })
    }

    fn rename(&mut self, item: u64) -> common::Result<Operation> {
        let target = self.once(item)?;
        let (rdn, ..) = self.renamed(&target, "-renamed");
        Ok(Operation::Rename { dn: target.record.dn, rdn })
    }

    /// Returns the first naming attribute and its value. The entry must be the last generated entry.
    fn naming(&self, target: &Target<'_>) -> (String, Vec<u8>) {
        let (name, slot) = &self.plan.tree.kinds()[target.subject.kind].rdn[0];
        (String::from_utf8_lossy(name).into_owned(), self.maker.value(*slot).unwrap_or_default().to_vec())
    }

    /// Appends `more` to the first value of the entry's RDN. Returns the new RDN, the old value and the new value.
    fn renamed(&self, target: &Target<'_>, more: &str) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (_, old) = self.naming(target);
        let new = [old.as_slice(), more.as_bytes()].concat();
        let mut rdn = Vec::new();
        let parts = &self.plan.tree.kinds()[target.subject.kind].rdn;
        let value = |part, slot| if part == 0 { new.as_slice() } else { self.maker.value(slot).unwrap_or_default() };
        write_rdn(parts, value, &mut rdn);
        (rdn, old, new)
    }
}

fn base_search(base: Vec<u8>, expected: ExpectedEntries) -> Operation {
    Operation::Search { base, scope: "base", filter: "(objectClass=*)".to_owned(), expected }
}

/// Chooses a subtree search by weight, or returns None for a base search, which has the weight `base_weight`.
fn search<'s>(random: &mut RandomBits, searches: &'s [SearchFilter], base_weight: u64) -> Option<&'s SearchFilter> {
    let sum: u64 = searches.iter().map(|search| search.weight).fold(0, u64::saturating_add);
    let mut rest = random.below(sum.saturating_add(base_weight));
    searches.iter().find(|search| {
        let is_chosen = rest < search.weight;
        rest = rest.saturating_sub(search.weight);
        is_chosen
    })
}

/// Returns a filter that finds the entry, if the entry has a suitable value.
fn filter(random: &mut RandomBits, search: &SearchFilter, record: &Record) -> Option<(String, ExpectedEntries)> {
    const SOME: ExpectedEntries = ExpectedEntries::Some { limit: SIZE_LIMIT };
    let values: Vec<&[u8]> = record.values(&search.attribute).collect();
    let value = random.element(&values).filter(|value| !value.is_empty() && value.len() <= LONGEST_ASSERTION)?;
    if search.form == FilterForm::Beginning {
        return Some((format!("({}={}*)", search.attribute, beginning(random, value)?), SOME));
    }
    let plain = format!("({}={})", search.attribute, escaped(value));
    let class = record.values("objectClass").next().filter(|_| random.below(10) == 0);
    let filter = class.map_or(plain.clone(), |class| format!("(&(objectClass={}){plain})", escaped(class)));
    Some((filter, if search.unique { ExpectedEntries::Exactly(1) } else { SOME }))
}

/// Returns the first three to six characters of an ASCII value. In another value, the cut could drop an accent.
fn beginning(random: &mut RandomBits, value: &[u8]) -> Option<String> {
    let length = usize::try_from(3 + random.below(4)).ok()?;
    let start = value.get(..length.min(value.len()))?;
    let whole = value.len() > 3 && value.is_ascii() && start.iter().all(u8::is_ascii_alphanumeric);
    whole.then(|| escaped(start))
}

/// Returns a value that no entry has, of the same form as `value`: a mail address, a DN, or any other text.
fn unlike(nobody: &str, value: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(value);
    match (text.find('@'), text.find(',')) {
        (Some(at), None) => format!("{nobody}{}", &text[at..]).into_bytes(),
        (None, Some(comma)) if text.contains('=') => format!("cn={nobody}{}", &text[comma..]).into_bytes(),
        _ => nobody.as_bytes().to_vec(),
    }
}

/// A parsed record: its DN, and the description and value of each line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub dn: Vec<u8>,
    pub values: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// Parses a record that [`Maker`] wrote.
    pub fn read(bytes: &[u8]) -> common::Result<Self> {
        let text = ldif::Record { bytes: bytes.trim_ascii_end(), line: 1, closed: true, last: true };
        let entry = text.entry()?;
        let mut record = Self { dn: entry.dn.into_owned(), values: Vec::new() };
        for field in entry.fields {
            let field = field?;
            let description = String::from_utf8_lossy(field.description()).into_owned();
            record.values.push((description, field.value()?.into_owned()));
        }
        Ok(record)
    }

    pub fn values<'a>(&'a self, attribute: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let values = self.values.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(attribute));
        values.map(|(_, value)| value.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_parsed() {
        let record = Record::read(b"dn: cn=a\nCN: a\ncn:: /w==\ndescription:\n\n").unwrap();
        assert_eq!(record.dn, b"cn=a");
        assert_eq!(record.values("cn").collect::<Vec<_>>(), [&b"a"[..], b"\xff"]);
        assert_eq!(record.values("description").collect::<Vec<_>>(), [b""]);
    }
}
