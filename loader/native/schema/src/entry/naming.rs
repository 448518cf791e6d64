//! Attributes that name an entry.

use crate::schema::refusal;
use crate::{Ava, ObjectClassSet, Rdn, Result, RuleKind, Schema};

impl ObjectClassSet {
    /// slapd does not check the naming attributes of glue entries, nor does it add them.
    pub fn is_glue(&self) -> bool {
        self.flags & 0x20 != 0
    }
}

impl Schema {
    /// Checks that the attributes of an RDN can name an entry. Whether the entry holds the values,
    /// and what is added if not, is another matter: see [`rdn_value_held`](Self::rdn_value_held).
    pub fn check_naming(&self, rdn: &Rdn) -> Result<()> {
        rdn.avas.iter().try_for_each(|ava| self.check_naming_attribute(ava))
    }

    fn check_naming_attribute(&self, ava: &Ava) -> Result<()> {
        let kind = self.get(ava.attribute);
        let why = if kind.operational() {
            "is operational"
        } else if kind.collective {
            "is collective"
        } else if kind.obsolete {
            "is obsolete"
        } else if kind.equality.is_none() {
            "has no equality matching rule"
        } else if kind.equality.as_ref().is_some_and(|rule| !rule.matches) {
            "has an equality matching rule that slapd does not support"
        } else {
            return Ok(());
        };
        Err(refusal(format!("naming attribute '{}' {why}", kind.name)))
    }

    /// Whether a value of an RDN is among the values of its attribute in the entry, given as they
    /// are stored for comparing: in normal form where there is one. `asserted` is the RDN's value in
    /// the same form.
    pub fn rdn_value_held<'a>(
        &self,
        ava: &Ava,
        asserted: &[u8],
        stored: impl IntoIterator<Item = &'a [u8]>,
    ) -> bool {
        let kind = self.get(ava.attribute);
        let rule = kind.equality.as_ref().map(|rule| rule.kind);
        stored.into_iter().any(|value| match rule {
            Some(RuleKind::ObjectClass) => self.class_is_a(value, asserted),
            _ => kind.order.compare(value, asserted).is_eq(),
        })
    }

    fn class_is_a(&self, value: &[u8], asserted: &[u8]) -> bool {
        let classes = self.class(value).zip(self.class(asserted));
        classes.is_some_and(|(value, asserted)| self.object_class(value).is_a(asserted))
    }
}
