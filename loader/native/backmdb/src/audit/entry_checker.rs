//! Checks a stored entry against schema and configuration: its normal forms, its name and its index keys.

use std::sync::Arc;

use schema::{Ava, Dn, Normalise, Schema, ValueForm};
use values::Normaliser;

use super::findings::{Finding, Kind};
use super::last_values::LastValues;
use super::walk::{MultivalRecords, of_number};
use crate::Settings;
use crate::descriptions::{AttributeDescription, AttributeDescriptions};
use crate::draft::is_plain_text;
use crate::indexer::Keys;
use codec::dn2i::Node;
use codec::id2e::{Stored, StoredEntry, ValueList};

/// Flag of the object class of glue entries, which need not contain their naming values.
const GLUE: u32 = 0x20;

/// Attributes of schema files whose values the overlays smbk5pwd and autoca store without normal forms: they give slapd
/// no normalised values (`sml_nvalues`).
const OF_OVERLAYS: [&str; 8] = [
    "cACertificate",
    "krb5KeyVersionNumber",
    "sambaLMPassword",
    "sambaNTPassword",
    "sambaPwdCanChange",
    "sambaPwdLastSet",
    "sambaPwdMustChange",
    "shadowLastChange",
];

pub struct EntryChecker<'a> {
    pub schema: &'a Schema,
    pub settings: &'a Settings,
    /// By ad2i number minus 1; `None` if the schema does not define the description.
    pub columns: Vec<(String, Option<Arc<AttributeDescription>>)>,
    /// Values that violate their syntax are counted in the columns, except those of id2v and DNs.
    pub counts_invalid: bool,
}

/// The kind of normal form stored beside a value, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NormalForm {
    Right,
    /// The value itself, where slapd would store another form or none: overlays store operational attributes so.
    Own,
    Wrong,
}

type Report<'t> = &'t mut dyn FnMut(Kind, Finding);

/// An attribute's values in normal form, and as they were given.
struct Values<'v> {
    compared: ValueList<'v>,
    given: ValueList<'v>,
}

impl<'a> EntryChecker<'a> {
    /// `texts`: the descriptions in ad2i.
    pub fn new(
        schema: &'a Schema,
        settings: &'a Settings,
        columns: &AttributeDescriptions<'_>,
        texts: &[String],
    ) -> Self {
        let column = |text: &String| (text.clone(), columns.column(text.as_bytes()).ok());
        let columns = texts.iter().map(column).collect();
        Self { schema, settings, columns, counts_invalid: false }
    }

