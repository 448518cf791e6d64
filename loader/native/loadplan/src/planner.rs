//! Generates the operations of a plan.

use crate::form::{ExpectedEntries, Operation, escaped};
use crate::searches::{FilterForm, SearchFilter};
use crate::subject::{PASSWORD, Password, TargetKind};
use crate::{Action, Plan};
use synth::draw::{again, below, unit};
use synth::{EntryRef, Maker, escape};

/// Generates operations; every thread has its own planner.
pub struct Planner<'p> {
    plan: &'p Plan<'p>,
    maker: Maker<'p>,
    text: Vec<u8>,
}

/// Number of entries to try if an entry lacks the attribute that the operation needs.
const TRIES: u64 = 16;
/// Size limit of searches that may find many entries.
const LIMIT: u64 = 50;
/// Maximum length of an assertion value in a filter, in bytes.
const FILTER: usize = 400;
/// Maximum size in bytes, and maximum number of values, of the attribute that a modify writes.
const CHANGE: (usize, usize) = (4096, 50);
/// The two possible result codes of a bind.
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

    fn one<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let place = self.below(all.len() as u64);
        all.get(usize::try_from(place).ok()?)
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
            Action::Add => self.add(deletes + renames + ordinal % self.plan.spares.max(1), ordinal),
            Action::Delete => Ok(Operation::Delete { dn: self.once(ordinal)?.record.dn }),
            Action::Rename => self.rename(deletes + ordinal),
        }
    }

    /// Chooses an entry to read, of a kind that `fits` accepts, or of any kind if it accepts none.
    fn often(&mut self, random: &mut RandomBits, fits: impl Fn(&TargetKind) -> bool) -> common::Result<Target<'p>> {
        let found = self.plan.subject(random.next_bits(), fits);
        let place = found.or_else(|| self.plan.subject(random.next_bits(), |_| true)).unwrap_or(0);
        let index = self.plan.targets[place].often(random.next_bits());
        self.target(place, index)
    }

    /// Returns the entry for the delete, rename or copy with number `item`.
    fn once(&mut self, item: u64) -> common::Result<Target<'p>> {
        let (place, number) = self.plan.once.holder(item).unwrap_or((0, 0));
        let index = self.plan.targets[place].once(number);
        self.target(place, index)
    }

    fn target(&mut self, place: usize, index: u64) -> common::Result<Target<'p>> {
        let subject = &self.plan.subjects[place];
        Ok(Target { subject, index, record: self.record(subject, index)? })
    }

    fn record(&mut self, subject: &TargetKind, index: u64) -> common::Result<Record> {
        self.text.clear();
        self.maker.entry_of(subject.kind, index, &mut self.text);
        Record::read(&self.text)
    }

    fn parent(&mut self, target: &Target<'_>) -> Vec<u8> {
        let mut dn = Vec::new();
        self.maker.dn(self.plan.tree.parent(target.subject.kind, target.index), &mut dn);
        dn
    }

    fn suffix(&self) -> Vec<u8> {
        let mut dn = Vec::new();
        Maker::new(self.plan.tree).dn(EntryRef::Branch(0), &mut dn);
        dn
    }

    fn search(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let mut target = self.often(random, |subject| !subject.looks.is_empty())?;
        for _ in 0..TRIES {
            let Some(look) = look(random, &target.subject.looks, self.plan.reading) else { break };
            if let Some((filter, found)) = filter(random, look, &target.record) {
                return Ok(Operation::Search { base: self.suffix(), scope: "sub", filter, found });
            }
            target = self.often(random, |subject| !subject.looks.is_empty())?;
        }
        let (base, filter) = (target.record.dn, "(objectClass=*)".to_owned());
        Ok(Operation::Search { base, scope: "base", filter, found: ExpectedEntries::Exactly(1) })
    }

    /// Returns a search for a value that no entry has.
    fn missing(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let target = self.often(random, |subject| !subject.looks.is_empty())?;
        let nobody = format!("nobody-{:016x}", random.next_bits());
        let named =
            look(random, &target.subject.looks, self.plan.reading).filter(|look| look.form == FilterForm::Equality);
        if let Some(look) = named {
            let value = target.record.values(&look.attribute).next().unwrap_or_default();
            let value = unlike(&nobody, value);
            let filter = format!("({}={})", look.attribute, escaped(&value));
            let found = ExpectedEntries::Exactly(0);
            return Ok(Operation::Search { base: self.suffix(), scope: "sub", filter, found });
        }
        let base = [format!("cn={nobody},").as_bytes(), &self.parent(&target)].concat();
        let filter = "(objectClass=*)".to_owned();
        Ok(Operation::Search { base, scope: "base", filter, found: ExpectedEntries::NoBase })
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

    /// Returns the clear-text password of the entry that was generated last, whose values are still available. Never
    /// returns an empty password: with one, the bind would be unauthenticated (RFC 4513, 5.1.2).
    fn password(&self, target: &Target<'_>) -> Option<Vec<u8>> {
        let stored = target.record.values(PASSWORD).next()?;
        let plain = match target.subject.password? {
            Password::Slot(slot) => self.maker.value(slot)?,
            Password::Plain => stored,
        };
        (!plain.is_empty()).then(|| plain.to_vec())
    }

    /// Returns a modify that replaces the values of an attribute by those of another entry of the same kind.
    fn modify(&mut self, random: &mut RandomBits) -> common::Result<Operation> {
        let target = self.often(random, |subject| !subject.changing.is_empty())?;
        let subject = target.subject;
        let place = self.plan.subjects.iter().position(|one| one.kind == subject.kind).unwrap_or(0);
        let mut attribute = String::new();
        for _ in 0..TRIES {
            attribute = random.one(&subject.changing).cloned().unwrap_or_default();
            let donor = self.plan.targets[place].any(random.next_bits());
            let record = self.record(subject, donor)?;
            let values: Vec<Vec<u8>> = record.values(&attribute).map(<[u8]>::to_vec).collect();
            let size: usize = values.iter().map(Vec::len).sum();
            if !values.is_empty() && size <= CHANGE.0 && values.len() <= CHANGE.1 {
                return Ok(Operation::Modify { dn: target.record.dn, attribute, values });
            }
        }
        // If no other entry has suitable values, the entry keeps its own.
        let values = target.record.values(&attribute).map(<[u8]>::to_vec).collect();
        Ok(Operation::Modify { dn: target.record.dn, attribute, values })
    }

    /// Returns an add of an entry's copy under another RDN.
    fn add(&mut self, item: u64, ordinal: u64) -> common::Result<Operation> {
        let target = self.once(item)?;
        let (rdn, old, new) = self.renamed(&target, &format!("-new{ordinal}"));
        let dn = [rdn.as_slice(), b",", &self.parent(&target)].concat();
        let is_attribute = |name: &str| target.subject.attributes.iter().any(|one| one.eq_ignore_ascii_case(name));
        let naming = self.naming(&target).0;
        let values = target.record.values.into_iter().filter(|(name, _)| is_attribute(name));
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

    /// Returns the first naming attribute and its value. The entry must be the one that was generated last.
    fn naming(&self, target: &Target<'_>) -> (String, Vec<u8>) {
        let (name, slot) = &self.plan.tree.kinds()[target.subject.kind].rdn()[0];
        (String::from_utf8_lossy(name).into_owned(), self.maker.value(*slot).unwrap_or_default().to_vec())
    }

    /// Returns the RDN with `more` appended to its first value, then this value without and with `more`.
    fn renamed(&self, target: &Target<'_>, more: &str) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (_, old) = self.naming(target);
        let new = [old.as_slice(), more.as_bytes()].concat();
        let mut rdn = Vec::new();
        for (place, (name, slot)) in self.plan.tree.kinds()[target.subject.kind].rdn().iter().enumerate() {
            if place > 0 {
                rdn.push(b'+');
            }
            rdn.extend_from_slice(name);
            rdn.push(b'=');
            let value = if place == 0 { &new } else { self.maker.value(*slot).unwrap_or_default() };
            escape(value, &mut rdn);
        }
        (rdn, old, new)
    }
}

/// Chooses a filter by weight; `None` means a base search.
fn look<'s>(random: &mut RandomBits, looks: &'s [SearchFilter], reading: u64) -> Option<&'s SearchFilter> {
    let sum: u64 = looks.iter().map(|look| look.weight).fold(0, u64::saturating_add);
    let mut place = random.below(sum.saturating_add(reading));
    looks.iter().find(|look| {
        let found = place < look.weight;
        place = place.saturating_sub(look.weight);
        found
    })
}

