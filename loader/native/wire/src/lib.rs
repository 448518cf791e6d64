//! LDAP (RFC 4511) for millions of entries.
//!
//! libldap opens a connection, encrypts it and binds ([`ConnectionOptions`] says how), for it has every way to do
//! that and reads ldap.conf. From then on a [`Channel`] owns the wire: large reads and writes of whole
//! messages through the security layers that libldap set up, and no object of libldap's an entry.

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
