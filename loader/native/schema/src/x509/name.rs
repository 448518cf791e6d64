//! Names in certificates to DNs in normal form.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::refuse;
use super::shape::{BIT_STRING, BMP, OID, SEQUENCE, SET, TELETEX, Tlv, UNIVERSAL, elements};
use crate::{Result, Schema};

/// Type and value of one AVA.
type TypeAndValue<'a> = (String, Cow<'a, [u8]>);

impl Schema {
    /// Appends the DN that a sequence of RDN sets stands for, the last of them first.
    pub(super) fn x509_name(&self, sequence: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let sets = inner(sequence, SET)?;
        for (number, set) in sets.iter().rev().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let avas = inner(set, SEQUENCE)?.into_iter().map(type_and_value);
            self.normal_rdn_escaped(&avas.collect::<Result<Vec<_>, _>>()?, out)?;
        }
        Ok(())
    }
}

/// Contents of the elements, which must all have this tag.
fn inner(bytes: &[u8], tag: u8) -> Result<Vec<&[u8]>> {
    let fits = |element| match element {
        Ok(Tlv { tag: found, content }) if found == tag => Ok(content),
        _ => refuse("a name in the certificate is damaged"),
    };
    elements(bytes).map(fits).collect()
}

fn type_and_value(sequence: &[u8]) -> Result<TypeAndValue<'_>> {
    let mut fields = elements(sequence);
    match (fields.next(), fields.next(), fields.next()) {
        (Some(Ok(Tlv { tag: OID, content: oid })), Some(Ok(value)), None) => {
            let Some(oid) = dotted(oid) else {
                return refuse("a name in the certificate has a bad OID");
            };
            Ok((oid, text(value)?))
        }
        _ => refuse("a name in the certificate is damaged"),
    }
}

/// The dotted form of an OID's content bytes.
fn dotted(bytes: &[u8]) -> Option<String> {
    let mut oid = String::new();
    let mut number = 0_u64;
    let mut inside = false;
    for byte in bytes {
        if !inside && *byte == 0x80 {
            return None;
        }
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        inside = byte & 0x80 != 0;
        if inside {
            continue;
        }
        let shown = if oid.is_empty() { first_two(number) } else { format!(".{number}") };
        oid.write_str(&shown).ok()?;
        number = 0;
    }
    (!inside && !oid.is_empty()).then_some(oid)
}

fn first_two(number: u64) -> String {
    let first = if number < 80 { number / 40 } else { 2 };
    format!("{first}.{}", number - 40 * first)
}

/// The value in UTF-8. All other types are taken byte by byte, strings or not, as libldap does.
fn text(value: Tlv<'_>) -> Result<Cow<'_, [u8]>> {
    match value.tag {
        UNIVERSAL => wide(value.content, 4),
        BMP => wide(value.content, 2),
        TELETEX => wide(value.content, 1),
        BIT_STRING => Ok(Cow::Owned(bits(value.content))),
        _ => Ok(Cow::Borrowed(value.content)),
    }
}

/// Characters of a fixed width to UTF-8, without a look at surrogates.
fn wide(content: &[u8], width: usize) -> Result<Cow<'_, [u8]>> {
    let mut out = Vec::with_capacity(content.len());
    for unit in content.chunks_exact(width) {
        let code = unit.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte));
        if code > 0x10_ffff {
            return refuse("a name in the certificate holds a character beyond Unicode");
        }
        values::utf8::encode(code, &mut out);
    }
    Ok(Cow::Owned(out))
}

/// `'0101'B`; the first byte tells how many bits of the last do not count.
fn bits(content: &[u8]) -> Vec<u8> {
    let (unused, bytes) =
        content.split_first().map_or((0, content), |(first, rest)| (usize::from(*first), rest));
    let count = (8 * bytes.len()).saturating_sub(unused);
    let bit = |at: usize| if bytes[at / 8] & 0x80 >> (at % 8) == 0 { b'0' } else { b'1' };
    let mut out = vec![b'\''];
    out.extend((0..count).map(bit));
    out.extend_from_slice(b"'B");
    out
}
