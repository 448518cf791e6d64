//! Messages as a server sends them, for the tests of this crate and of `load`.

use wire::ber::{SET, Writer};
use wire::message::tag;

/// A `SearchResultEntry`.
pub fn entry(dn: impl AsRef<[u8]>, attributes: &[(impl AsRef<[u8]>, impl AsRef<[Vec<u8>]>)]) -> Vec<u8> {
    let mut out = Writer::default();
    out.sequence(|out| {
        out.integer(7);
        out.nest(tag::ENTRY, |out| {
            out.octets(dn.as_ref());
            out.sequence(|out| {
                for (name, values) in attributes {
                    out.sequence(|out| {
                        out.octets(name.as_ref());
                        out.nest(SET, |out| {
                            values.as_ref().iter().for_each(|value| out.octets(value));
                        });
                    });
                }
            });
        });
    });
    out.bytes().to_vec()
}
