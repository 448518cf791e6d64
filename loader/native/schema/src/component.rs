//! Values in parentheses or braces, known by their first word: definitions of the schema, and the
//! controls that slapo-accesslog logs (`firstComponentNormalize` in `servers/slapd/schema_init.c`,
//! `logSchemaControlValidate` in `overlays/accesslog.c`).

use crate::Result;
use values::{InvalidValue, Syntax};

use crate::normalise::is_oid;

/// The first word, which must be an OID.
pub fn first_oid(value: &[u8]) -> Result<&[u8]> {
    first(value)
        .filter(|word| is_oid(word))
        .ok_or(InvalidValue("does not begin with an OID".into()))
}

/// The first word, which must be an integer.
pub fn first_integer(value: &[u8]) -> Result<&[u8]> {
    let fits = |word: &&[u8]| Syntax::Integer.check(word).is_ok();
    first(value).filter(fits).ok_or(InvalidValue("does not begin with an integer".into()))
}

fn first(value: &[u8]) -> Option<&[u8]> {
    let ([b'(', inner @ .., b')'] | [b'{', inner @ .., b'}']) = value else { return None };
    Some(word(trim_start(inner))).filter(|_| !inner.is_empty())
}

fn is_space(byte: u8) -> bool {
    byte == b' '
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| is_space(byte)).count()..]
}

fn word(text: &[u8]) -> &[u8] {
    &text[..text.iter().take_while(|&&byte| !is_space(byte)).count()]
}

/// `{OID criticality TRUE controlValue "0a1B"}`, the last two parts optional.
pub fn is_control(value: &[u8]) -> bool {
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
    length % 2 == 0
        && digits.get(length) == Some(&b'"')
        && trim_start(&digits[length + 1..]).is_empty()
}

/// What follows the keyword, whatever its case.
fn after_keyword<'a>(text: &'a [u8], keyword: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then(|| trim_start(rest))
}
