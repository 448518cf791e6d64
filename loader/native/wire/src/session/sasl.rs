//! Answers the questions of SASL mechanisms from the connection options, or else from ldap.conf; nobody is prompted.

#![allow(unsafe_code, reason = "libsasl2 is C")]

use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

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

/// The answers to a mechanism's questions. They must outlive the bind, because mechanisms get pointers into them.
pub(super) struct SaslAnswers<'a> {
    link: &'a ConnectionOptions,
    authcid: Option<CString>,
    authzid: Option<CString>,
    realm: Option<CString>,
}

impl<'a> SaslAnswers<'a> {
    pub(super) fn new(link: &'a ConnectionOptions, handle: &Handle) -> Self {
        let given = |text: &Option<String>| CString::new(text.clone()?).ok();
        let or_default = |given: Option<CString>, option| given.or_else(|| text_option(handle, option));
        Self {
            link,
            authcid: or_default(given(&link.authcid), ffi::OPT_SASL_AUTHCID),
            authzid: or_default(given(&link.authzid), ffi::OPT_SASL_AUTHZID),
            realm: or_default(given(&link.realm), ffi::OPT_SASL_REALM),
        }
    }

    /// Returns a pointer that libldap passes to [`interact`].
    pub(super) fn as_defaults(&mut self) -> *mut c_void {
        ptr::from_mut(self).cast()
    }

    fn of(&self, id: c_ulong) -> &[u8] {
        match id {
            AUTHCID => known(self.authcid.as_ref()),
            AUTHZID => known(self.authzid.as_ref()),
            REALM => known(self.realm.as_ref()),
            PASSWORD | NO_ECHO | ECHO => self.link.secret.as_ref().map_or(b"", |secret| secret.bytes()),
            _ => b"",
        }
    }
}

fn known(text: Option<&CString>) -> &[u8] {
    text.map_or(b"", |text| text.as_bytes())
}

/// `LDAP_SASL_INTERACT_PROC`.
pub(super) unsafe extern "C" fn interact(
    _session: *mut Ldap,
    _flags: c_uint,
    defaults: *mut c_void,
    questions: *mut c_void,
) -> c_int {
    let mut question: *mut Question = questions.cast();
    // SAFETY: `defaults` comes from `as_defaults`, is alive, and is not borrowed elsewhere during the call. `questions`
    // is an array that ends with `END`.
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
    // The pointer of an empty slice has no NUL after it, but a mechanism may read one.
    let place: *const u8 = if text.is_empty() { c"".as_ptr().cast() } else { text.as_ptr() };
    question.result = place.cast();
    question.length = c_uint::try_from(text.len()).unwrap_or(0);
}