/// Returns a filter that finds the entry, if the entry has a suitable value.
fn filter(random: &mut RandomBits, look: &SearchFilter, record: &Record) -> Option<(String, ExpectedEntries)> {
    let values: Vec<&[u8]> = record.values(&look.attribute).collect();
    let value = random.one(&values).filter(|value| !value.is_empty() && value.len() <= FILTER)?;
    if look.form == FilterForm::Beginning {
        let filter = format!("({}={}*)", look.attribute, beginning(random, value)?);
        return Some((filter, ExpectedEntries::Some { limit: LIMIT }));
    }
    let plain = format!("({}={})", look.attribute, escaped(value));
    let class = record.values("objectClass").next().filter(|_| random.below(10) == 0);
    let filter = class.map_or(plain.clone(), |class| format!("(&(objectClass={}){plain})", escaped(class)));
    let found = if look.unique { ExpectedEntries::Exactly(1) } else { ExpectedEntries::Some { limit: LIMIT } };
    Some((filter, found))
}

/// Returns the first three to six letters of an ASCII value; other values might lose the accent of a letter.
fn beginning(random: &mut RandomBits, value: &[u8]) -> Option<String> {
    let length = usize::try_from(3 + random.below(4)).ok()?;
    let start = value.get(..length.min(value.len()))?;
    let whole = value.len() > 3 && value.is_ascii() && start.iter().all(u8::is_ascii_alphanumeric);
    whole.then(|| escaped(start))
}

/// Returns a value of the same form that no entry has: an address for an address, a DN for a DN.
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
    /// Parses a record of the generator; other LDIF is not supported.
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
        let found = self.values.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map(|(_, value)| value.as_slice())
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
