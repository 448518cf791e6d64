//! Searches for, and modifies, entries that may already be on the server.

use tree::Names;
use wire::Result;
use wire::ber::Writer;
use wire::message::{Message, tag};

use crate::entry::Entry;
use crate::exchange::{Answer, Requester, answer};
use crate::found::{CONTENT, Modification, ServerEntry};
use crate::requests;

const NOTHING: &[u8] = b"1.1";

/// Base searches, each for one entry.
pub struct EntryReads<'a> {
    names: Vec<&'a [u8]>,
    /// The attributes to request for each of `names`; empty if no attributes are requested for any entry.
    attributes: Vec<Vec<Vec<u8>>>,
    pub found: Vec<Option<ServerEntry>>,
}

impl<'a> EntryReads<'a> {
    /// Asks only whether the entries exist.
    pub fn new(names: Vec<&'a [u8]>) -> Self {
        let found = names.iter().map(|_| None).collect();
        Self { names, attributes: Vec::new(), found }
    }

    /// Requests the user attributes, and any other attribute that the LDIF contains: servers return some only on
    /// request, such as `ref` of a referral object.
    pub fn with_content(entries: Vec<&'a Entry>, leave_out: &Names) -> common::Result<Self> {
        let attributes = entries.iter().map(|entry| content(entry, leave_out)).collect::<common::Result<_>>()?;
        let looks = Self::new(entries.into_iter().map(|entry| entry.dn.as_slice()).collect());
        Ok(Self { attributes, ..looks })
    }
}

fn content(entry: &Entry, leave_out: &Names) -> common::Result<Vec<Vec<u8>>> {
    let fields = entry.fields()?;
    let sent = fields.iter().filter(|field| !leave_out.has_field(field));
    let mut own: Vec<Vec<u8>> = sent.map(|field| field.description().to_ascii_lowercase()).collect();
    own.sort_unstable();
    own.dedup();
    own.extend(CONTENT.iter().map(|one| one.as_bytes().to_vec()));
    Ok(own)
}

impl Requester for EntryReads<'_> {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        let (dn, nothing) = (self.names[request], [NOTHING]);
        match self.attributes.get(request) {
            Some(all) => requests::read(out, id, dn, all.iter().map(Vec::as_slice)),
            None => requests::read(out, id, dn, nothing),
        }
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        if message.tag == tag::ENTRY {
            self.found[request] = Some(ServerEntry::read(message)?);
        }
        Ok(())
    }
}

/// Modify requests for existing entries.
pub struct EntryModifies<'a> {
    list: Vec<(&'a [u8], Vec<Modification>)>,
    pub answers: Vec<Option<Answer>>,
}

impl<'a> EntryModifies<'a> {
    pub fn new(list: Vec<(&'a [u8], Vec<Modification>)>) -> Self {
        let answers = vec![None; list.len()];
        Self { list, answers }
    }
}

impl Requester for EntryModifies<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        let (dn, changes) = &self.list[request];
        requests::replace(out, id, dn, changes);
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        self.answers[request] = Some(answer(message)?);
        Ok(())
    }
}
