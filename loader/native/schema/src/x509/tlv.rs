//! Tags and lengths (`libraries/liblber/decode.c`): definite lengths, one-byte tags.
//!
//! slapd looks at the length of what it could not read, so [`Damaged`] tells it; the messages of a server are read by
//! `wire::ber`, which waits for what is not there yet.

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OID: u8 = 0x06;
pub const TELETEX: u8 = 0x14;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const UNIVERSAL: u8 = 0x1c;
pub const BMP: u8 = 0x1e;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// `[0]`, explicit: the version of a certificate.
pub const VERSION: u8 = 0xa0;

/// The bytes end before an element does, or it has a form that is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged {
    /// Length read before things went wrong: slapd looks at it.
    pub length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    pub tag: u8,
    pub content: &'a [u8],
}

/// The first element of `bytes`, and the bytes behind it.
pub fn split(bytes: &[u8]) -> Result<(Tlv<'_>, &[u8]), Damaged> {
    let damaged = |length| Err(Damaged { length });
    let [tag, first, rest @ ..] = bytes else { return damaged(0) };
    if tag & 0x1f == 0x1f {
        return damaged(usize::MAX);
    }
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let count = long & 0x7f;
            if count == 0 || count > 8 || rest.len() < count {
                return damaged(count);
            }
            let (digits, rest) = rest.split_at(count);
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    match rest.split_at_checked(length) {
        Some((content, behind)) => Ok((Tlv { tag: *tag, content }, behind)),
        None => damaged(length),
    }
}

/// Length of the first element's contents, whether they are all there or not, and what follows the
/// length (`ber_skip_tag` in `libraries/liblber/decode.c`). `None` for tags of several bytes.
pub fn header(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (tag, first, rest) = match bytes {
        [] | [_] => return Some((0, &[])),
        [tag, first, rest @ ..] => (tag, usize::from(*first), rest),
    };
    if tag & 0x1f == 0x1f {
        return None;
    }
    let count = first & 0x7f;
    if first < 0x80 || count == 0 || count > 8 || rest.len() < count {
        return Some((count, rest));
    }
    let (digits, rest) = rest.split_at(count);
    Some((digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest))
}

/// All elements; stops after one that is damaged.
pub fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Result<Tlv<'_>, Damaged>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let next = split(bytes);
        bytes = next.map_or(&[], |(_, behind)| behind);
        Some(next.map(|(element, _)| element))
    })
}
