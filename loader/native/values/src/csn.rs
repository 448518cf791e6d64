//! Change sequence numbers `YYYYmmddHHMMSS.uuuuuuZ#SSSSSS#SID#ssssss` (draft-chu-ldap-csn), and the older forms that
//! slapd still accepts (`servers/slapd/schema_init.c`).

use crate::{InvalidValue, Result, time};

const REFUSAL: InvalidValue = InvalidValue::new("not a valid CSN");

/// Returns the four fields, which are separated by `#`.
fn fields(value: &[u8]) -> Option<[&[u8]; 4]> {
    let mut parts = value.splitn(4, |&byte| byte == b'#');
    Some([parts.next()?, parts.next()?, parts.next()?, parts.next()?])
}

/// Whether the fields have the lengths of a CSN of OpenLDAP 2.4 and later.
fn is_current(value: &[u8]) -> bool {
    let Some(head) = value.get(..34).filter(|_| value.len() == 40) else { return false };
    let marks: u8 = head.iter().map(|byte| u8::from(*byte == b'#')).sum();
    marks == 3 && [22, 29, 33].iter().all(|at| head[*at] == b'#')
}

/// Whether a CSN is valid and in normal form, as all CSNs are that slapd generates.
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

/// Checks a CSN with the normalizer, which slapd uses instead of its validator.
pub fn check(value: &[u8]) -> Result<()> {
    if is_current(value) { Ok(()) } else { normalise(value, &mut Vec::new()) }
}

/// Appends the normal form. If the CSN has the current lengths, only the positions of `#` are checked.
pub fn normalise(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    if is_current(value) {
        out.extend_from_slice(value);
        out[start + 30..].make_ascii_lowercase();
        return Ok(());
    }
    let [stamp, count, sid, change] = fields(value).ok_or(REFUSAL)?;
    let lower = change.to_ascii_lowercase();
    let parts: &[&[u8]] = match [stamp, count, sid, change].map(<[u8]>::len) {
        // slapd 2.3: `YYYYmmddHHMMSSZ#SSSSSS#ID#ssssss`
        [15, 6, 2, 6] => &[&stamp[..14], b".000000Z#", count, b"#0", &sid.to_ascii_lowercase(), b"#", &lower],
        // slapd 2.1: `YYYYmmddHH:MM:SSZ#0xSSSS#I#ssss`
        [17, 6, 1, 4] if stamp[10] == b':' && stamp[13] == b':' && count.starts_with(b"0x") => {
            let (hours, minutes, seconds) = (&stamp[..10], &stamp[11..13], &stamp[14..16]);
            &[hours, minutes, seconds, b".000000Z#00", &count[2..], b"#00", sid, b"#00", &lower]
        }
        _ => return Err(REFUSAL),
    };
    out.extend(parts.concat());
    // slapd passes a converted CSN to its validator.
    let is_valid = fields(&out[start..]).is_some_and(|[stamp, count, sid, change]| {
        time::check(stamp).is_ok() && is_hex(count, 6) && is_sid(sid) && is_hex(change, 6)
    });
    if is_valid { Ok(()) } else { Err(REFUSAL) }
}

/// Appends the server ID as three digits. A server ID of slapd 2.3 has two digits. The other fields are not checked.
pub fn normalise_sid(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let [_, _, sid, _] = fields(value).ok_or(REFUSAL)?;
    if !is_hex(sid, 2) && !is_sid(sid) {
        return Err(REFUSAL);
    }
    out.extend_from_slice(if sid.len() == 2 { b"0" } else { b"" });
    out.extend(sid.iter().map(u8::to_ascii_lowercase));
    Ok(())
}
