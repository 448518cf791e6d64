//! How to reach a server, and as whom.

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

/// A password. Overwritten when it is let go, and never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Or the compiler would see that nobody reads it any more.
        black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Options of ldapsearch, with its meaning. Where `None` stands, libldap's own files and variables
/// decide (ldap.conf(5)).
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    pub uri: Option<String>,
    pub bind_dn: Option<String>,
    pub secret: Option<Secret>,
    /// SASL; without it the bind is simple.
    pub mechanism: Option<String>,
    /// Who SASL says we are, and for whom we act.
    pub authcid: Option<String>,
    pub authzid: Option<String>,
    pub realm: Option<String>,
    /// What a security layer must be (ldap.conf(5), `SASL_SECPROPS`).
    pub secprops: Option<String>,
    /// The server's name is that of the URI, whatever its address is called (`SASL_NOCANON`).
    pub as_written: bool,
    /// 1: try, and go on in the clear (-Z). 2: demand (-ZZ).
    pub start_tls: u8,
    pub connect_timeout: Duration,
    /// So long may the answer to `StartTLS`, and to each step of a bind, take; zero is without limit.
    pub bind_timeout: Duration,
    /// So long may a server that owes us something send not a byte; zero is without limit.
    pub silence: Duration,
}
