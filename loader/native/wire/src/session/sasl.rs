//! Answers the questions of SASL mechanisms from the connection options, or else from ldap.conf, without a prompt.

#![allow(unsafe_code, reason = "libsasl2 is C")]

use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};

use super::ffi::{self, Ldap, Question};
use super::{Handle, text_option};
use crate::ConnectionOptions;

// sasl.h, SASL_CB_*.
const END: c_ulong = 0;
const AUTHZID: c_ulong = 0x4001;
const AUTHCID: c_ulong = 0x4002;
const PASSWORD: c_ulong = 0x4004;
const ECHO: c_ulong = 0x4005;
const NO_ECHO: c_ulong = 0x4006;
const REALM: c_ulong = 0x4008;

/// The answers to a mechanism's questions. The answers must outlive the bind, because mechanisms keep pointers to them.
pub(super) struct SaslAnswers<'a> {
    link: &'a ConnectionOptions,
    authcid: Option<CString>,
    authzid: Option<CString>,
    realm: Option<CString>,
}

impl<'a> SaslAnswers<'a> {
    pub(super) fn new(link: &'a ConnectionOptions, handle: &Handle) -> Self {
        let explicit = |text: &Option<String>| CString::new(text.clone()?).ok();
        let or_default = |text, option| explicit(text).or_else(|| text_option(handle, option));
        Self {
            link,
            authcid: or_default(&link.authcid, ffi::OPT_SASL_AUTHCID),
            authzid: or_default(&link.authzid, ffi::OPT_SASL_AUTHZID),
            realm: or_default(&link.realm, ffi::OPT_SASL_REALM),
        }
    }

    fn of(&self, id: c_ulong) -> &[u8] {
        let identity = match id {
            AUTHCID => &self.authcid,
            AUTHZID => &self.authzid,
            REALM => &self.realm,
            PASSWORD | NO_ECHO | ECHO => return self.link.secret.as_ref().map_or(b"", |secret| secret.bytes()),
            _ => return b"",
        };
        identity.as_ref().map_or(b"", |text| text.as_bytes())
    }
}

/// `LDAP_SASL_INTERACT_PROC`.
pub(super) unsafe extern "C" fn interact(
    _session: *mut Ldap,
    _flags: c_uint,
    defaults: *mut c_void,
    questions: *mut c_void,
) -> c_int {
    let mut question: *mut Question = questions.cast();
    // SAFETY: `defaults` points to the `SaslAnswers` of the bind, which nothing else borrows during the call.
    // `questions` is an array that ends with `END`.
    unsafe {
        let answers = &*defaults.cast::<SaslAnswers<'_>>();
        while (*question).id != END {
            answer(&mut *question, answers);
            question = question.add(1);
        }
    }
    ffi::SUCCESS
}

fn answer(question: &mut Question, answers: &SaslAnswers<'_>) {
    let mut text = answers.of(question.id);
    if text.is_empty() && question.id == REALM && !question.default.is_null() {
        let default: *const c_char = question.default;
        // SAFETY: a mechanism's default is a string that lives as long as the question.
        text = unsafe { std::ffi::CStr::from_ptr(default) }.to_bytes();
    }
    // A mechanism may read a NUL after the answer, which an empty slice does not have.
    let result: *const u8 = if text.is_empty() { c"".as_ptr().cast() } else { text.as_ptr() };
    question.result = result.cast();
    question.length = c_uint::try_from(text.len()).unwrap_or(0);
}
