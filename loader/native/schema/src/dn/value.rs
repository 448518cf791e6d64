//! Values inside DNs: checked, made pretty, normalised.

use std::borrow::Cow;

use super::{DnForm, within_limit};
use crate::syntax::Pretty;
use crate::{AttributeId, InvalidValue, Normalise, Result, Schema, refuse};

/// DNs stand in values of DNs. slapd follows them as deep as 8192 bytes allow; nobody has more than
/// two.
const MAX_DEPTH: u32 = 16;

/// One level further into DNs that stand in DNs.
pub(super) fn deeper(depth: u32) -> Result<u32> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { refuse("DNs within DNs go too deep") }
}

impl Schema {
    /// The value as slapd keeps it in an entry's name.
    pub(super) fn pretty_value<'a>(
        &self,
        attribute: AttributeId,
        value: &'a [u8],
        depth: u32,
    ) -> Result<Cow<'a, [u8]>> {
        let kind = self.get(attribute);
        let pretty = match kind.syntax.pretty {
            Pretty::Same => {
                self.check_nested(attribute, value, depth)?;
                Cow::Borrowed(value)
            }
            _ => Cow::Owned(self.rewrite_value(attribute, value, depth)?),
        };
        if pretty.is_empty() {
            return refuse(format!("\"{}\" has an empty value", kind.name));
        }
        Ok(pretty)
    }

    /// The value as it is compared inside DNs, of a value that has not been looked at.
    pub(super) fn normal_value(
        &self,
        attribute: AttributeId,
        value: &[u8],
        depth: u32,
    ) -> Result<Vec<u8>> {
        self.check_nested(attribute, value, depth)?;
        let mut normal = Vec::with_capacity(value.len());
        self.push_comparable(attribute, value, depth, &mut normal)?;
        Ok(normal)
    }

    /// Appends the same of a pretty value, without escapes. A value that has no pretty form of its
    /// own has been checked.
    pub(super) fn push_normal_of_pretty(
        &self,
        attribute: AttributeId,
        pretty: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.get(attribute).syntax.pretty != Pretty::Same {
            self.check_nested(attribute, pretty, 0)?;
        }
        self.push_comparable(attribute, pretty, 0, out)
    }

    /// Inside DNs slapd takes values for asserted ones: UUIDs stay as they are, and so do the first
    /// components of definitions.
    fn push_comparable(
        &self,
        attribute: AttributeId,
        value: &[u8],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let kind = self.get(attribute);
        let start = out.len();
        match kind.normaliser {
            Normalise::None
            | Normalise::Value(values::Normaliser::Uuid)
            | Normalise::FirstOid
            | Normalise::FirstInteger
            | Normalise::Never => out.extend_from_slice(value),
            Normalise::Certificate
            | Normalise::CertificateList
            | Normalise::AttributeCertificate
            | Normalise::Value(values::Normaliser::CsnSid) => {
                return refuse(format!("a value of \"{}\" cannot stand in a DN", kind.name));
            }
            _ => self.normalise_nested(attribute, value, deeper(depth)?, out)?,
        }
        if out.len() == start {
            return refuse(format!("\"{}\" has an empty value", kind.name));
        }
        Ok(())
    }

    /// Pretty forms that can differ from the value.
    pub(crate) fn rewrite_value(
        &self,
        attribute: AttributeId,
        value: &[u8],
        depth: u32,
    ) -> Result<Vec<u8>> {
        let kind = self.get(attribute);
        let mut out = Vec::with_capacity(value.len());
        match kind.syntax.pretty {
            Pretty::Dn => self.rewrite_dn(value, DnForm::Pretty, deeper(depth)?, &mut out)?,
            Pretty::Rdn => self.rewrite_rdn(value, DnForm::Pretty, deeper(depth)?, &mut out)?,
            Pretty::NameUid => {
                within_limit(value)?;
                let name = values::keys::name_uid_part(value);
                self.rewrite_dn(name, DnForm::Pretty, deeper(depth)?, &mut out)?;
                out.extend_from_slice(&value[name.len()..]);
            }
            Pretty::Csn => values::Normaliser::Csn.apply(value, &mut out)?,
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
            Pretty::Unproven => {
                return refuse(format!("values of \"{}\" inside DNs are not supported", kind.name));
            }
        }
        Ok(out)
    }
}
