//! Validates DNs, RDNs and their values, and converts them to slapd's pretty and normal forms.

use std::borrow::Cow;

use values::Normaliser;

use super::parse::{self, RawAva, RawRdn};
use super::{Ava, MAX_LENGTH, Rdn, within_limit, write};
use crate::syntax::Pretty;
use crate::{AttributeId, AttributeType, InvalidValue, Normalise, Result, Schema, ValueForm, XOrdered, refuse};

/// Maximum nesting of DNs as values inside DNs (two levels in practice). slapd instead limits a DN to 8192 bytes.
const MAX_DEPTH: u32 = 16;

/// The form to which a DN is converted, with the level of nesting.
#[derive(Debug, Clone, Copy)]
pub enum DnForm {
    /// The form in which slapd stores names of entries.
    Pretty(u32),
    /// The form in which slapd compares DNs.
    Normal(u32),
}

/// An AVA during conversion, with the canonical name of its type and its current value.
struct PartialAva<'a> {
    attribute: AttributeId,
    name: &'a str,
    value: Cow<'a, [u8]>,
}

impl Schema {
    /// Fast path for most entries: converts an RDN with a single value of [text](ValueForm::Text) whose pretty and
    /// normal forms differ only in case. Returns `None` for any other RDN, valid or not.
    pub(super) fn plain_rdn(&self, text: &[u8], rdn: &mut Rdn) -> Option<()> {
        let (name, value) = text.split_at(memchr::memchr(b'=', text)?);
        let value = &value[1..];
        if value.is_empty() || !parse::is_name(name) || !write::is_plain(value) {
            return None;
        }
        let attribute = self.attribute(name).filter(|id| self.value_form(*id) == ValueForm::Text)?;
        let name = self.get(attribute).name.as_bytes();
        for form in [&mut rdn.pretty, &mut rdn.normal] {
            form.clear();
            form.extend_from_slice(name);
            form.push(b'=');
            form.extend_from_slice(value);
        }
        rdn.normal[name.len()..].make_ascii_lowercase();
        let mut kept = rdn.avas.pop().map_or_else(Vec::new, |ava| ava.value);
        kept.clear();
        kept.extend_from_slice(value);
        rdn.avas.clear();
        rdn.avas.push(Ava { attribute, value: kept });
        Some(())
    }

    /// Converts an entry's RDN to pretty form, and the result to normal form.
    pub(super) fn both_forms(&self, raw: RawRdn<'_>) -> Result<Rdn> {
        let parts = self.parts(raw, DnForm::Pretty(0))?;
        let mut rdn = Rdn::default();
        join(&parts, &mut rdn.pretty, write::escape)?;
        rdn.normal.reserve_exact(rdn.pretty.len());
        for (number, part) in parts.iter().enumerate() {
            begin(number, part.name, &mut rdn.normal);
            let start = rdn.normal.len();
            // For `Pretty::Same`, the conversion to pretty form has already validated the value.
            if self.get(part.attribute).syntax.pretty != Pretty::Same {
                self.check_nested(part.attribute, &part.value, 0)?;
            }
            self.push_comparable(part.attribute, &part.value, 0, &mut rdn.normal)?;
            write::escape_tail(start, &mut rdn.normal)?;
        }
        let ava = |part: PartialAva<'_>| Ava { attribute: part.attribute, value: part.value.into_owned() };
        rdn.avas = parts.into_iter().map(ava).collect();
        Ok(rdn)
    }

