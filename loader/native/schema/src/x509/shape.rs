//! Checks whether bytes have the form of a certificate, revocation list or private key: DER elements with definite
//! lengths and tags of one byte (`libraries/liblber/decode.c`).
//!
//! slapd checks the sequence of tags, but not that inner elements fill the outer ones. It even uses the length of an
//! element that it could not read, so [`Damaged`] contains that length. Messages of a server are parsed by `wire::ber`
//! instead, which waits for missing bytes.

pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
const OCTETS: u8 = 0x04;
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

/// The bytes end within an element, or the element has an unsupported form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged {
    /// The length that slapd uses nevertheless; `usize::MAX` for a tag of several bytes.
    pub length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    pub tag: u8,
    pub content: &'a [u8],
}

/// Returns the content length of the first element, and the bytes after the length field.
fn length(bytes: &[u8]) -> Result<(usize, &[u8]), Damaged> {
    let [tag, first, rest @ ..] = bytes else { return Err(Damaged { length: 0 }) };
    if tag & 0x1f == 0x1f {
        return Err(Damaged { length: usize::MAX });
    }
    let count = usize::from(first & 0x7f);
    if *first < 0x80 {
        return Ok((count, rest));
    }
    let digits = rest.get(..count).filter(|_| (1..=8).contains(&count)).ok_or(Damaged { length: count })?;
    Ok((digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), &rest[count..]))
}

/// Returns the first element of `bytes`, and the bytes after the element.
pub fn split(bytes: &[u8]) -> Result<(Tlv<'_>, &[u8]), Damaged> {
    let (length, rest) = length(bytes)?;
    let (content, behind) = rest.split_at_checked(length).ok_or(Damaged { length })?;
    Ok((Tlv { tag: bytes[0], content }, behind))
}

/// Returns the content length of the first element, even if its content is incomplete, and the bytes after the length
/// field (`ber_skip_tag` in `libraries/liblber/decode.c`). Returns `None` for tags of several bytes.
pub fn header(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match length(bytes) {
        Ok(header) => Some(header),
        Err(Damaged { length: usize::MAX }) => None,
        Err(Damaged { length }) => Some((length, bytes.get(2..).unwrap_or_default())),
    }
}

/// Iterates over the elements. The iteration ends after a damaged element.
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

const ISSUER_UNIQUE_ID: u8 = 0x81;
const SUBJECT_UNIQUE_ID: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;
/// `[0]`, explicit: the extensions of a revocation list, or the issuer of an attribute certificate.
const CONTEXT_0: u8 = 0xa0;
/// `[4]` of a general name.
const DIRECTORY_NAME: u8 = 0xa4;

/// Reads elements in a given sequence of tags.
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    fn tag(&self) -> Option<u8> {
        split(self.rest).ok().map(|(element, _)| element.tag)
    }

    /// Enters an element if it has this tag, and returns its contents.
    fn enter(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (element, behind) = split(self.rest).ok().filter(|(element, _)| element.tag == tag)?;
        let header = self.rest.len() - behind.len() - element.content.len();
        self.rest = &self.rest[header..];
        Some(element.content)
    }

    /// Enters an element with any tag.
    fn open(&mut self) -> Option<()> {
        self.enter(self.tag()?).map(drop)
    }

    fn skip(&mut self, tag: u8) -> Option<Tlv<'a>> {
        let (element, behind) = split(self.rest).ok().filter(|(element, _)| element.tag == tag)?;
        self.rest = behind;
        Some(element)
    }

    /// Whether no element follows. Unreadable bytes without a length count as the end.
    fn at_end(&self) -> bool {
        matches!(split(self.rest), Err(Damaged { length: 0 }))
    }

    /// Reads an integer of at most four bytes.
    fn small_integer(&mut self) -> Option<i32> {
        let element = self.skip(INTEGER).filter(|element| element.content.len() <= 4)?;
        let sign = element.content.first().map_or(0, |first| if first & 0x80 == 0 { 0 } else { -1 });
        Some(element.content.iter().fold(sign, |number, byte| number << 8 | i32::from(*byte)))
    }
}

/// Returns the serial number and the issuer of a certificate as slapd finds them. slapd ignores the tags before them,
/// and continues if an element is longer than the remaining bytes. Returns `None` if slapd would read beyond the end.
pub fn certificate(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, signed) = header(value)?;
    let (_, mut rest) = header(signed)?;
    if let Ok((Tlv { tag: VERSION, content }, _)) = split(rest) {
        let header = content.as_ptr() as usize - rest.as_ptr() as usize;
        rest = split(&rest[header..]).ok()?.1;
    }
    let (length, rest) = header(rest)?;
    let (serial, rest) = rest.split_at_checked(length)?;
    let (length, rest) = header(rest)?;
    let rest = &rest[length.min(rest.len())..];
    let issuer = match split(rest) {
        Ok((Tlv { tag: SEQUENCE, content }, _)) => content,
        Ok((Tlv { content: [], .. }, _)) | Err(Damaged { length: 0 }) => &[],
        _ => return None,
    };
    Some((serial, issuer))
}

