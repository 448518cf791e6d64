//! Change sequence numbers `YYYYmmddHHMMSS.uuuuuuZ#SSSSSS#SID#ssssss` (draft-chu-ldap-csn), and the older forms that
//! slapd still accepts (`servers/slapd/schema_init.c`).

use crate::{InvalidValue, Result, time};

const REFUSAL: InvalidValue = InvalidValue::new("not a valid CSN");

/// Returns the four fields, which are separated by `#`.
fn fields(value: &[u8]) -> Option<[&[u8]; 4]> {
    let mut parts = value.splitn(4, |&byte| byte == b'#');
    Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
}

/// Whether the fields have the same lengths as in OpenLDAP 2.4 and later.
fn is_current(value: &[u8]) -> bool {
    let Some(head) = value.get(..34).filter(|_| value.len() == 40) else { return false };
    let marks: u8 = head.iter().map(|byte| u8::from(*byte == b'#')).sum();
    marks == 3 && [22, 29, 33].iter().all(|at| head[*at] == b'#')
}

/// Whether a CSN is valid and already in normal form, as are all CSNs that slapd generates.
pub fn is_normal_csn(value: &[u8]) -> bool {
    is_current(value) && !value[30..].iter().any(u8::is_ascii_uppercase)
}

fn is_hex(text: &[u8], length: usize) -> bool {
    text.len() == length && text.iter().all(u8::is_ascii_hexdigit)
}

/// Whether `text` is a server ID: three hexadecimal digits.
pub fn is_sid(text: &[u8]) -> bool {
    is_hex(text, 3)
}

/// Checks a CSN as slapd does, which uses its normalizer instead of its validator.
pub fn check(value: &[u8]) -> Result<()> {
    if is_current(value) { Ok(()) } else { normalise(value, &mut Vec::new()) }
}

/// Checks a converted CSN as slapd's validator does.
fn is_valid(value: &[u8]) -> bool {
    fields(value).is_some_and(|[stamp, count, sid, change]| {
        time::check(stamp).is_ok() && is_hex(count, 6) && is_sid(sid) && is_hex(change, 6)
    })
}

/// Appends the normal form. If the CSN is in the current form, only the positions of `#` are checked.
pub fn normalise(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    if is_current(value) {
        out.extend_from_slice(value);
        out[start + 30..].make_ascii_lowercase();
        return Ok(());
    }
    let fields = fields(value).ok_or(REFUSAL)?;
    match fields.map(<[u8]>::len) {
        [15, 6, 2, 6] => rewrite_of_2_3(fields, out),
        [17, 6, 1, 4] => rewrite_of_2_1(fields, out).ok_or(REFUSAL)?,
        _ => return Err(REFUSAL),
    }
    InvalidValue::unless(is_valid(&out[start..]), "not a valid CSN")
}

/// Appends the server ID as three digits; in a CSN of slapd 2.3 it has two. The other fields are not checked.
pub fn normalise_sid(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let [_, _, sid, _] = fields(value).ok_or(REFUSAL)?;
    InvalidValue::unless(is_hex(sid, 2) || is_sid(sid), "not a valid CSN")?;
    out.extend_from_slice(if sid.len() == 2 { b"0" } else { b"" });
    out.extend(sid.iter().map(u8::to_ascii_lowercase));
    Ok(())
}

/// Converts a CSN of slapd 2.3: `YYYYmmddHHMMSSZ#SSSSSS#ID#ssssss`.
fn rewrite_of_2_3([stamp, count, sid, change]: [&[u8]; 4], out: &mut Vec<u8>) {
    let sid = sid.to_ascii_lowercase();
    let change = change.to_ascii_lowercase();
    let parts: [&[u8]; 7] = [&stamp[..14], b".000000Z#", count, b"#0", &sid, b"#", &change];
    out.extend(parts.concat());
}

/// Converts a CSN of slapd 2.1: `YYYYmmddHH:MM:SSZ#0xSSSS#I#ssss`.
fn rewrite_of_2_1([stamp, count, sid, change]: [&[u8]; 4], out: &mut Vec<u8>) -> Option<()> {
    let count = count.strip_prefix(b"0x").filter(|_| stamp[10] == b':' && stamp[13] == b':')?;
    let (hours, minutes, seconds) = (&stamp[..10], &stamp[11..13], &stamp[14..16]);
    let change = change.to_ascii_lowercase();
    let parts: [&[u8]; 9] = [hours, minutes, seconds, b".000000Z#00", count, b"#00", sid, b"#00", &change];
    out.extend(parts.concat());
    Some(())
}