    /// Converts a DN that is an attribute value. For [`DnForm::Normal`], values are not made pretty first.
    pub(crate) fn rewrite_dn(&self, text: &[u8], form: DnForm, out: &mut Vec<u8>) -> Result<()> {
        if matches!(form, DnForm::Pretty(_)) {
            within_limit(text)?;
        }
        for (number, rdn) in parse::dn(text)?.into_iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            join(&self.parts(rdn, form)?, out, write::escape)?;
        }
        Ok(())
    }

    /// Converts an attribute value that is a single RDN. Like slapd, ignores any text after the RDN.
    pub(crate) fn rewrite_rdn(&self, text: &[u8], form: DnForm, out: &mut Vec<u8>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if matches!(form, DnForm::Pretty(_)) {
            within_limit(text)?;
        }
        join(&self.parts(parse::leading_rdn(text)?, form)?, out, write::escape)
    }

    /// Appends the normal form of an RDN in a certificate's name, with all non-ASCII characters escaped.
    pub(crate) fn normal_rdn_escaped(&self, avas: &[(String, Cow<'_, [u8]>)], out: &mut Vec<u8>) -> Result<()> {
        let raw =
            avas.iter().map(|(name, value)| RawAva { name: name.as_bytes(), value: Cow::Borrowed(value), ber: false });
        join(&self.parts(raw.collect(), DnForm::Normal(0))?, out, write::escape_ascii)
    }

    /// Returns the AVAs of an RDN, sorted by name, with their values converted to `form`.
    fn parts<'a>(&'a self, raw: RawRdn<'a>, form: DnForm) -> Result<Vec<PartialAva<'a>>> {
        let mut parts = Vec::with_capacity(raw.len());
        for ava in raw {
            parts.push(self.part(ava, form)?);
        }
        if parts.len() > 1 {
            sort(&mut parts)?;
        }
        Ok(parts)
    }

    fn part<'a>(&'a self, ava: RawAva<'a>, form: DnForm) -> Result<PartialAva<'a>> {
        let kind = self.naming_type(&ava)?;
        if ava.ber {
            return refuse(format!("\"{}\" is given in hexadecimal BER form", kind.name));
        }
        let value = match ava.value {
            Cow::Borrowed(value) => self.in_form(kind, value, form)?,
            Cow::Owned(value) => Cow::Owned(self.in_form(kind, &value, form)?.into_owned()),
        };
        Ok(PartialAva { attribute: kind.id, name: &kind.name, value })
    }

    fn naming_type(&self, ava: &RawAva<'_>) -> Result<&AttributeType> {
        let Some(attribute) = self.attribute(ava.name) else {
            let name = String::from_utf8_lossy(ava.name);
            return refuse(format!("attribute type \"{name}\" is not in the schema"));
        };
        let kind = self.get(attribute);
        if kind.ordered == Some(XOrdered::Values) {
            return refuse(format!("\"{}\" has ordered values and cannot name an entry", kind.name));
        }
        Ok(kind)
    }

    fn in_form<'a>(&self, kind: &AttributeType, value: &'a [u8], form: DnForm) -> Result<Cow<'a, [u8]>> {
        let formed = match form {
            DnForm::Pretty(depth) if kind.syntax.pretty == Pretty::Same => {
                self.check_nested(kind.id, value, depth)?;
                Cow::Borrowed(value)
            }
            DnForm::Pretty(depth) => Cow::Owned(self.rewrite_value(kind.id, value, depth)?),
            DnForm::Normal(depth) => {
                self.check_nested(kind.id, value, depth)?;
                let mut normal = Vec::with_capacity(value.len());
                self.push_comparable(kind.id, value, depth, &mut normal)?;
                Cow::Owned(normal)
            }
        };
        if formed.is_empty() { refuse(has_none(kind)) } else { Ok(formed) }
    }

    /// Appends a validated value in the form in which values are compared inside a DN, without escapes. slapd treats
    /// them as assertion values, so UUIDs and definitions (first components) stay unchanged.
    fn push_comparable(&self, attribute: AttributeId, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<()> {
        let kind = self.get(attribute);
        let start = out.len();
        match kind.normaliser {
            Normalise::None
            | Normalise::Value(Normaliser::Uuid)
            | Normalise::FirstOid
            | Normalise::FirstInteger
            | Normalise::Never => out.extend_from_slice(value),
            Normalise::Certificate
            | Normalise::CertificateList
            | Normalise::AttributeCertificate
            | Normalise::Value(Normaliser::CsnSid) => {
                return refuse(format!("a value of \"{}\" cannot be in a DN", kind.name));
            }
            _ => self.normalise_nested(attribute, value, deeper(depth)?, out)?,
        }
        if out.len() == start { refuse(has_none(kind)) } else { Ok(()) }
    }

    /// Returns the pretty form of a value.
    pub(crate) fn rewrite_value(&self, attribute: AttributeId, value: &[u8], depth: u32) -> Result<Vec<u8>> {
        let kind = self.get(attribute);
        let mut out = Vec::with_capacity(value.len());
        let nested = || deeper(depth).map(DnForm::Pretty);
        match kind.syntax.pretty {
            Pretty::Dn => self.rewrite_dn(value, nested()?, &mut out)?,
            Pretty::Rdn => self.rewrite_rdn(value, nested()?, &mut out)?,
            Pretty::NameUid => {
                within_limit(value)?;
                let name = values::keys::name_uid_part(value);
                self.rewrite_dn(name, nested()?, &mut out)?;
                out.extend_from_slice(&value[name.len()..]);
            }
            Pretty::Csn => Normaliser::Csn.apply(value, &mut out)?,
            Pretty::Sid | Pretty::Uuid => {
                self.check_nested(attribute, value, depth)?;
                out.extend(value.iter().map(u8::to_ascii_lowercase));
            }
            Pretty::ClassName => {
                let class = self.class(value).ok_or(InvalidValue("unknown object class".into()))?;
                out.extend_from_slice(self.object_class(class).name.as_bytes());
            }
            Pretty::AttributeName => {
                let named = self.describe(value)?.attribute;
                out.extend_from_slice(self.get(named).name.as_bytes());
            }
            Pretty::Same => out.extend_from_slice(value),
        }
        Ok(out)
    }

    /// Checks an attribute value that is a DN (`dnValidate` in `servers/slapd/dn.c`), less strictly than an entry's DN.
    pub(crate) fn check_dn(&self, value: &[u8], depth: u32) -> Result<()> {
        within_limit(value)?;
        parse::dn(value)?.iter().flatten().try_for_each(|ava| self.check_ava(ava, depth))
    }

    pub(crate) fn check_rdn(&self, value: &[u8], depth: u32) -> Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        within_limit(value)?;
        parse::leading_rdn(value)?.iter().try_for_each(|ava| self.check_ava(ava, depth))
    }

    fn check_ava(&self, ava: &RawAva<'_>, depth: u32) -> Result<()> {
        self.check_nested(self.naming_type(ava)?.id, &ava.value, deeper(depth)?)
    }

    /// Whether the DN has an attribute type whose normal form is not implemented here, so its own forms are unknown.
    pub fn has_unproven_part(&self, dn: &[u8]) -> bool {
        let unproven =
            |ava: &RawAva<'_>| self.attribute(ava.name).is_some_and(|kind| self.get(kind).unsupported_rule().is_some());
        parse::dn(dn).is_ok_and(|rdns| rdns.iter().flatten().any(unproven))
    }
}

