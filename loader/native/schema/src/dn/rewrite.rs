//! DNs and RDNs written again in one of slapd's forms.

use std::borrow::Cow;

use super::parse::{self, RawAva, RawRdn};
use super::{Ava, MAX_LENGTH, Rdn, within_limit, write};
use crate::{AttributeId, InvalidValue, Schema, ValueForm, XOrdered, refuse};

/// What a DN is rewritten to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnForm {
    /// As slapd stores the names of entries.
    Pretty,
    /// As slapd compares DNs.
    Normal,
}

/// An AVA on its way: the canonical name and the value so far.
struct PartialAva<'a> {
    attribute: AttributeId,
    name: &'a str,
    value: Cow<'a, [u8]>,
}

impl Schema {
    /// Reads an RDN of one value of [text](ValueForm::Text) that no form of it changes but in case, as most entries have it.
    /// Returns `None` for any other, valid or not.
    pub(super) fn plain_rdn(&self, text: &[u8], rdn: &mut Rdn) -> Option<()> {
        let (name, value) = text.split_at(memchr::memchr(b'=', text)?);
        let value = &value[1..];
        if value.is_empty() || !parse::is_name(name) || !write::is_plain(value) {
            return None;
        }
        let attribute =
            self.attribute(name).filter(|id| self.value_form(*id) == ValueForm::Text)?;
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

    /// An RDN of an entry: pretty, and normal as made from the pretty one.
    pub(super) fn both_forms(&self, raw: RawRdn<'_>) -> Result<Rdn, InvalidValue> {
        let parts = self.parts(raw, DnForm::Pretty, 0)?;
        let mut rdn = Rdn::default();
        join(&parts, &mut rdn.pretty, write::escape)?;
        rdn.normal.reserve_exact(rdn.pretty.len());
        for (number, part) in parts.iter().enumerate() {
            begin(number, part.name, &mut rdn.normal);
            let start = rdn.normal.len();
            self.push_normal_of_pretty(part.attribute, &part.value, &mut rdn.normal)?;
            write::escape_tail(start, &mut rdn.normal)?;
        }
        let ava = |part: PartialAva<'_>| Ava {
            attribute: part.attribute,
            value: part.value.into_owned(),
        };
        rdn.avas = parts.into_iter().map(ava).collect();
        Ok(rdn)
    }

    /// A DN that is a value, in one form; values for [`DnForm::Normal`] are not made pretty first.
    pub(crate) fn rewrite_dn(
        &self,
        text: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        if form == DnForm::Pretty {
            within_limit(text)?;
        }
        for (number, rdn) in parse::dn(text)?.into_iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            join(&self.parts(rdn, form, depth)?, out, write::escape)?;
        }
        Ok(())
    }

    /// As [`rewrite_dn`](Self::rewrite_dn), for a value that is one RDN; slapd does not look at what
    /// follows that.
    pub(crate) fn rewrite_rdn(
        &self,
        text: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        if text.is_empty() {
            return Ok(());
        }
        if form == DnForm::Pretty {
            within_limit(text)?;
        }
        let rdn = parse::leading_rdn(text)?;
        join(&self.parts(rdn, form, depth)?, out, write::escape)
    }

    /// One RDN of a certificate's name in normal form, with all beyond ASCII escaped.
    pub(crate) fn normal_rdn_escaped(
        &self,
        avas: &[(String, Cow<'_, [u8]>)],
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let raw = avas.iter().map(|(name, value)| RawAva {
            name: name.as_bytes(),
            value: Cow::Borrowed(value),
            ber: false,
        });
        join(&self.parts(raw.collect(), DnForm::Normal, 0)?, out, write::escape_ascii)
    }

    /// The AVAs of an RDN with their values in one form, in the order of their names.
    fn parts<'a>(
        &'a self,
        raw: RawRdn<'a>,
        form: DnForm,
        depth: u32,
    ) -> Result<Vec<PartialAva<'a>>, InvalidValue> {
        let mut parts = Vec::with_capacity(raw.len());
        for ava in raw {
            parts.push(self.part(ava, form, depth)?);
        }
        if parts.len() > 1 {
            sort(&mut parts)?;
        }
        Ok(parts)
    }

    fn part<'a>(
        &'a self,
        ava: RawAva<'a>,
        form: DnForm,
        depth: u32,
    ) -> Result<PartialAva<'a>, InvalidValue> {
        let Some(attribute) = self.attribute(ava.name) else {
            let name = String::from_utf8_lossy(ava.name);
            return refuse(format!("attribute type \"{name}\" is not in the schema"));
        };
        let name = &self.get(attribute).name;
        if self.get(attribute).ordered == Some(XOrdered::Values) {
            return refuse(format!("\"{name}\" has ordered values and cannot name an entry"));
        }
        if ava.ber {
            return refuse(format!("\"{name}\" is given in hexadecimal BER form"));
        }
        let value = match ava.value {
            Cow::Borrowed(value) => self.in_form(attribute, value, form, depth)?,
            Cow::Owned(value) => {
                Cow::Owned(self.in_form(attribute, &value, form, depth)?.into_owned())
            }
        };
        Ok(PartialAva { attribute, name, value })
    }

    fn in_form<'a>(
        &self,
        attribute: AttributeId,
        value: &'a [u8],
        form: DnForm,
        depth: u32,
    ) -> Result<Cow<'a, [u8]>, InvalidValue> {
        match form {
            DnForm::Pretty => self.pretty_value(attribute, value, depth),
            DnForm::Normal => self.normal_value(attribute, value, depth).map(Cow::Owned),
        }
    }
}

/// Orders the AVAs of an RDN by name; the same attribute type twice is refused.
fn sort(parts: &mut [PartialAva<'_>]) -> Result<(), InvalidValue> {
    parts.sort_by(|a, b| a.name.cmp(b.name));
    match parts.windows(2).find(|pair| pair[0].attribute == pair[1].attribute) {
        Some(twice) => refuse(format!("an RDN holds \"{}\" twice", twice[0].name)),
        None => Ok(()),
    }
}

fn join(
    parts: &[PartialAva<'_>],
    out: &mut Vec<u8>,
    escape: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), InvalidValue>,
) -> Result<(), InvalidValue> {
    let length: usize = parts.iter().map(|part| part.name.len() + part.value.len() + 2).sum();
    out.reserve(length.min(2 * MAX_LENGTH));
    for (number, part) in parts.iter().enumerate() {
        begin(number, part.name, out);
        escape(&part.value, out)?;
    }
    Ok(())
}

/// Writes what stands before a value.
fn begin(number: usize, name: &str, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b'+');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}
