//! Opens a session: TLS, then a simple or SASL bind. Every wait is divided into steps, so that it can be cancelled.

#![allow(unsafe_code, reason = "libldap is C")]

use std::ffi::{CString, c_char, c_int, c_long};
use std::ptr;
use std::time::Instant;

use common::Counters;

use super::{Handle, Message, check_silence, ffi, meaning, pointer, sasl, text, text_option};
use crate::error::{CONNECT_ERROR, SERVER_DOWN, TIMEOUT};
use crate::{ConnectionOptions, Error, Failure, Phase, Result};

/// Maximum time that libldap waits between two checks for cancellation, in microseconds.
const PATIENCE: c_long = 100_000;

/// A session that is not yet bound.
pub(super) struct PendingSession<'a> {
    pub(super) handle: Handle,
    pub(super) link: &'a ConnectionOptions,
    pub(super) stop: &'a Counters,
}

impl PendingSession<'_> {
    /// Starts TLS and binds; libldap connects with the first request.
    pub(super) fn run(&self) -> Result<()> {
        if self.link.start_tls > 0 && self.offers_tls()? {
            self.install_tls()?;
        }
        self.bind()
    }

    /// Requests `StartTLS`. Returns false if the server refuses and the option `start_tls` is 1 (-Z).
    fn offers_tls(&self) -> Result<bool> {
        let mut id: c_int = 0;
        let none = ptr::null_mut();
        // SAFETY: libldap writes the number of the request to `id`.
        let code = unsafe { ffi::ldap_start_tls(self.handle.session, none, none, &raw mut id) };
        self.expect_sent(code)?;
        let answer = self.answer(id)?;
        match self.judge(&answer, Phase::Tls) {
            Err(Error::Ldap(refusal)) if refusal.result > 0 && self.link.start_tls == 1 => Ok(false),
            judged => judged.map(|()| true),
        }
    }

    /// Starts TLS. Returns an error if the handshake fails, because the bind would then be sent in clear text.
    fn install_tls(&self) -> Result<()> {
        self.handle.guard.begin();
        // SAFETY: the session is connected and has no request in progress.
        let code = unsafe { ffi::ldap_install_tls(self.handle.session) };
        self.expect_handshake()?;
        if code == ffi::SUCCESS { Ok(()) } else { Err(self.failure(Phase::Tls, code).into()) }
    }

    fn bind(&self) -> Result<()> {
        let dn = self.link.bind_dn.as_deref().map(|dn| text(dn, "the bind DN")).transpose()?;
        match &self.link.mechanism {
            None => self.bind_simply(dn.as_ref()),
            Some(mechanism) => self.bind_by_sasl(dn.as_ref(), &text(mechanism, "the mechanism")?),
        }
    }

    fn bind_simply(&self, dn: Option<&CString>) -> Result<()> {
        let secret = self.link.secret.as_ref().map_or(&b""[..], |secret| secret.bytes());
        let secret =
            ffi::Berval { length: secret.len().try_into().unwrap_or(0), bytes: secret.as_ptr().cast_mut().cast() };
        let (mut id, none) = (0, ptr::null_mut());
        // SAFETY: libldap copies its arguments. A null mechanism means a simple bind.
        let code = unsafe {
            let (dn, secret) = (pointer(dn), &raw const secret);
            ffi::ldap_sasl_bind(self.handle.session, dn, ptr::null(), secret, none, none, &raw mut id)
        };
        self.expect_sent(code)?;
        self.judge(&self.answer(id)?, Phase::Bind)
    }

    fn bind_by_sasl(&self, dn: Option<&CString>, mechanism: &CString) -> Result<()> {
        let mut answers = sasl::SaslAnswers::new(self.link, &self.handle);
        let (defaults, none) = (ptr::from_mut(&mut answers).cast(), ptr::null_mut());
        let mut answer = Message(ptr::null_mut());
        let mut chosen: *const c_char = ptr::null();
        let mut id: c_int = 0;
        loop {
            // SAFETY: `answers` outlives the loop, and only `interact` reads `answers`. `answer` is null or the last
            // answer. libldap writes to `chosen` and `id`.
            let code = unsafe {
                ffi::ldap_sasl_interactive_bind(
                    self.handle.session,
                    pointer(dn),
                    mechanism.as_ptr(),
                    none,
                    none,
                    ffi::SASL_QUIET,
                    sasl::interact,
                    defaults,
                    answer.0,
                    &raw mut chosen,
                    &raw mut id,
                )
            };
            match code {
                ffi::SUCCESS => return Ok(()),
                ffi::SASL_BIND_IN_PROGRESS => {
                    self.expect_handshake()?;
                    answer = self.answer(id)?;
                }
                code if code < 0 && answer.0.is_null() => return self.expect_sent(code),
                code => return Err(self.failure(Phase::Bind, code).into()),
            }
        }
    }

    /// Waits for the answer to the request `id`. Returns an error after a cancellation or after `bind_timeout`.
    fn answer(&self, id: c_int) -> Result<Message> {
        let begun = Instant::now();
        loop {
            self.stop.check()?;
            let mut answer = Message(ptr::null_mut());
            let mut timeout = ffi::Timeval { seconds: 0, micros: PATIENCE };
            // SAFETY: libldap writes a pointer to an answer, which `answer` then owns.
            let kind = unsafe { ffi::ldap_result(self.handle.session, id, 1, &raw mut timeout, &raw mut answer.0) };
            if kind > 0 {
                return Ok(answer);
            }
            if kind < 0 {
                let mut code: c_int = 0;
                // SAFETY: the option writes an int.
                unsafe { ffi::ldap_get_option(self.handle.session, ffi::OPT_RESULT_CODE, (&raw mut code).cast()) };
                return Err(self.failure(Phase::Lost, code).into());
            }
            check_silence(begun, self.link.bind_timeout)?;
        }
    }

    fn judge(&self, answer: &Message, phase: Phase) -> Result<()> {
        let mut code: c_int = 0;
        let none = ptr::null_mut();
        // SAFETY: libldap writes only the result code, and does not free the answer.
        let parsed = unsafe {
            let (none_text, handle) = (ptr::null_mut(), self.handle.session);
            ffi::ldap_parse_result(handle, answer.0, &raw mut code, none_text, none_text, none, ptr::null_mut(), 0)
        };
        match if parsed == ffi::SUCCESS { code } else { parsed } {
            ffi::SUCCESS => Ok(()),
            code => Err(self.failure(phase, code).into()),
        }
    }

    /// Returns an error if a request could not be sent: no connection, failed TLS, or an unsupported bind.
    fn expect_sent(&self, code: c_int) -> Result<()> {
        self.expect_handshake()?;
        match code {
            ffi::SUCCESS => Ok(()),
            SERVER_DOWN | TIMEOUT | CONNECT_ERROR => Err(self.failure(Phase::Connect, code).into()),
            _ => Err(self.failure(Phase::Bind, code).into()),
        }
    }

    /// Records that no handshake is in progress. Returns an error if the guard has aborted a handshake.
    fn expect_handshake(&self) -> Result<()> {
        if !self.handle.guard.end() {
            return Ok(());
        }
        let seconds = self.link.connect_timeout.as_secs_f64();
        let text = format!("the handshake took more than {seconds:.0} s");
        Err(Failure::new(Phase::Tls, TIMEOUT, text).into())
    }

    /// Returns an error with libldap's diagnostic message for the last failure.
    fn failure(&self, phase: Phase, code: c_int) -> Failure {
        let diagnostic = text_option(&self.handle, ffi::OPT_DIAGNOSTIC_MESSAGE);
        let diagnostic = diagnostic.map(|text| text.to_string_lossy().into_owned());
        match diagnostic.filter(|diagnostic| !diagnostic.is_empty()) {
            Some(diagnostic) => Failure::new(phase, code, format!("{}: {diagnostic}", meaning(code))),
            None => Failure::new(phase, code, meaning(code)),
        }
    }
}