/// Returns the next level of nesting, or an error beyond the limit.
fn deeper(depth: u32) -> Result<u32> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { refuse("DNs within DNs go too deep") }
}

fn has_none(kind: &AttributeType) -> String {
    format!("\"{}\" has an empty value", kind.name)
}

/// Sorts the AVAs of an RDN by name. A duplicate attribute type is an error.
fn sort(parts: &mut [PartialAva<'_>]) -> Result<()> {
    parts.sort_by(|a, b| a.name.cmp(b.name));
    match parts.windows(2).find(|pair| pair[0].attribute == pair[1].attribute) {
        Some(twice) => refuse(format!("an RDN contains \"{}\" twice", twice[0].name)),
        None => Ok(()),
    }
}

fn join(parts: &[PartialAva<'_>], out: &mut Vec<u8>, escape: impl Fn(&[u8], &mut Vec<u8>) -> Result<()>) -> Result<()> {
    let length: usize = parts.iter().map(|part| part.name.len() + part.value.len() + 2).sum();
    out.reserve(length.min(2 * MAX_LENGTH));
    for (number, part) in parts.iter().enumerate() {
        begin(number, part.name, out);
        escape(&part.value, out)?;
    }
    Ok(())
}

/// Appends the separator, the name and `=` before a value.
fn begin(number: usize, name: &str, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b'+');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}
