//! The Basic Encoding Rules as far as LDAP uses them (RFC 4511, 5.1): definite lengths, small tags.

mod reader;
mod writer;

pub use reader::{Element, Reader, frame};
pub use writer::Writer;

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const OCTETS: u8 = 0x04;
pub const ENUMERATED: u8 = 0x0a;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
