//! Parses messages of a server (RFC 4511, 4) in place in the buffer.

use crate::ber::{OCTETS, Reader, SEQUENCE, SET};
use crate::session::meaning;
use crate::{Error, Failure, Phase, Result};

/// Tags of messages that servers send.
pub mod tag {
    pub const ENTRY: u8 = 0x64;
    pub const DONE: u8 = 0x65;
    pub const REFERENCE: u8 = 0x73;
    pub const EXTENDED: u8 = 0x78;
    pub const INTERMEDIATE: u8 = 0x79;
}

/// OID of the notice by which a server announces that it closes the connection (RFC 4511, 4.4.1).
const DISCONNECTION: &[u8] = b"1.3.6.1.4.1.1466.20036";

const CONTROLS: u8 = 0xa0;
const REFERRAL: u8 = 0xa3;
const RESPONSE_NAME: u8 = 0x8a;
const RESPONSE_VALUE: u8 = 0x8b;
const INTERMEDIATE_NAME: u8 = 0x80;
const INTERMEDIATE_VALUE: u8 = 0x81;

/// A complete LDAP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Number of the request that this message answers; 0 in an unsolicited message.
    pub id: i32,
    /// A constant of [`tag`].
    pub tag: u8,
    pub body: &'a [u8],
    controls: &'a [u8],
}

impl<'a> Message<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes).sequence()?;
        let id = reader.integer()?;
        let operation = reader.element()?;
        let controls = reader.optional(CONTROLS)?.unwrap_or_default();
        Ok(Self { id, tag: operation.tag, body: operation.body, controls })
    }

    /// Returns the value of a control, which is empty if the control has no value; `None` if there is no such control.
    pub fn control(&self, wanted: &[u8]) -> Result<Option<&'a [u8]>> {
        let mut controls = Reader::new(self.controls);
        while !controls.is_at_end() {
            let mut control = controls.sequence()?;
            let name = control.octets()?;
            control.boolean()?;
            if name == wanted {
                return Ok(Some(control.optional(OCTETS)?.unwrap_or_default()));
            }
        }
        Ok(None)
    }

    /// Parses the result of a request.
    pub fn result(&self) -> Result<LdapResult<'a>> {
        LdapResult::read(&mut Reader::new(self.body))
    }

    pub fn extended(&self) -> Result<Extended<'a>> {
        let mut reader = Reader::new(self.body);
        let result = LdapResult::read(&mut reader)?;
        let name = reader.optional(RESPONSE_NAME)?;
        Ok(Extended { result, name, value: reader.optional(RESPONSE_VALUE)? })
    }

    /// Returns the value of an intermediate response (RFC 4511, 4.13) if it has the name `wanted`.
    pub fn intermediate(&self, wanted: &[u8]) -> Result<Option<&'a [u8]>> {
        let mut reader = Reader::new(self.body);
        let name = reader.optional(INTERMEDIATE_NAME)?;
        let value = reader.optional(INTERMEDIATE_VALUE)?;
        Ok(value.filter(|_| name == Some(wanted)))
    }

    pub fn entry(&self) -> Result<Entry<'a>> {
        let mut reader = Reader::new(self.body);
        let dn = reader.octets()?;
        Ok(Entry { dn, attributes: Attributes(reader.sequence()?), length: self.body.len() as u64 })
    }

    /// Returns the error that a notice of disconnection contains; for any other message, a protocol error.
    pub(crate) fn notice_of_disconnection(&self) -> Error {
        let extended = (self.tag == tag::EXTENDED).then(|| self.extended());
        match extended {
            Some(Ok(notice)) if notice.name == Some(DISCONNECTION) => {
                Failure { phase: Phase::Lost, ..notice.result.failure() }.into()
            }
            _ => Error::protocol("an unsolicited message that is not a notice of disconnection"),
        }
    }
}

/// `LDAPResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LdapResult<'a> {
    pub code: i32,
    pub matched: &'a [u8],
    pub text: &'a [u8],
    referral: &'a [u8],
}

impl<'a> LdapResult<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let code = reader.enumerated()?;
        let (matched, text) = (reader.octets()?, reader.octets()?);
        let referral = reader.optional(REFERRAL)?.unwrap_or_default();
        Ok(Self { code, matched, text, referral })
    }

    /// Returns the diagnostic message. If the message is empty, returns the URIs of the referral.
    pub fn message(&self) -> String {
        if !self.text.is_empty() {
            return String::from_utf8_lossy(self.text).into_owned();
        }
        let mut uris = Reader::new(self.referral);
        let next = || if uris.is_at_end() { None } else { uris.octets().ok() };
        let uris: Vec<_> = std::iter::from_fn(next).map(String::from_utf8_lossy).collect();
        uris.join(", ")
    }

    pub fn failure(&self) -> Failure {
        let text = self.message();
        Failure {
            phase: Phase::Request,
            result: self.code,
            text: if text.is_empty() { meaning(self.code) } else { text },
            matched: String::from_utf8_lossy(self.matched).into_owned(),
        }
    }

    /// Returns an error unless the request succeeded.
    pub fn check(&self) -> Result<()> {
        if self.code == 0 { Ok(()) } else { Err(self.failure().into()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended<'a> {
    pub result: LdapResult<'a>,
    pub name: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// `SearchResultEntry`: a DN, and attributes that are parsed when iterated.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    pub dn: &'a [u8],
    pub attributes: Attributes<'a>,
    /// Size of the encoded entry in bytes.
    pub length: u64,
}

/// Iterates over attributes with their values. A server may send an attribute in several pieces, each with some values.
#[derive(Debug, Clone)]
pub struct Attributes<'a>(Reader<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(&'a [u8], Values<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_at_end()).then(|| {
            let attribute = self.0.expect(SEQUENCE);
            let mut attribute = attribute.inspect_err(|_| self.0 = Reader::default()).map(Reader::new)?;
            Ok((attribute.octets()?, Values(Reader::new(attribute.expect(SET)?))))
        })
    }
}

#[derive(Debug, Clone)]
pub struct Values<'a>(Reader<'a>);

impl<'a> Iterator for Values<'a> {
    type Item = Result<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_at_end()).then(|| self.0.octets().inspect_err(|_| self.0 = Reader::default()))
    }
}
