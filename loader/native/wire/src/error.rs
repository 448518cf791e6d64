//! Errors of a connection to a server.

use std::fmt;

common::named!(
    /// The operation that failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Phase {
        /// No supported libldap was found on this host.
        Library = "ldap.library",
        /// The connection could not be established.
        Connect = "ldap.connect",
        /// The server does not offer `StartTLS`, or the handshake failed.
        Tls = "ldap.tls",
        /// The server refused the bind.
        Bind = "ldap.bind",
        /// The server answered a request with an error result code.
        Request = "ldap.request",
        /// The connection broke, or the server closed it.
        Lost = "ldap.lost",
        /// The server owed an answer but sent nothing.
        Silent = "ldap.silent",
        /// The server sent something that is not LDAP.
        Protocol = "ldap.protocol",
    }
);

/// A failed request or connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub phase: Phase,
    /// LDAP result code (RFC 4511, 4.1.9); libldap's own codes are negative (ldap.h, `LDAP_SERVER_DOWN` and so on).
    pub result: i32,
    /// The diagnostic message, or libldap's text for the code.
    pub text: String,
    /// `matchedDN`: if the entry does not exist, the DN of its nearest ancestor that exists.
    pub matched: String,
}

/// An error of the server, or of this host (such as a file error or a cancellation). The type is small because every
/// function that reads an element returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    Ldap(Box<Failure>),
    Local(Box<common::Error>),
}

impl From<workers::Panicked> for Error {
    fn from(panicked: workers::Panicked) -> Self {
        common::Error::from(panicked).into()
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// libldap's codes for failures that are not an answer from a server (ldap.h).
pub(crate) const SERVER_DOWN: i32 = -1;
pub(crate) const DECODING_ERROR: i32 = -4;
pub(crate) const TIMEOUT: i32 = -5;
pub(crate) const PARAM_ERROR: i32 = -9;
pub(crate) const CONNECT_ERROR: i32 = -11;

impl Failure {
    pub fn new(phase: Phase, result: i32, text: impl Into<String>) -> Self {
        Self { phase, result, text: text.into(), matched: String::new() }
    }
}

impl Error {
    pub(crate) fn lost(text: impl Into<String>) -> Self {
        Failure::new(Phase::Lost, SERVER_DOWN, text).into()
    }

    /// Returns the error for the use of a channel that has already failed.
    pub fn closed() -> Self {
        Self::lost("the connection is closed")
    }

    pub(crate) fn silent(seconds: f64) -> Self {
        let text = format!("the server was silent for {seconds:.0} s");
        Failure::new(Phase::Silent, TIMEOUT, text).into()
    }

    pub(crate) fn protocol(text: impl Into<String>) -> Self {
        Failure::new(Phase::Protocol, DECODING_ERROR, text).into()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Ldap(Box::new(failure))
    }
}

impl From<common::Error> for Error {
    fn from(error: common::Error) -> Self {
        Self::Local(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)?;
        if self.result > 0 {
            write!(out, " (result code {})", self.result)?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ldap(failure) => failure.fmt(out),
            Self::Local(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for Error {}
