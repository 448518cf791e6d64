//! Filters of authorization rules in the form in which slapd keeps them (`str2filter` and
//! `filter2bv` in `servers/slapd`): names canonical, values normal.
//!
//! What slapd makes of unknown attributes, values that do not fit, approximate and extensible
//! matches and escapes is not followed: such a filter is refused.

use values::Normaliser;

use super::refuse;
use crate::{AttributeType, InvalidValue, Normalise, Rule, Schema};

/// slapd's own limit is a thousand.
const DEEPEST: usize = 100;

const UNKNOWN: &str = "a filter of a URL that is not known well enough";

/// The rule normalises values as the equality rule does. Without one, slapd has a mark for it.
fn is_like_equality(kind: &AttributeType, rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| rule.normalise == kind.normaliser)
}

impl Schema {
    /// The filter with the parentheses that it may lack.
    pub(super) fn normal_filter(&self, text: &[u8]) -> Result<Vec<u8>, InvalidValue> {
        let mut out = Vec::with_capacity(text.len());
        if text.first() != Some(&b'(') {
            self.item(text, &mut out)?;
        } else if !self.filter(text, 0, &mut out)?.is_empty() {
            return refuse("something follows the filter of a URL");
        }
        Ok(out)
    }

    /// Appends the filter at the head of `text`; what follows it comes back.
    fn filter<'a>(
        &self,
        text: &'a [u8],
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<&'a [u8], InvalidValue> {
        let Some(inner) = text.strip_prefix(b"(").filter(|_| depth < DEEPEST) else {
            return refuse("a filter of a URL that does not read");
        };
        let [operator @ (b'&' | b'|' | b'!'), operands @ ..] = inner else {
            let end = inner.iter().position(|&byte| byte == b')');
            let Some(end) = end else { return refuse("a filter of a URL does not end") };
            self.item(&inner[..end], out)?;
            return Ok(&inner[end + 1..]);
        };
        out.extend([b'(', *operator]);
        let mut rest = operands;
        let mut count = 0;
        while rest.first() == Some(&b'(') {
            rest = self.filter(rest, depth + 1, out)?;
            count += 1;
        }
        out.push(b')');
        let fits = count > 0 && (*operator != b'!' || count == 1);
        match rest.strip_prefix(b")").filter(|_| fits) {
            Some(rest) => Ok(rest),
            None => refuse(UNKNOWN),
        }
    }

    /// Appends `(attribute=value)` and its like.
    fn item(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
        let Some(at) = text.iter().position(|&byte| byte == b'=') else {
            return refuse("a filter of a URL has no \"=\"");
        };
        let (left, value) = (&text[..at], &text[at + 1..]);
        let ordering = matches!(left.last(), Some(b'<' | b'>'));
        let name = if ordering { &left[..at - 1] } else { left };
        let described = self.describe(name)?;
        out.push(b'(');
        out.extend_from_slice(described.text.as_bytes());
        out.extend_from_slice(&left[name.len()..]);
        out.push(b'=');
        let kind = self.get(described.attribute);
        if value == b"*" && !ordering {
            out.push(b'*');
        } else if ordering && !is_like_equality(kind, kind.ordering.as_ref()) {
            return refuse(UNKNOWN);
        } else if value.contains(&b'*') {
            self.pieces(kind, value, out)?;
        } else {
            self.asserted(kind, value, out)?;
        }
        out.push(b')');
        Ok(())
    }

    /// The pieces of a substrings filter. At their ends slapd treats spaces in a way of its own.
    fn pieces(
        &self,
        kind: &AttributeType,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        if !is_like_equality(kind, kind.substrings.as_ref())
            || value.contains(&b' ')
            || value.windows(2).any(|two| two == b"**")
        {
            return refuse(UNKNOWN);
        }
        for (number, piece) in value.split(|&byte| byte == b'*').enumerate() {
            if number > 0 {
                out.push(b'*');
            }
            if !piece.is_empty() {
                self.asserted(kind, piece, out)?;
            }
        }
        Ok(())
    }

    /// A value as the attribute's equality rule normalises it.
    fn asserted(
        &self,
        kind: &AttributeType,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let plain = |byte: &u8| (b' '..=b'~').contains(byte) && !b"()*\\".contains(byte);
        let known = match kind.normaliser {
            Normalise::None | Normalise::Dn => true,
            Normalise::Value(normaliser) => {
                !matches!(normaliser, Normaliser::Uuid | Normaliser::Csn | Normaliser::CsnSid)
            }
            _ => false,
        };
        if !known || kind.equality.is_none() || kind.ordered.is_some() || value.is_empty() {
            return refuse(UNKNOWN);
        }
        self.check_value(kind.id, value)?;
        let start = out.len();
        self.normalise_nested(kind.id, value, 0, out)?;
        if out[start..].iter().all(plain) && value.iter().all(plain) {
            return Ok(());
        }
        refuse("a value in a filter of a URL that slapd would escape")
    }
}
