//! Change sequence numbers: `20261121070000.123456Z#000000#001#000000` (time, change count, server ID, modification;
//! draft-ietf-ldup-model, libldap `ldap_pvt_csnstr`).
//!
//! These functions compare values in LDIF: an invalid CSN counts as 0. The crate `values` validates CSNs as slapd does.

/// Packs a CSN into a number so that numbers have the order of the CSNs; returns 0 if the CSN is invalid.
///
/// The number has 67 bits for the decimal time, 24 for the count, 12 for the server ID, 24 for the modification. Short
/// forms of old servers are accepted too: without microseconds, or with a server ID of two digits.
pub fn pack(csn: &[u8]) -> u128 {
    parse(csn).unwrap_or(0)
}

/// Returns the text of a packed CSN.
pub fn unpack(packed: u128) -> String {
    let (time, count) = (packed >> 60, packed >> 36 & 0xff_ffff);
    let (sid, modification) = (server(packed), packed & 0xff_ffff);
    let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
    format!("{seconds:014}.{micros:06}Z#{count:06x}#{sid:03x}#{modification:06x}")
}

/// Returns the server ID of a packed CSN.
pub const fn server(packed: u128) -> u16 {
    (packed >> 24 & 0xfff) as u16
}

/// Returns the server ID, also of a CSN of which only the other parts are invalid.
pub fn sid(csn: &[u8]) -> Option<u16> {
    let part = csn.split(|&byte| byte == b'#').nth(2)?;
    number::<16>(part, 3).and_then(|sid| sid.try_into().ok())
}

fn parse(csn: &[u8]) -> Option<u128> {
    let mut parts = csn.split(|&byte| byte == b'#');
    let time = time(parts.next()?)?;
    let count = number::<16>(parts.next()?, 6)?;
    let sid = number::<16>(parts.next()?, 3)?;
    let modification = number::<16>(parts.next()?, 6)?;
    parts.next().is_none().then_some((time << 60) | (count << 36) | (sid << 24) | modification)
}

fn time(text: &[u8]) -> Option<u128> {
    let text = text.strip_suffix(b"Z")?;
    let (seconds, micros) = match text.len() {
        14 => (text, &b"0"[..]),
        21 if text[14] == b'.' => (&text[..14], &text[15..]),
        _ => return None,
    };
    Some(number::<10>(seconds, 14)? * 1_000_000 + number::<10>(micros, 6)?)
}

/// Returns the value of a number with up to `most` digits; `most` is at most 14.
fn number<const RADIX: u64>(digits: &[u8], most: usize) -> Option<u128> {
    if digits.is_empty() || digits.len() > most {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        if u64::from(digit) >= RADIX {
            return None;
        }
        value = value * RADIX + u64::from(digit);
    }
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_csns_have_the_order_of_the_text() {
        let ascending: [&[u8]; 6] = [
            b"20251231235959.999999Z#ffffff#fff#ffffff",
            b"20260101000000.000000Z#000000#000#000000",
            b"20260101000000.000000Z#000000#000#000001",
            b"20260101000000.000000Z#000000#001#000000",
            b"20260101000000.000000Z#000001#000#000000",
            b"20260101000000.000001Z#000000#000#000000",
        ];
        assert!(ascending.windows(2).all(|pair| pack(pair[0]) < pack(pair[1])));
        assert!(pack(ascending[0]) > 0);
        assert!(ascending.iter().all(|csn| unpack(pack(csn)).as_bytes() == *csn));
        let latest = pack(b"99991231235959.999999Z#ffffff#fff#ffffff");
        assert!(latest.leading_zeros() >= 1, "the latest possible CSN must fit");
    }

    #[test]
    fn an_invalid_csn_is_zero() {
        for text in [&b""[..], b"2026", b"20260101000000Z#0#0", b"x#000000#000#000000"] {
            assert_eq!(pack(text), 0);
        }
    }

    #[test]
    fn short_forms_of_old_servers_are_accepted() {
        assert_eq!(pack(b"20060101000000Z#000001#00#000000"), pack(b"20060101000000.000000Z#000001#000#000000"));
        assert_eq!(sid(b"20060101000000Z#000001#0A#000000"), Some(10));
    }
}