/// Whether the value is a certificate; `None` if a required element is missing.
pub fn is_certificate(value: &[u8]) -> Option<bool> {
    let mut walk = Walk { rest: value };
    walk.enter(SEQUENCE)?;
    walk.enter(SEQUENCE)?;
    let mut version = 0;
    if walk.enter(VERSION).is_some() {
        version = walk.small_integer()?;
    }
    // Serial number, signature, issuer, validity, subject, public key.
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE] {
        walk.skip(tag)?;
    }
    for (tag, least) in [(ISSUER_UNIQUE_ID, 1), (SUBJECT_UNIQUE_ID, 1), (EXTENSIONS, 2)] {
        if walk.tag() == Some(tag) {
            if version < least {
                return None;
            }
            if tag == EXTENSIONS {
                walk.enter(tag)?;
                walk.skip(SEQUENCE)?;
            } else {
                walk.skip(tag)?;
            }
        }
    }
    walk.skip(SEQUENCE)?;
    walk.skip(BIT_STRING)?;
    Some(walk.at_end())
}

/// Returns the issuer and the time of a revocation list; `None` if the bytes do not begin like a revocation list.
pub fn certificate_list(value: &[u8]) -> Option<(&[u8], &[u8])> {
    list_head(&mut Walk { rest: value }).map(|(issuer, time, _)| (issuer, time))
}

/// Reads the beginning of a revocation list, and returns the issuer, the time and the version.
fn list_head<'a>(walk: &mut Walk<'a>) -> Option<(&'a [u8], &'a [u8], i32)> {
    walk.enter(SEQUENCE)?;
    walk.enter(SEQUENCE)?;
    let mut version = 0;
    if walk.tag() == Some(INTEGER) {
        version = walk.small_integer().filter(|&version| version == 1)?;
    }
    walk.skip(SEQUENCE)?;
    let issuer = walk.skip(SEQUENCE)?.content;
    let time = walk.skip(UTC_TIME).or_else(|| walk.skip(GENERALIZED_TIME))?;
    Some((issuer, time.content, version))
}

/// Whether the value is a revocation list. slapd tolerates bytes after the outer element.
pub fn is_certificate_list(value: &[u8]) -> Option<bool> {
    let mut walk = Walk { rest: value };
    let (_, behind) = split(value).ok()?;
    let (_, _, version) = list_head(&mut walk)?;
    let _ = walk.skip(UTC_TIME).or_else(|| walk.skip(GENERALIZED_TIME));
    revoked(&mut walk);
    if walk.tag() == Some(CONTEXT_0) {
        let extensions = walk.skip(CONTEXT_0).filter(|_| version == 1)?;
        split(extensions.content).ok().filter(|(element, _)| element.tag == SEQUENCE)?;
    }
    walk.skip(SEQUENCE)?;
    walk.skip(BIT_STRING)?;
    Some(walk.at_end() || walk.rest.len() == behind.len())
}

/// Skips the list of revoked certificates, if there is one: a sequence of sequences, or an empty sequence.
fn revoked(walk: &mut Walk<'_>) {
    let Ok((element, behind)) = split(walk.rest) else { return };
    let nested = split(element.content).is_ok_and(|(inner, _)| inner.tag == SEQUENCE);
    if element.tag == SEQUENCE && (nested || element.content.is_empty()) {
        walk.rest = behind;
    }
}

/// Returns the serial number of an attribute certificate, its issuer, and the serial number of the issuer's
/// certificate. slapd ignores most tags.
pub fn attribute_certificate(value: &[u8]) -> Option<[&[u8]; 3]> {
    let mut walk = Walk { rest: value };
    walk.open()?;
    walk.open()?;
    // Version and holder.
    walk.skip(walk.tag()?)?;
    walk.skip(walk.tag()?)?;
    // The issuer, identified by its certificate: first the general names of the certificate's own issuer.
    for _ in 0..3 {
        walk.open()?;
    }
    walk.enter(DIRECTORY_NAME)?;
    let issuer = walk.skip(walk.tag()?)?.content;
    let issuer_serial = walk.skip(INTEGER)?.content;
    // Signature.
    walk.skip(walk.tag()?)?;
    let serial = walk.skip(INTEGER)?.content;
    Some([serial, issuer, issuer_serial])
}

pub fn is_attribute_certificate(value: &[u8]) -> Option<bool> {
    let mut walk = Walk { rest: value };
    walk.enter(SEQUENCE)?;
    walk.enter(SEQUENCE)?;
    walk.small_integer().filter(|&version| version == 1)?;
    // Holder, issuer, signature, serial number, validity, attributes.
    for tag in [SEQUENCE, CONTEXT_0, SEQUENCE, INTEGER, SEQUENCE, SEQUENCE] {
        walk.skip(tag)?;
    }
    let _ = walk.skip(BIT_STRING);
    let met = [SEQUENCE, SEQUENCE, BIT_STRING].map(|tag| walk.skip(tag).is_some());
    Some(met.iter().filter(|&&met| met).count() >= 2 && walk.at_end())
}

/// Whether the value is an unencrypted PKCS #8 key: a sequence of version, algorithm, key and an optional set of
/// attributes; `None` if a required element is missing. slapd's check always fails on encrypted keys, and accepts some
/// keys with wrong lengths, which this check refuses.
pub fn is_private_key(value: &[u8]) -> Option<bool> {
    let (Tlv { tag: SEQUENCE, content }, []) = split(value).ok()? else { return None };
    let mut walk = Walk { rest: content };
    for tag in [INTEGER, SEQUENCE, OCTETS] {
        walk.skip(tag)?;
    }
    let _ = walk.skip(SET);
    Some(walk.rest.is_empty())
}
