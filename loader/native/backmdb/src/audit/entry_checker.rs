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

/// Flag of the object class of glue entries. A glue entry need not have the values of its RDN.
const GLUE: u32 = 0x20;

/// Attributes of schema files (not built into slapd). The overlays smbk5pwd and autoca store them without normal forms,
/// because they pass slapd no normalised values (`sml_nvalues`).
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
    /// Attribute descriptions by ad2i number minus 1; `None` if the schema does not define the description.
    pub columns: Vec<(String, Option<Arc<AttributeDescription>>)>,
    /// Counts for each column the values that violate their syntax. DNs and values in id2v are not counted.
    pub counts_invalid: bool,
}

/// The quality of a stored normal form, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NormalForm {
    Right,
    /// A copy of the value, where slapd would store another form or none. Overlays store some attributes like this.
    Own,
    Wrong,
}

type Report<'t> = &'t mut dyn FnMut(Kind, Finding);

/// An attribute's values as matching rules compare them, and as they were entered.
struct Values<'v> {
    compared: ValueList<'v>,
    entered: ValueList<'v>,
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
        let (mut flags, mut buffer) = (None, std::mem::take(&mut last.buffer));
        for stored in &entry.attributes {
            let Some(column) = self.column(stored.number) else {
                self.unknown(stored.number, report);
                continue;
            };
            let is_classes = flags.is_none() && column.text == "objectClass";
            let is_right = column.unproven.is_none() && (has_plain_text(column, stored) || last.has(stored));
            if is_right && is_classes {
                flags = Some(last.flags);
            }
            if is_right && column.indexers.is_empty() {
                continue;
            }
            let Some(values) = values_of(stored, rows) else {
                let finding = Finding::new("a row of id2v cannot be read");
                report(Kind::Values, finding.of_attribute(&column.text));
                continue;
            };
            if !is_right {
                let mut right = self.values(column, stored, &values, &mut buffer, report);
                if is_classes {
                    right &= self.classes(&values.entered, report);
                    flags = Some(self.schema.flags(&values.entered));
                }
                // If objectClass is stored in several pieces, slapd uses the first piece.
                let keeps = right && (is_classes || column.text != "objectClass");
                if keeps && last.keep(stored) && is_classes {
                    last.flags = self.schema.flags(&values.entered);
                    last.class_names = self.schema.class_index_values(&values.compared);
                }
            }
            if column.unproven.is_none() {
                let names = (is_right && is_classes).then_some(&last.class_names[..]);
                self.keys(column, &values, names, keys, report);
            }
        }
        last.buffer = buffer;
        let expected = flags.unwrap_or_else(|| self.schema.flags(&[]));
        if entry.flags != expected {
            let flags = entry.flags;
            let message = format!("flags 0x{flags:x}, but its object classes require 0x{expected:x}");
            report(Kind::Flags, Finding::new(message));
        }
    }

    /// Returns true if the schema has all these classes. For an unknown class, slapd generates other index keys, and a
    /// search for a superior of the class does not find the entry.
    fn classes(&self, names: &[&[u8]], report: Report<'_>) -> bool {
        let mut all_known = true;
        for name in names.iter().filter(|name| self.schema.class(name).is_none()) {
            all_known = false;
            let name = name.escape_ascii();
            let finding = Finding::new(format!("the schema does not know the object class {name}"));
            report(Kind::Schema, finding.of_attribute("objectClass"));
        }
        all_known
    }

    fn unknown(&self, number: u32, report: Report<'_>) {
        let at = (number as usize).checked_sub(1);
        if let Some((text, None)) = at.and_then(|at| self.columns.get(at)) {
            let finding = Finding::new("the schema does not know the attribute");
            report(Kind::Schema, finding.of_attribute(text));
        }
    }

    /// Returns true if the stored normal forms match the values, and sorted values are in order. Reports each
    /// difference.
    fn values(
        &self,
        column: &AttributeDescription,
        stored: &Stored<'_>,
        values: &Values<'_>,
        buffer: &mut Vec<u8>,
        report: Report<'_>,
    ) -> bool {
        let mut right = !is_kept_together(column, stored, report);
        if column.unproven.is_some() {
            return false;
        }
        if self.counts_invalid && !stored.apart && column.form != ValueForm::Dn {
            let is_invalid = |value: &&&[u8]| self.schema.check_value(column.attribute, value).is_err();
            for _ in values.entered.iter().filter(is_invalid) {
                column.count_invalid_value();
                right = false;
            }
        }
        let report: Report<'_> = &mut |kind, finding| {
            right = false;
            report(kind, finding);
        };
        if stored.has_normals {
            let pairs = values.entered.iter().zip(values.compared.iter());
            let forms = pairs.map(|(value, normal)| self.form(column, value, normal, buffer));
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
        if (stored.sorted || stored.apart) && values.compared.windows(2).any(unordered) {
            let finding = Finding::new("values that do not stand in their order");
            report(Kind::Order, finding.of_attribute(&column.text));
        }
        if column.sorted && !stored.sorted && !stored.apart && has_equal_values(column, &values.compared) {
            let finding = Finding::new("equal values under sortvals: slapd cannot read this entry");
            report(Kind::Twice, finding.of_attribute(&column.text));
        }
        right
    }

    /// Reports values that lack normal forms because the attribute had no equality rule when they were stored. If slapd
    /// then adds a value, the numbers of values and of normal forms no longer match (`attr_valadd`).
    fn without_normal_forms(&self, column: &AttributeDescription, values: &Values<'_>, report: Report<'_>) {
        let kind = self.schema.get(column.attribute);
        let Some(value) = values.entered.first() else { return };
        // slapd itself stores no normal forms for attributes that it or its overlays define.
        let is_defined_by_slapd = kind.builtin || kind.operational();
        if is_defined_by_slapd || self.schema.normalise(column.attribute, value, &mut Vec::new()) != Ok(true) {
            return;
        }
        if OF_OVERLAYS.contains(&kind.name.as_str()) {
            return report(Kind::OwnForm, Finding::default().of_attribute(&column.text));
        }
        let finding = Finding::new("values without the normal forms that its equality rule makes");
        report(Kind::NoNormal, finding.of_attribute(&column.text));
    }

    fn form(&self, column: &AttributeDescription, value: &[u8], normal: &[u8], buffer: &mut Vec<u8>) -> NormalForm {
        buffer.clear();
        let kind = self.schema.get(column.attribute);
        let normalised = self.schema.normalise(column.attribute, value, buffer);
        if normalised == Ok(true) && buffer == normal {
            return NormalForm::Right;
        }
        let of_dn = kind.normaliser == Normalise::Dn;
        if normalised.is_err() && of_dn && self.schema.has_unproven_part(value) {
            return NormalForm::Right;
        }
        // Overlays pass slapd the value itself as its normal form: ppolicy for pwdReset and for times, even if the
        // fraction of a time ends in 0, and dds for entryTtl.
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
            let computed = if indexer.of_classes() && names.is_none() {
                self.schema.class_index_values(&values.compared)
            } else {
                Vec::new()
            };
            let (compared, names) = (values.compared.iter().copied(), names.unwrap_or(&computed));
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
        let dn = match node.id {
            0 => self.schema.dn(node.pretty),
            _ => self.schema.rdn(node.pretty).map(|rdn| Dn { rdns: vec![rdn] }),
        };
        let Ok(dn) = dn else {
            if !self.schema.has_unproven_part(node.pretty) {
                report(Kind::Name, Finding::new(format!("{} is not a valid name", name())));
            }
            return;
        };
        let mut avas = dn.rdns.iter().flat_map(|rdn| &rdn.avas);
        if avas.any(|ava| self.schema.get(ava.attribute).unsupported_rule().is_some()) {
            return;
        }
        let is_right = match &dn.rdns[..] {
            [rdn] => rdn.pretty == node.pretty && rdn.normal == node.normal,
            _ => dn.pretty() == node.pretty && dn.normal() == node.normal,
        };
        if !is_right {
            report(Kind::Name, Finding::new(format!("{}: its stored normal form is wrong", name())));
        }
        if entry.flags & GLUE != 0 || self.settings.translucent {
            return;
        }
        for ava in dn.rdns.first().iter().flat_map(|rdn| &rdn.avas) {
            if !self.has_value(ava, entry, rows) {
                let attribute = &self.schema.get(ava.attribute).name;
                let finding = Finding::new("the entry lacks the value that it is named by");
                report(Kind::Naming, finding.of_attribute(attribute));
            }
        }
    }

    /// Returns true if the entry has the value of `ava`, or if that cannot be decided.
    fn has_value(&self, ava: &Ava, entry: &StoredEntry<'_>, rows: &MultivalRecords) -> bool {
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
            .filter(|stored| self.column(stored.number).is_some_and(|column| column.attribute == ava.attribute));
        of_type
            .filter_map(|stored| values_of(stored, rows))
            .any(|values| self.schema.rdn_value_held(ava, asserted, values.compared.iter().copied()))
    }
}