    /// Returns a note for each attribute whose values are not checked.
    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.columns.iter().filter_map(|(text, column)| {
            let rule = column.as_ref()?.unproven.as_ref()?;
            Some(format!("values not looked at: {text}, compared by {rule}"))
        })
    }

    pub fn column(&self, number: u32) -> Option<&AttributeDescription> {
        let at = (number as usize).checked_sub(1)?;
        self.columns.get(at)?.1.as_deref()
    }

    /// Checks an entry against the schema and generates its index keys.
    pub fn entry(&self, entry: &StoredEntry<'_>, rows: &MultivalRecords, keys: &mut impl Keys, report: Report<'_>) {
        self.next_entry(&mut LastValues::default(), entry, rows, keys, report);
    }

    /// Like [`Self::entry`], for a series of entries. `last`: values of the previous entries.
    pub fn next_entry(
        &self,
        last: &mut LastValues,
        entry: &StoredEntry<'_>,
        rows: &MultivalRecords,
        keys: &mut impl Keys,
        report: Report<'_>,
    ) {
        let (mut flags, mut made) = (None, Vec::new());
        for one in &entry.attributes {
            let Some(column) = self.column(one.number) else {
                self.unknown(one.number, report);
                continue;
            };
            let is_classes = flags.is_none() && column.text == "objectClass";
            let is_right = column.unproven.is_none() && (has_plain_text(column, one) || last.has(one));
            if is_right && is_classes {
                flags = Some(last.flags);
            }
            if is_right && column.indexers.is_empty() {
                continue;
            }
            let Some(values) = split(one, rows) else {
                let finding = Finding::new("a row of id2v cannot be read");
                report(Kind::Values, finding.of_attribute(&column.text));
                continue;
            };
            if !is_right {
                let mut right = self.values(column, one, &values, &mut made, report);
                if is_classes {
                    right &= self.classes(&values.given, report);
                    flags = Some(self.schema.flags(&values.given));
                }
                // If objectClass stands in several pieces, slapd uses the first.
                let keeps = right && (is_classes || column.text != "objectClass");
                if keeps && last.keep(one) && is_classes {
                    last.flags = self.schema.flags(&values.given);
                    last.class_names = self.schema.class_index_values(&values.compared);
                }
            }
            if column.unproven.is_none() {
                let names = (is_right && is_classes).then_some(&last.class_names[..]);
                self.keys(column, &values, names, keys, report);
            }
        }
        let expected = flags.unwrap_or_else(|| self.schema.flags(&[]));
        if entry.flags != expected {
            let found = entry.flags;
            let message = format!("flags 0x{found:x}, but its object classes require 0x{expected:x}");
            report(Kind::Flags, Finding::new(message));
        }
    }

    /// Returns true if slapd knows all these classes. For an unknown class it generates other index keys, and does not
    /// find the entry by the superiors of that class.
    fn classes(&self, named: &[&[u8]], report: Report<'_>) -> bool {
        let unknown = named.iter().filter(|name| self.schema.class(name).is_none());
        let mut is_known = true;
        for name in unknown {
            is_known = false;
            let name = name.escape_ascii();
            let finding = Finding::new(format!("the schema does not know the object class {name}"));
            report(Kind::Schema, finding.of_attribute("objectClass"));
        }
        is_known
    }

    fn unknown(&self, number: u32, report: Report<'_>) {
        let at = (number as usize).checked_sub(1);
        if let Some((text, None)) = at.and_then(|at| self.columns.get(at)) {
            let finding = Finding::new("the schema does not know the attribute");
            report(Kind::Schema, finding.of_attribute(text));
        }
    }

    /// Returns true if the stored normal forms match the values and sorted values are in order; reports each
    /// difference. `made` is a scratch buffer.
    fn values(
        &self,
        column: &AttributeDescription,
        one: &Stored<'_>,
        values: &Values<'_>,
        made: &mut Vec<u8>,
        report: Report<'_>,
    ) -> bool {
        let mut right = !is_kept_together(column, one, report);
        if column.unproven.is_some() {
            return false;
        }
        if self.counts_invalid && !one.apart && column.form != ValueForm::Dn {
            let is_invalid = |value: &&&[u8]| self.schema.check_value(column.attribute, value).is_err();
            for _ in values.given.iter().filter(is_invalid) {
                column.count_invalid_value();
                right = false;
            }
        }
        let report: Report<'_> = &mut |kind, finding| {
            right = false;
            report(kind, finding);
        };
        if one.has_normals {
            let pairs = values.given.iter().zip(values.compared.iter());
            let forms = pairs.map(|(value, normal)| self.form(column, value, normal, made));
            match forms.max() {
                Some(NormalForm::Wrong) => {
                    let finding = Finding::new("the normal form of a value is not that of the value");
                    report(Kind::Normal, finding.of_attribute(&column.text));
                }
                Some(NormalForm::Own) => {
                    report(Kind::OwnForm, Finding::default().of_attribute(&column.text));
                }
                Some(NormalForm::Right) | None => {}
            }
        } else {
            self.without_normal_forms(column, values, report);
        }
        let unordered = |pair: &[&[u8]]| column.order.compare(pair[0], pair[1]).is_ge();
        if (one.sorted || one.apart) && values.compared.windows(2).any(unordered) {
            let finding = Finding::new("values that do not stand in their order");
            report(Kind::Order, finding.of_attribute(&column.text));
        }
        if column.sorted && !one.sorted && !one.apart && is_one_twice(column, &values.compared) {
            let finding = Finding::new("equal values under sortvals: slapd cannot read this entry");
            report(Kind::Twice, finding.of_attribute(&column.text));
        }
        right
    }

    /// Reports values without normal forms: the attribute had no equality rule when they were stored, but now slapd
    /// looks for normal forms. When slapd adds a value, it mixes up the two lists (`attr_valadd`).
    fn without_normal_forms(&self, column: &AttributeDescription, values: &Values<'_>, report: Report<'_>) {
        let kind = self.schema.get(column.attribute);
        let Some(value) = values.given.first() else { return };
        // Attributes that slapd and its overlays define are stored this way by slapd itself.
        let its_own = kind.builtin || kind.operational();
        if its_own || self.schema.normalise(column.attribute, value, &mut Vec::new()) != Ok(true) {
            return;
        }
        if OF_OVERLAYS.contains(&kind.name.as_str()) {
            return report(Kind::OwnForm, Finding::default().of_attribute(&column.text));
        }
        let finding = Finding::new("values without the normal forms that its equality rule makes");
        report(Kind::NoNormal, finding.of_attribute(&column.text));
    }

    fn form(&self, column: &AttributeDescription, value: &[u8], normal: &[u8], made: &mut Vec<u8>) -> NormalForm {
        made.clear();
        let kind = self.schema.get(column.attribute);
        let normalised = self.schema.normalise(column.attribute, value, made);
        if normalised == Ok(true) && made == normal {
            return NormalForm::Right;
        }
        let of_dn = kind.normaliser == Normalise::Dn;
        if normalised.is_err() && of_dn && self.schema.has_unproven_part(value) {
            return NormalForm::Right;
        }
        // Overlays give slapd the value itself as its normal form: ppolicy for pwdReset and for times, whose fraction
        // may end in 0, and dds for entryTtl.
        let unchanged = [Normalise::None, Normalise::Value(Normaliser::GeneralizedTime)];
        if kind.operational() && value == normal && unchanged.contains(&kind.normaliser) {
            return NormalForm::Own;
        }
        NormalForm::Wrong
    }

    fn keys(
        &self,
        column: &AttributeDescription,
        values: &Values<'_>,
        names: Option<&[Vec<u8>]>,
        keys: &mut impl Keys,
        report: Report<'_>,
    ) {
        for indexer in &column.indexers {
            let made = if indexer.of_classes() && names.is_none() {
                self.schema.class_index_values(&values.compared)
            } else {
                Vec::new()
            };
            let (compared, names) = (values.compared.iter().copied(), names.unwrap_or(&made));
            if let Err(refusal) = indexer.each(self.settings, compared, names, keys) {
                let finding = Finding::new(format!("no index key can be made: {}", refusal.0));
                report(Kind::NoKey, finding.of_attribute(&column.text));
            }
        }
    }

    /// Checks both forms of the node's name, and that the entry has the values of its RDN.
    pub fn name(&self, node: &Node<'_>, entry: &StoredEntry<'_>, rows: &MultivalRecords, report: Report<'_>) {
        let name = || String::from_utf8_lossy(node.pretty).into_owned();
        // A suffix is one node, however many RDNs it has.
        let made = match node.id {
            0 => self.schema.dn(node.pretty),
            _ => self.schema.rdn(node.pretty).map(|rdn| Dn { rdns: vec![rdn] }),
        };
        let Ok(made) = made else {
            if !self.schema.has_unproven_part(node.pretty) {
                report(Kind::Name, Finding::new(format!("{} is not a valid name", name())));
            }
            return;
        };
        let mut avas = made.rdns.iter().flat_map(|rdn| &rdn.avas);
        if avas.any(|ava| self.schema.get(ava.attribute).unsupported_rule().is_some()) {
            return;
        }
        let is_right = match &made.rdns[..] {
            [rdn] => rdn.pretty == node.pretty && rdn.normal == node.normal,
            _ => made.pretty() == node.pretty && made.normal() == node.normal,
        };
        if !is_right {
            report(Kind::Name, Finding::new(format!("{}: its stored normal form is wrong", name())));
        }
        if entry.flags & GLUE != 0 || self.settings.translucent {
            return;
        }
        for ava in made.rdns.first().iter().flat_map(|rdn| &rdn.avas) {
            if !self.holds(ava, entry, rows) {
                let attribute = &self.schema.get(ava.attribute).name;
                let finding = Finding::new("the entry lacks the value that it is named by");
                report(Kind::Naming, finding.of_attribute(attribute));
            }
        }
    }

    fn holds(&self, ava: &Ava, entry: &StoredEntry<'_>, rows: &MultivalRecords) -> bool {
        let mut asserted = Vec::new();
        let kind = self.schema.get(ava.attribute);
        let normalised = self.schema.normalise(ava.attribute, &ava.value, &mut asserted);
        if kind.unsupported_rule().is_some() || normalised.is_err() {
            return true;
        }
        let asserted = if normalised == Ok(true) { &asserted } else { &ava.value };
        let of_type = entry
            .attributes
            .iter()
            .filter(|one| self.column(one.number).is_some_and(|column| column.attribute == ava.attribute));
        of_type
            .filter_map(|one| split(one, rows))
            .any(|values| self.schema.rdn_value_held(ava, asserted, values.compared.iter().copied()))
    }
}

