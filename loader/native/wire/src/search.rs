//! Searches: one request for all entries, or one request per page.

use common::Scope;

use crate::ber::{Reader, Writer};
use crate::message::{Entry, tag};
use crate::{Channel, Error, Message, Result, filter, sync};

const REQUEST: u8 = 0x63;
const CONTROLS: u8 = 0xa0;

/// Makes the server return referral objects as entries (RFC 3296), and omit attributes that slapo-dynlist(5) computes.
const MANAGE_DSA_IT: &[u8] = b"2.16.840.1.113730.3.4.2";
/// Makes the server return subentries only (RFC 3672).
const SUBENTRIES: &[u8] = b"1.3.6.1.4.1.4203.1.10.1";
/// The BOOLEAN TRUE in BER, which makes subentries visible.
const VISIBLE: &[u8] = &[0x01, 0x01, 0xff];
/// Makes the server return values as stored. Without this control, slapo-valsort(5) removes their weights.
const VALSORT: &[u8] = b"1.3.6.1.4.1.4203.666.5.14";
/// TRUE in this sequence means "do not sort" (`valsort_parseCtrl`).
const UNSORTED: &[u8] = &[0x30, 0x03, 0x01, 0x01, 0xff];
/// Simple paged results (RFC 2696).
const PAGED: &[u8] = b"1.2.840.113556.1.4.319";

#[derive(Debug, Clone)]
pub struct Search {
    pub base: String,
    pub scope: Scope,
    /// The filter as text (RFC 4515).
    pub filter: String,
    /// Attribute descriptions, `*`, `+`, or `1.1` for no attributes.
    pub attributes: Vec<String>,
    /// Entries per page; 0 disables paging.
    pub page: u32,
    /// Whether to search for subentries only. Otherwise the server omits them.
    pub subentries: bool,
}

/// Calls `see` with every entry. Returns an error unless the server confirms that the result is complete.
///
/// After any error, also an error of `see`, the channel is unusable, because answers to the request may still arrive.
pub fn search(channel: &mut Channel, query: &Search, mut see: impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
    let filter = filter::encode(&query.filter)?;
    let (mut request, mut cookie) = (Writer::default(), Vec::new());
    channel.gather(true);
    loop {
        let id = channel.next_id();
        request.clear();
        write(&mut request, id, query, &filter, &cookie, None);
        channel.send(request.bytes())?;
        cookie.clear();
        cookie.extend_from_slice(&page(channel, id, &mut see)?);
        if cookie.is_empty() {
            channel.gather(false);
            return Ok(());
        }
    }
}

/// Receives the entries of one request, and returns the cookie for the next page.
fn page(channel: &mut Channel, id: i32, see: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<Vec<u8>> {
    loop {
        let message = channel.receive()?;
        match message.tag {
            _ if message.id != id => {}
            tag::ENTRY => see(&message.entry()?)?,
            tag::REFERENCE | tag::INTERMEDIATE => {}
            tag::DONE => {
                message.result()?.check()?;
                return cookie(&message);
            }
            other => return Err(Error::protocol(format!("{other:#04x} answers a search"))),
        }
    }
}

/// Returns the cookie for the next page, which is empty after the last page and from a server without paging.
fn cookie(message: &Message<'_>) -> Result<Vec<u8>> {
    let Some(value) = message.control(PAGED)? else { return Ok(Vec::new()) };
    let mut value = Reader::new(value).sequence()?;
    value.integer()?;
    Ok(value.octets()?.to_vec())
}

/// Writes a search request. `cookie` is from the previous page; `sync` is the value of a Sync Request control, if any.
pub(crate) fn write(out: &mut Writer, id: i32, query: &Search, filter: &[u8], cookie: &[u8], sync: Option<&[u8]>) {
    out.sequence(|out| {
        out.integer(id);
        out.nest(REQUEST, |out| {
            out.octets(query.base.as_bytes());
            out.enumerated(query.scope as i32);
            out.enumerated(0); // aliases are entries too
            out.integer(0); // no size limit
            out.integer(0); // no time limit
            out.boolean(false); // values, not types only
            out.raw(filter);
            out.sequence(|out| {
                query.attributes.iter().for_each(|name| out.octets(name.as_bytes()));
            });
        });
        out.nest(CONTROLS, |out| {
            out.sequence(|out| out.octets(MANAGE_DSA_IT));
            // Not critical: a server without slapo-valsort ignores the control.
            control(out, VALSORT, false, UNSORTED);
            if query.subentries {
                // Critical: a server that ignored the control would return ordinary entries.
                control(out, SUBENTRIES, true, VISIBLE);
            }
            if query.page > 0 {
                // Not critical: a server that ignores the control returns all entries at once.
                control(out, PAGED, false, paged(query.page, cookie).bytes());
            }
            if let Some(value) = sync {
                // Critical: a server that ignored the control would run an ordinary search.
                control(out, sync::REQUEST, true, value);
            }
        });
    });
}

fn control(out: &mut Writer, oid: &[u8], is_critical: bool, value: &[u8]) {
    out.sequence(|out| {
        out.octets(oid);
        if is_critical {
            out.boolean(true);
        }
        out.octets(value);
    });
}

fn paged(page: u32, cookie: &[u8]) -> Writer {
    let mut value = Writer::default();
    value.sequence(|value| {
        value.integer(i32::try_from(page).unwrap_or(i32::MAX));
        value.octets(cookie);
    });
    value
}
