//! Encodes the requests of a load (RFC 4511; transactions: RFC 5805).

use wire::ber::{OCTETS, SEQUENCE, SET, Writer};

const START: &[u8] = b"1.3.6.1.1.21.1";
const TRANSACTION: &[u8] = b"1.3.6.1.1.21.2";
const END: &[u8] = b"1.3.6.1.1.21.3";
const RELAX: &[u8] = b"1.3.6.1.4.1.4203.666.5.12";
const MANAGE_DSA_IT: &[u8] = b"2.16.840.1.113730.3.4.2";

const SEARCH: u8 = 0x63;
const MODIFY: u8 = 0x66;
const ADD: u8 = 0x68;
const EXTENDED: u8 = 0x77;
const CONTROLS: u8 = 0xa0;
const PRESENT: u8 = 0x87;
const REQUEST_NAME: u8 = 0x80;
const REQUEST_VALUE: u8 = 0x81;
const REPLACE: i32 = 2;

/// The controls of an add request.
#[derive(Debug, Clone, Default)]
pub struct Controls {
    pub relax: bool,
    /// The transaction's identifier.
    pub transaction: Option<Vec<u8>>,
}

/// Encodes an `AddRequest` without the message around it.
pub fn add_operation<'a>(out: &mut Writer, dn: &[u8], attributes: impl Iterator<Item = (&'a [u8], Vec<&'a [u8]>)>) {
    out.nest(ADD, |add| {
        add.octets(dn);
        add.sequence(|list| {
            for (description, values) in attributes {
                attribute(list, description, &values);
            }
        });
    });
}

fn attribute(out: &mut Writer, description: &[u8], values: &[&[u8]]) {
    out.sequence(|attribute| {
        attribute.octets(description);
        attribute.nest(SET, |set| values.iter().for_each(|value| set.octets(value)));
    });
}

/// Encodes an `LDAPMessage` around an operation of [`add_operation`].
pub fn add(out: &mut Writer, id: i32, operation: &[u8], controls: &Controls) {
    out.sequence(|message| {
        message.integer(id);
        message.raw(operation);
        if controls.relax || controls.transaction.is_some() {
            message.nest(CONTROLS, |list| {
                if controls.relax {
                    control(list, RELAX, true, None);
                }
                if let Some(transaction) = &controls.transaction {
                    control(list, TRANSACTION, true, Some(transaction));
                }
            });
        }
    });
}

fn control(out: &mut Writer, name: &[u8], critical: bool, value: Option<&[u8]>) {
    out.sequence(|control| {
        control.octets(name);
        control.boolean(critical);
        if let Some(value) = value {
            control.octets(value);
        }
    });
}

pub fn start(out: &mut Writer, id: i32) {
    extended(out, id, START, None);
}

pub fn end(out: &mut Writer, id: i32, commit: bool, transaction: &[u8]) {
    let mut value = Writer::default();
    value.nest(SEQUENCE, |value| {
        // True is the default of `commit`, and default values are not encoded (RFC 4511, 5.1).
        if !commit {
            value.boolean(false);
        }
        value.tagged(OCTETS, transaction);
    });
    extended(out, id, END, Some(value.bytes()));
}

fn extended(out: &mut Writer, id: i32, name: &[u8], value: Option<&[u8]>) {
    out.sequence(|message| {
        message.integer(id);
        message.nest(EXTENDED, |request| {
            request.tagged(REQUEST_NAME, name);
            if let Some(value) = value {
                request.tagged(REQUEST_VALUE, value);
            }
        });
    });
}

/// Encodes a base search. `ManageDsaIT` (RFC 3296) makes the server return a referral object instead of following it.
pub fn read<'a>(out: &mut Writer, id: i32, dn: &[u8], attributes: impl IntoIterator<Item = &'a [u8]>) {
    out.sequence(|message| {
        message.integer(id);
        message.nest(SEARCH, |search| {
            search.octets(dn);
            search.enumerated(0); // baseObject
            search.enumerated(0); // neverDerefAliases
            search.integer(0);
            search.integer(0);
            search.boolean(false);
            search.tagged(PRESENT, b"objectClass");
            search.sequence(|list| {
                for name in attributes {
                    list.octets(name);
                }
            });
        });
        message.nest(CONTROLS, |list| control(list, MANAGE_DSA_IT, false, None));
    });
}

/// Encodes a Modify request that replaces attributes. A change without values removes the attribute.
pub fn replace(out: &mut Writer, id: i32, dn: &[u8], changes: &[(Vec<u8>, Vec<Vec<u8>>)]) {
    out.sequence(|message| {
        message.integer(id);
        message.nest(MODIFY, |modify| {
            modify.octets(dn);
            modify.sequence(|list| {
                for (description, values) in changes {
                    list.sequence(|change| {
                        change.enumerated(REPLACE);
                        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                        attribute(change, description, &values);
                    });
                }
            });
        });
        message.nest(CONTROLS, |list| control(list, MANAGE_DSA_IT, false, None));
    });
}
