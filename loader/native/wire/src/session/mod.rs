//! Connects, encrypts and binds with libldap. Afterwards the connection is used without libldap's message parser.

#![allow(unsafe_code, reason = "libldap is C")]

mod ffi;
mod guard;
mod layer;
mod opening;
mod sasl;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::ptr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::{Counters, lock};
use ffi::{Answer, Ldap};
use guard::Guard;
use layer::BufferedLayer;
pub(crate) use layer::IoResult;
use opening::PendingSession;

use crate::error::PARAM_ERROR;
use crate::{ConnectionOptions, Error, Failure, Phase, Result};

/// Serializes the creation of sessions: the first session initializes libldap, in some versions not thread-safely.
static SETTING_UP: Mutex<()> = Mutex::new(());

/// Owns a libldap session, and ends the session when dropped. The guard is dropped after the session has ended.
struct Handle {
    session: *mut Ldap,
    guard: Guard,
}

// SAFETY: libldap does not bind a session to a thread, and `Session` is not `Sync`, so only one thread uses it.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle owns the session, and nothing uses the session after this. Errors no longer matter.
        unsafe { ffi::ldap_unbind_ext(self.session, ptr::null_mut(), ptr::null_mut()) };
    }
}

/// A bound session.
pub(crate) struct Session {
    pub(crate) layer: BufferedLayer,
    _handle: Handle,
}

// SAFETY: libldap does not bind a session or its connection to a thread, and `Session` is not `Sync`.
unsafe impl Send for Session {}

impl Session {
    /// Connects, starts TLS and binds.
    pub(crate) fn open(link: &ConnectionOptions, stop: &Counters) -> Result<Self> {
        stop.check()?;
        if let Some(why) = ffi::missing() {
            return Err(Failure::new(Phase::Library, PARAM_ERROR, why).into());
        }
        let opening = PendingSession { handle: initialize(link)?, link, stop };
        let guard = &opening.handle.guard;
        if let Err(error) = guard.watching(stop, link.connect_timeout, || opening.run()) {
            // The error may be the effect of a cancellation.
            stop.check()?;
            return Err(error);
        }
        let handle = opening.handle;
        let layer = add_layer(&handle).map_err(|error| Error::lost(error.to_string()))?;
        Ok(Self { layer, _handle: handle })
    }
}

fn add_layer(handle: &Handle) -> io::Result<BufferedLayer> {
    let mut sockbuf: *mut ffi::Sockbuf = ptr::null_mut();
    // SAFETY: the option writes one pointer. `Session` drops the layer together with the session.
    unsafe {
        ffi::ldap_get_option(handle.session, ffi::OPT_SOCKBUF, (&raw mut sockbuf).cast());
        if sockbuf.is_null() {
            return Err(io::Error::other("libldap has no connection"));
        }
        BufferedLayer::install(sockbuf)
    }
}

fn initialize(link: &ConnectionOptions) -> Result<Handle> {
    let uri = link.uri.as_deref().map(|uri| text(uri, "the URI")).transpose()?;
    let mut session: *mut Ldap = ptr::null_mut();
    let code = {
        let _alone = lock(&SETTING_UP);
        // SAFETY: writes one pointer. A null URI means the URI of ldap.conf.
        unsafe { ffi::ldap_initialize(&raw mut session, pointer(uri.as_ref())) }
    };
    if code != ffi::SUCCESS || session.is_null() {
        return Err(Failure::new(Phase::Connect, code, meaning(code)).into());
    }
    let handle = Handle { session, guard: Guard::new() };
    set_options(&handle, link);
    set_sasl(&handle, link)?;
    Ok(handle)
}

/// Sets the SASL options. For options that are not set, ldap.conf decides.
fn set_sasl(handle: &Handle, link: &ConnectionOptions) -> Result<()> {
    if link.as_written {
        let on: c_int = 1;
        // SAFETY: the option reads an int, or accepts any pointer except null as "on".
        unsafe { ffi::ldap_set_option(handle.session, ffi::OPT_SASL_NOCANON, (&raw const on).cast()) };
    }
    let Some(properties) = &link.secprops else { return Ok(()) };
    let properties = text(properties, "the security properties")?;
    // SAFETY: libldap parses the string during the call.
    let code = unsafe { ffi::ldap_set_option(handle.session, ffi::OPT_SASL_SECPROPS, properties.as_ptr().cast()) };
    if code == ffi::SUCCESS {
        return Ok(());
    }
    let message = format!("libldap knows no SASL security properties {}", properties.to_string_lossy());
    Err(Failure::new(Phase::Bind, PARAM_ERROR, message).into())
}

fn set_options(handle: &Handle, link: &ConnectionOptions) {
    let version: c_int = 3;
    let timeout = ffi::Timeval {
        seconds: c_long::try_from(link.connect_timeout.as_secs()).unwrap_or(c_long::MAX),
        micros: c_long::from(link.connect_timeout.subsec_micros()),
    };
    let set = |option, value: *const c_void| {
        // SAFETY: each option gets a value of its type. libldap copies the value, or the value outlives the session.
        unsafe { ffi::ldap_set_option(handle.session, option, value) };
    };
    set(ffi::OPT_PROTOCOL_VERSION, ptr::from_ref(&version).cast());
    set(ffi::OPT_REFERRALS, ptr::null());
    // Any pointer except null means "on".
    set(ffi::OPT_RESTART, ptr::from_ref(&version).cast());
    set(ffi::OPT_NETWORK_TIMEOUT, ptr::from_ref(&timeout).cast());
    // libldap does not copy the callbacks; the handle keeps them alive.
    set(ffi::OPT_CONNECT_CB, handle.guard.option());
}

/// Returns an error if more than `silence` has passed since `begun`; zero means no limit.
pub(crate) fn check_silence(begun: Instant, silence: Duration) -> Result<()> {
    let passed = begun.elapsed();
    if silence.is_zero() || passed < silence {
        return Ok(());
    }
    Err(Error::silent(passed.as_secs_f64()))
}

/// Owns an answer of libldap. The pointer may be null.
struct Message(*mut Answer);

impl Drop for Message {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the message owns the answer, and nothing uses the answer after this.
            unsafe { ffi::ldap_msgfree(self.0) };
        }
    }
}

/// Returns libldap's text for a result code.
pub(crate) fn meaning(code: i32) -> String {
    // SAFETY: the text is constant.
    let text = unsafe { CStr::from_ptr(ffi::ldap_err2string(code)) };
    text.to_string_lossy().into_owned()
}

/// Returns the value of a string option, if it is set.
fn text_option(handle: &Handle, option: c_int) -> Option<CString> {
    let mut value: *mut c_char = ptr::null_mut();
    // SAFETY: a string option writes null, or a pointer to a string that the caller must free.
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

fn text(value: &str, what: &str) -> Result<CString> {
    let refused = |_| Failure::new(Phase::Connect, PARAM_ERROR, format!("{what} contains a NUL"));
    Ok(CString::new(value).map_err(refused)?)
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}
