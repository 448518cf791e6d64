//! Normalizes and validates attribute values.

use values::{Normaliser, Syntax};

use crate::dn::DnForm;
use crate::syntax::{Check, Pretty};
use crate::{AttributeId, Normalise, Result, Schema, refuse, x509};

/// Splits an X-ORDERED value into its position `{n}` and the rest.
fn numbered(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'}', value).filter(|_| value[0] == b'{')?;
    let number = &value[1..end];
    let numeric = !number.is_empty() && number.iter().all(|byte| byte.is_ascii_digit() || *byte == b' ');
    numeric.then(|| value.split_at(end + 1))
}

/// Kinds of values whose validity and normal form are usually evident without slapd's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    Dn,
    /// Any value is valid. No normal form is stored.
    Octets,
    /// Directory Strings or IA5 Strings that are compared without case. If a value has only ASCII characters except
    /// NUL, no spaces at either end and no two adjacent spaces, it is valid, and its normal form is its lower case.
    Text,
    /// See [`values::telephone`].
    Telephone,
    /// A value of hyphens and hexadecimal digits in the right places is valid, and its normal form is its 16 octets.
    Uuid,
    /// A CSN is valid if it has a normal form.
    Csn,
    Other,
}

impl Schema {
    /// Appends the normal form of a value to `out`, with the `{n}` of an X-ORDERED value. If values of this type are
    /// stored without a normal form, appends nothing and returns false.
    pub fn normalise(&self, id: AttributeId, value: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let kind = self.get(id);
        if kind.normaliser == Normalise::None {
            return Ok(false);
        }
        let mut rest = value;
        if let Some((number, unnumbered)) = kind.ordered.and_then(|_| numbered(value)) {
            out.extend_from_slice(number);
            if unnumbered.is_empty() {
                return Ok(true);
            }
            rest = unnumbered;
        }
        self.normalise_nested(id, rest, 0, out).map(|()| true)
    }

    pub(crate) fn normalise_nested(&self, id: AttributeId, value: &[u8], depth: u32, out: &mut Vec<u8>) -> Result<()> {
        let kind = self.get(id);
        match kind.normaliser {
            Normalise::None => out.extend_from_slice(value),
            Normalise::Value(normaliser) => normaliser.apply(value, out)?,
            Normalise::Dn => self.rewrite_dn(value, DnForm::Normal(depth), out)?,
            Normalise::Rdn => self.rewrite_rdn(value, DnForm::Normal(depth), out)?,
            Normalise::NameUid => {
                let name = values::keys::name_uid_part(value);
                self.rewrite_dn(name, DnForm::Normal(depth), out)?;
                out.extend_from_slice(&value[name.len()..]);
            }
            Normalise::Certificate => x509::normalise(self, value, out)?,
            Normalise::CertificateList => x509::normalise_list(self, value, out)?,
            Normalise::AttributeCertificate => {
                x509::normalise_attribute_certificate(self, value, out)?;
            }
            Normalise::AttributeOid => {
                let named = self.describe(value)?.attribute;
                out.extend_from_slice(self.get(named).oid.as_bytes());
            }
            Normalise::FirstOid => out.extend_from_slice(first_oid(value)?),
            Normalise::FirstInteger => out.extend_from_slice(first_integer(value)?),
            Normalise::Never => return refuse("slapd cannot normalize any of its values"),
            Normalise::Unfollowed | Normalise::Unproven => {
                let rule = kind.unsupported_rule().unwrap_or_default();
                return refuse(format!("values compared by {rule} are not supported"));
            }
        }
        Ok(())
    }

    /// Returns the form that most values of a type have.
    pub fn value_form(&self, id: AttributeId) -> ValueForm {
        let kind = self.get(id);
        let (normaliser, crate::syntax::Syntax { check, pretty, .. }) = (kind.normaliser, kind.syntax);
        match (normaliser, check, pretty) {
            (Normalise::Dn, ..) => ValueForm::Dn,
            _ if kind.ordered.is_some() => ValueForm::Other,
            (Normalise::None, Check::Plain(Syntax::OctetString), Pretty::Same) => ValueForm::Octets,
            (
                Normalise::Value(Normaliser::CaseIgnore | Normaliser::CaseIgnoreIa5),
                Check::Plain(Syntax::DirectoryString | Syntax::Ia5String),
                Pretty::Same,
            ) => ValueForm::Text,
            (Normalise::Value(Normaliser::Telephone), Check::Plain(Syntax::TelephoneNumber), Pretty::Same) => {
                ValueForm::Telephone
            }
            (Normalise::Value(Normaliser::Uuid), Check::Plain(Syntax::Uuid), Pretty::Same | Pretty::Uuid) => {
                ValueForm::Uuid
            }
            (Normalise::Value(Normaliser::Csn), _, Pretty::Csn) => ValueForm::Csn,
            _ => ValueForm::Other,
        }
    }

