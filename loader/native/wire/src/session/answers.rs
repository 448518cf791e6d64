//! What libldap hands out, and texts that it is given.

#![allow(unsafe_code, reason = "libldap is C")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use super::Handle;
use super::ffi::{self, Answer};
use crate::{Failure, Phase, Result};

/// An answer of libldap's, or null.
pub(super) struct Message(pub(super) *mut Answer);

impl Drop for Message {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it is ours, and nobody uses it after this.
            unsafe { ffi::ldap_msgfree(self.0) };
        }
    }
}

/// What libldap says about a result code.
pub(crate) fn meaning(code: i32) -> String {
    // SAFETY: the text is constant.
    let text = unsafe { CStr::from_ptr(ffi::ldap_err2string(code)) };
    text.to_string_lossy().into_owned()
}

/// An option that is a text, if it has a value.
pub(super) fn text_option(handle: &Handle, option: c_int) -> Option<CString> {
    let mut value: *mut c_char = ptr::null_mut();
    // SAFETY: options of this kind write a pointer, to a text that is ours then, or null.
    unsafe {
        let code = ffi::ldap_get_option(handle.session, option, (&raw mut value).cast());
        if code != ffi::SUCCESS || value.is_null() {
            return None;
        }
        let text = CStr::from_ptr(value).to_owned();
        ffi::ldap_memfree(value.cast());
        Some(text)
    }
}

pub(super) fn text(value: &str, what: &str) -> Result<CString> {
    let refused = |_| Failure::new(Phase::Connect, -9, format!("{what} has a NUL in it"));
    Ok(CString::new(value).map_err(refused)?)
}

pub(super) fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}