/// Returns true if two values are equal. slapadd stores them, but slapd refuses them when it sorts them on reading.
fn is_one_twice(column: &AttributeDescription, values: &[&[u8]]) -> bool {
    let mut found = values.to_vec();
    found.sort_unstable_by(|left, right| column.order.compare(left, right));
    found.windows(2).any(|pair| column.order.compare(pair[0], pair[1]).is_eq())
}

/// Returns true if all values are text whose normal forms differ only in case; such an attribute cannot be wrong.
#[inline]
fn has_plain_text(column: &AttributeDescription, one: &Stored<'_>) -> bool {
    column.form == ValueForm::Text
        && one.has_normals
        && !(one.sorted || one.apart || column.sorted || one.count > column.apart_above)
        && one.values().zip(one.compared()).all(|(value, normal)| is_plain_text(value, normal))
}

/// Reports values that multival would put into id2v: slapd's next change of the entry loses them.
fn is_kept_together(column: &AttributeDescription, one: &Stored<'_>, report: Report<'_>) -> bool {
    let (count, limit) = (one.count, column.apart_above);
    let is_kept = !one.apart && count > limit;
    if is_kept {
        let message = format!(
            "{count} values in the entry, where multival puts more than {limit} into id2v; the next change of the \
             entry loses them"
        );
        report(Kind::KeptTogether, Finding::new(message).of_attribute(&column.text));
    }
    is_kept
}

/// Returns the values of an attribute from id2e or id2v; `None` if a row of id2v cannot be read.
fn split<'v>(one: &Stored<'v>, rows: &'v MultivalRecords) -> Option<Values<'v>> {
    if !one.apart {
        return Some(Values { compared: one.compared().collect(), given: one.values().collect() });
    }
    let mut values = Values { compared: ValueList::new(), given: ValueList::new() };
    for row in of_number(rows, one.number) {
        let (normal, value) = codec::id2v::read_row(row, one.has_normals)?;
        values.compared.push(normal);
        values.given.push(value);
    }
    Some(values)
}