/// Returns true if two values are equal by the equality rule. slapadd stores them, but slapd refuses them when it sorts
/// the values on reading.
fn has_equal_values(column: &AttributeDescription, values: &[&[u8]]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|left, right| column.order.compare(left, right));
    sorted.windows(2).any(|pair| column.order.compare(pair[0], pair[1]).is_eq())
}

/// Returns true if all values are text, differ from right normal forms only in case, and are stored as configured.
#[inline]
fn has_plain_text(column: &AttributeDescription, stored: &Stored<'_>) -> bool {
    column.form == ValueForm::Text
        && stored.has_normals
        && !(stored.sorted || stored.apart || column.sorted || stored.count > column.apart_above)
        && stored.values().zip(stored.compared()).all(|(value, normal)| is_plain_text(value, normal))
}

/// Reports values in id2e that multival would put into id2v: slapd loses them when it next changes the entry. Returns
/// true if the attribute has such values.
fn is_kept_together(column: &AttributeDescription, stored: &Stored<'_>, report: Report<'_>) -> bool {
    let (count, limit) = (stored.count, column.apart_above);
    let is_kept_together = !stored.apart && count > limit;
    if is_kept_together {
        let message = format!(
            "{count} values in the entry, where multival puts more than {limit} into id2v; the next change of the \
             entry loses them"
        );
        report(Kind::KeptTogether, Finding::new(message).of_attribute(&column.text));
    }
    is_kept_together
}

/// Returns the values of an attribute from id2e or id2v; `None` if a row of id2v cannot be read.
fn values_of<'v>(stored: &Stored<'v>, rows: &'v MultivalRecords) -> Option<Values<'v>> {
    if !stored.apart {
        return Some(Values { compared: stored.compared().collect(), entered: stored.values().collect() });
    }
    let mut values = Values { compared: ValueList::new(), entered: ValueList::new() };
    for row in of_number(rows, stored.number) {
        let (normal, value) = codec::id2v::read_row(row, stored.has_normals)?;
        values.compared.push(normal);
        values.entered.push(value);
    }
    Some(values)
}