    /// Validates a value as slapd does (`ldapmodify`, `slapadd -o value-check=yes`): by conversion to pretty form if
    /// the syntax has one, otherwise by the syntax's validator.
    pub fn check_value(&self, id: AttributeId, value: &[u8]) -> Result<()> {
        let ordered = self.get(id).ordered.is_some();
        let value = if ordered { numbered(value).map_or(value, |(_, rest)| rest) } else { value };
        match self.get(id).syntax.pretty {
            Pretty::Same | Pretty::Uuid => self.check_nested(id, value, 0),
            _ => self.rewrite_value(id, value, 0).map(drop),
        }
    }

    pub(crate) fn check_nested(&self, id: AttributeId, value: &[u8], depth: u32) -> Result<()> {
        let (holds, complaint) = match self.get(id).syntax.check {
            Check::Plain(syntax) => return syntax.check(value),
            Check::Unchecked | Check::Unproven => return Ok(()),
            Check::Unfollowed => {
                return refuse(format!("values of \"{}\" are not supported", self.get(id).name));
            }
            Check::Dn => return self.check_dn(value, depth),
            Check::NameUid => return self.check_dn(values::keys::name_uid_part(value), depth),
            Check::Rdn => return self.check_rdn(value, depth),
            Check::Control => (is_control(value), "not a control such as {1.2.3 criticality TRUE}"),
            Check::Oid => (is_oid(value), "not an OID"),
            Check::OidOrName => (is_oid_or_name(value), "neither an OID nor a name"),
            Check::Certificate => (x509::is_certificate(value) == Some(true), "not an X.509 certificate in DER"),
            Check::CertificateList => {
                (x509::is_certificate_list(value) == Some(true), "not an X.509 certificate list in DER")
            }
            Check::AttributeCertificate => {
                (x509::is_attribute_certificate(value) == Some(true), "not an X.509 attribute certificate in DER")
            }
            Check::PrivateKey => (x509::is_private_key(value) == Some(true), "not a PKCS #8 private key"),
        };
        if holds { Ok(()) } else { refuse(complaint) }
    }
}

/// Whether the value consists of one or more numbers without leading zeros, separated by dots.
pub(crate) fn is_oid(value: &[u8]) -> bool {
    let number = |part: &[u8]| match part {
        [b'0'] => true,
        [first, ..] => *first != b'0' && part.iter().all(u8::is_ascii_digit),
        [] => false,
    };
    value.split(|&byte| byte == b'.').all(number)
}

/// Whether the value is a name, or an OID of at least two numbers.
fn is_oid_or_name(value: &[u8]) -> bool {
    match value {
        [first, rest @ ..] if first.is_ascii_alphabetic() => {
            rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        }
        _ => value.contains(&b'.') && is_oid(value),
    }
}

/// Returns the first word in the parentheses or braces of a schema definition, which must be an OID
/// (`firstComponentNormalize` in `servers/slapd/schema_init.c`).
fn first_oid(value: &[u8]) -> Result<&[u8]> {
    first(value).filter(|word| is_oid(word)).map_or_else(|| refuse("does not begin with an OID"), Ok)
}

/// Returns the first word, which must be an integer.
fn first_integer(value: &[u8]) -> Result<&[u8]> {
    let fits = |word: &&[u8]| Syntax::Integer.check(word).is_ok();
    first(value).filter(fits).map_or_else(|| refuse("does not begin with an integer"), Ok)
}

fn first(value: &[u8]) -> Option<&[u8]> {
    let ([b'(', inner @ .., b')'] | [b'{', inner @ .., b'}']) = value else { return None };
    Some(word(trim_start(inner))).filter(|_| !inner.is_empty())
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| byte == b' ').count()..]
}

fn word(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == b' ').next().unwrap_or_default()
}

/// Whether the value has the form `{OID criticality TRUE controlValue "0a1B"}`, of which the last two parts are
/// optional (`logSchemaControlValidate` in `overlays/accesslog.c`).
fn is_control(value: &[u8]) -> bool {
    let [b'{', inner @ .., b'}'] = value else { return false };
    let rest = trim_start(inner);
    let oid = word(rest);
    let rest = trim_start(&rest[oid.len()..]);
    is_oid(oid) && after_criticality(rest).is_some_and(is_control_value)
}

fn after_criticality(rest: &[u8]) -> Option<&[u8]> {
    let Some(rest) = after_keyword(rest, b"criticality ") else { return Some(rest) };
    let answer = word(rest);
    matches!(answer, b"TRUE" | b"FALSE").then(|| trim_start(&rest[answer.len()..]))
}

fn is_control_value(rest: &[u8]) -> bool {
    let Some(value) = after_keyword(rest, b"controlValue ") else { return rest.is_empty() };
    let Some(digits) = value.strip_prefix(b"\"") else { return false };
    let length = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    length % 2 == 0 && digits.get(length) == Some(&b'"') && trim_start(&digits[length + 1..]).is_empty()
}

/// Returns the text after the keyword, which is compared without case.
fn after_keyword<'a>(text: &'a [u8], keyword: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then(|| trim_start(rest))
}
