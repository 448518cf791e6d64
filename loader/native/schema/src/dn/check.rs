//! Whether a value is a DN (`dnValidate` in `servers/slapd/dn.c`): looser than using it as one.

use super::parse::{self, RawAva};
use super::{deeper, within_limit};
use crate::{InvalidValue, Result, Schema, XOrdered};

impl Schema {
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

    /// Whether a part of a DN is of a type whose normal form is not known here, so that nothing can be
    /// said of the DN's own forms.
    pub fn has_unproven_part(&self, dn: &[u8]) -> bool {
        let unproven = |ava: &RawAva<'_>| {
            self.attribute(ava.name).is_some_and(|kind| self.get(kind).unsupported_rule().is_some())
        };
        parse::dn(dn).is_ok_and(|rdns| rdns.iter().flatten().any(unproven))
    }

    fn check_ava(&self, ava: &RawAva<'_>, depth: u32) -> Result<()> {
        let Some(attribute) = self.attribute(ava.name) else {
            let name = String::from_utf8_lossy(ava.name);
            return Err(InvalidValue(
                format!("attribute type \"{name}\" is not in the schema").into(),
            ));
        };
        let kind = self.get(attribute);
        if kind.ordered == Some(XOrdered::Values) {
            return Err(InvalidValue(format!("\"{}\" has ordered values", kind.name).into()));
        }
        self.check_nested(attribute, &ava.value, deeper(depth)?)
    }
}
