//! The requests for entries that may already be on the server: base searches and modifies.

use tree::Names;
use wire::Result;
use wire::ber::Writer;
use wire::message::{Message, tag};

use crate::entry::Entry;
use crate::exchange::{Answer, Requester, answer};
use crate::requests;
use crate::server_entry::{CONTENT, Modification, ServerEntry};

/// The attribute list that requests no attributes (RFC 4511, 4.5.1.8).
const NO_ATTRIBUTES: &[u8] = b"1.1";

/// Base searches, each for one DN.
pub struct EntryReads<'a> {
    dns: Vec<&'a [u8]>,
    /// The attributes to request for each DN. The list is empty if only the existence of the entries matters.
    attributes: Vec<Vec<Vec<u8>>>,
    /// The entry at each DN; None if the server returned no entry.
    pub entries: Vec<Option<ServerEntry>>,
}

impl<'a> EntryReads<'a> {
    /// Creates searches that show only whether the entries exist.
    pub fn new(dns: Vec<&'a [u8]>) -> Self {
        let entries = dns.iter().map(|_| None).collect();
        Self { dns, attributes: Vec::new(), entries }
    }

    /// Creates searches that return the attributes of the entries.
    pub fn with_content(entries: &[&'a Entry], leave_out: &Names) -> common::Result<Self> {
        let attributes = entries.iter().map(|entry| compared(entry, leave_out)).collect::<common::Result<_>>()?;
        Ok(Self { attributes, ..Self::new(entries.iter().map(|entry| entry.dn.as_slice()).collect()) })
    }
}

/// Returns the attributes to request: the user attributes (`*`), the timestamps, and by name every attribute of the
/// LDIF entry, because servers return some attributes only on request, such as `ref` of a referral object.
fn compared(entry: &Entry, leave_out: &Names) -> common::Result<Vec<Vec<u8>>> {
    let fields = entry.fields()?;
    let sent = fields.iter().filter(|field| !leave_out.has_field(field));
    let mut names: Vec<Vec<u8>> = sent.map(|field| field.description().to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    names.extend(CONTENT.iter().map(|name| name.as_bytes().to_vec()));
    Ok(names)
}

impl Requester for EntryReads<'_> {
    fn count(&self) -> usize {
        self.dns.len()
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        match self.attributes.get(request) {
            Some(names) => requests::read(out, id, self.dns[request], names.iter().map(Vec::as_slice)),
            None => requests::read(out, id, self.dns[request], [NO_ATTRIBUTES]),
        }
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        if message.tag == tag::ENTRY {
            self.entries[request] = Some(ServerEntry::read(message)?);
        }
        Ok(())
    }
}

/// Modify requests, each with the DN of its entry.
pub struct EntryModifies<'a> {
    requests: Vec<(&'a [u8], Vec<Modification>)>,
    pub answers: Vec<Option<Answer>>,
}

impl<'a> EntryModifies<'a> {
    pub fn new(requests: Vec<(&'a [u8], Vec<Modification>)>) -> Self {
        Self { answers: vec![None; requests.len()], requests }
    }
}

impl Requester for EntryModifies<'_> {
    fn count(&self) -> usize {
        self.requests.len()
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        let (dn, changes) = &self.requests[request];
        requests::replace(out, id, dn, changes);
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        self.answers[request] = Some(answer(message)?);
        Ok(())
    }
}
