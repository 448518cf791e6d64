//! An LDAP client (RFC 4511) that reads millions of entries.
//!
//! libldap opens a connection, encrypts it and binds ([`ConnectionOptions`]), because it supports every method and
//! reads ldap.conf. From then on a [`Channel`] owns the connection: it reads and writes many messages at a time through
//! libldap's security layers, without a libldap object per entry.

pub mod ber;
pub mod buffer;
pub mod channel;
pub mod error;
pub mod filter;
pub mod message;
pub mod parts;
pub mod record;
pub mod search;
mod session;
pub mod sync;

pub use channel::{Channel, ConnectionOptions, Secret};
pub use error::{Error, Failure, Phase, Result};
pub use message::Message;
pub use parts::{FeedFiles, OutputFiles, SearchOutput, feed, file, part};
pub use record::{Recorder, digest, discard};
pub use search::{Search, search};
pub use sync::sync;
