//! Declarations for libldap and liblber (ldap.h and lber.h are compatible in OpenLDAP 2.4 to 2.6) and for sasl.h.
//!
//! The libraries are loaded at run time, because their soname differs between OpenLDAP 2.5 and 2.6 and one build
//! supports both.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

// Opaque types.
#[repr(C)]
pub struct Ldap {
    _inside: [u8; 0],
}

#[repr(C)]
pub struct Answer {
    _inside: [u8; 0],
}

#[repr(C)]
pub struct Sockbuf {
    _inside: [u8; 0],
}

#[repr(C)]
pub struct Berval {
    pub length: c_ulong,
    pub bytes: *mut c_char,
}

/// `Sockbuf_IO_Desc`: one layer of a connection.
#[repr(C)]
pub struct Layer {
    pub level: c_int,
    pub sockbuf: *mut Sockbuf,
    pub io: *mut LayerIo,
    pub private: *mut c_void,
    pub next: *mut Layer,
}

/// `Sockbuf_IO`: the functions of a layer.
#[repr(C)]
pub struct LayerIo {
    pub setup: Option<unsafe extern "C" fn(*mut Layer, *mut c_void) -> c_int>,
    pub remove: Option<unsafe extern "C" fn(*mut Layer) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut Layer, c_int, *mut c_void) -> c_int>,
    pub read: Option<unsafe extern "C" fn(*mut Layer, *mut c_void, c_ulong) -> c_long>,
    pub write: Option<unsafe extern "C" fn(*mut Layer, *mut c_void, c_ulong) -> c_long>,
    pub close: Option<unsafe extern "C" fn(*mut Layer) -> c_int>,
}

/// `sasl_interact_t`: a question of a SASL mechanism.
#[repr(C)]
pub struct Question {
    pub id: c_ulong,
    pub challenge: *const c_char,
    pub prompt: *const c_char,
    pub default: *const c_char,
    pub result: *const c_void,
    pub length: c_uint,
}

/// `ldap_conncb`: callbacks for connections that are opened and closed.
#[repr(C)]
pub struct ConnectCallbacks {
    pub add:
        Option<unsafe extern "C" fn(*mut Ldap, *mut Sockbuf, *mut c_void, *mut c_void, *mut ConnectCallbacks) -> c_int>,
    pub delete: Option<unsafe extern "C" fn(*mut Ldap, *mut Sockbuf, *mut ConnectCallbacks)>,
    pub argument: *mut c_void,
}

#[repr(C)]
pub struct Timeval {
    pub seconds: c_long,
    pub micros: c_long,
}

pub type Interact = unsafe extern "C" fn(*mut Ldap, c_uint, *mut c_void, *mut c_void) -> c_int;

pub const OPT_REFERRALS: c_int = 0x0008;
pub const OPT_RESTART: c_int = 0x0009;
pub const OPT_PROTOCOL_VERSION: c_int = 0x0011;
pub const OPT_RESULT_CODE: c_int = 0x0031;
pub const OPT_DIAGNOSTIC_MESSAGE: c_int = 0x0032;
pub const OPT_NETWORK_TIMEOUT: c_int = 0x5005;
pub const OPT_SOCKBUF: c_int = 0x5008;
pub const OPT_CONNECT_CB: c_int = 0x5011;
pub const OPT_SASL_REALM: c_int = 0x6101;
pub const OPT_SASL_AUTHCID: c_int = 0x6102;
pub const OPT_SASL_AUTHZID: c_int = 0x6103;
pub const OPT_SASL_SECPROPS: c_int = 0x6106;
pub const OPT_SASL_NOCANON: c_int = 0x610b;

pub const SASL_QUIET: c_uint = 2;
pub const SASL_BIND_IN_PROGRESS: c_int = 14;
pub const SUCCESS: c_int = 0;

pub const SB_GET_FD: c_int = 1;
pub const SB_SET_NONBLOCK: c_int = 4;
pub const SB_NEEDS_READ: c_int = 11;
pub const SB_NEEDS_WRITE: c_int = 12;
/// The level of SASL's security layer. A layer that is added later at the same level is above SASL's layer.
pub const LEVEL_APPLICATION: c_int = 30;

unsafe extern "C" {
    /// `errno` of the C library.
    pub safe fn __errno_location() -> *mut c_int;
}

/// Names of libldap in OpenLDAP 2.6 and 2.5.
const SONAMES: [&str; 2] = ["libldap.so.2", "libldap-2.5.so.0"];

static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();

/// Loads libldap at the first call, which must precede all others. Returns the reason if libldap cannot be loaded.
pub fn missing() -> Option<&'static str> {
    FUNCTIONS.get_or_init(load).as_ref().err().map(String::as_str)
}

fn functions() -> &'static Functions {
    FUNCTIONS.get_or_init(load).as_ref().expect("missing() is called before any other function")
}

fn load() -> Result<Functions, String> {
    Functions::find(library()?).map_err(|error| error.to_string())
}

/// Opens the libldap that python-ldap has loaded in this process, otherwise the first libldap of the host. A second
/// copy in one process would read ldap.conf and set up TLS and SASL again, with different results.
fn library() -> Result<Library, String> {
    let open = |flags| {
        SONAMES.iter().find_map(|name| {
            // SAFETY: the initializers of libldap and of its dependencies may run at any time.
            unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL | flags) }.ok()
        })
    };
    open(libc::RTLD_NOLOAD).or_else(|| open(0)).ok_or_else(|| format!("none of {} can be loaded", SONAMES.join(", ")))
}

/// Declares functions like a block `extern "C"`, but finds them in libldap and liblber at run time.
macro_rules! found_at_run_time {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks up all functions; the library is never unloaded.
            fn find(library: Library) -> Result<Self, libloading::Error> {
                let found = Self {
                    // SAFETY: the types are those of ldap.h and lber.h.
                    $($name: unsafe { *library.get(stringify!($name).as_bytes())? },)*
                };
                std::mem::forget(library);
                Ok(found)
            }
        }

        $(
            #[allow(clippy::too_many_arguments, reason = "libldap's own")]
            pub unsafe fn $name($($argument: $kind),*) $(-> $result)? {
                // SAFETY: the caller guarantees what libldap requires.
                unsafe { (functions().$name)($($argument),*) }
            }
        )*
    };
}

found_at_run_time! {
    fn ldap_initialize(session: *mut *mut Ldap, uri: *const c_char) -> c_int;
    fn ldap_set_option(session: *mut Ldap, option: c_int, value: *const c_void) -> c_int;
    fn ldap_get_option(session: *mut Ldap, option: c_int, value: *mut c_void) -> c_int;
    fn ldap_start_tls(
        session: *mut Ldap,
        server_controls: *mut *mut c_void,
        client_controls: *mut *mut c_void,
        id: *mut c_int,
    ) -> c_int;
    fn ldap_install_tls(session: *mut Ldap) -> c_int;
    fn ldap_sasl_bind(
        session: *mut Ldap,
        dn: *const c_char,
        mechanism: *const c_char,
        credentials: *const Berval,
        server_controls: *mut *mut c_void,
        client_controls: *mut *mut c_void,
        id: *mut c_int,
    ) -> c_int;
    fn ldap_sasl_interactive_bind(
        session: *mut Ldap,
        dn: *const c_char,
        mechanisms: *const c_char,
        server_controls: *mut *mut c_void,
        client_controls: *mut *mut c_void,
        flags: c_uint,
        interact: Interact,
        defaults: *mut c_void,
        answer: *mut Answer,
        mechanism: *mut *const c_char,
        id: *mut c_int,
    ) -> c_int;
    fn ldap_result(
        session: *mut Ldap,
        id: c_int,
        all: c_int,
        timeout: *mut Timeval,
        answer: *mut *mut Answer,
    ) -> c_int;
    fn ldap_parse_result(
        session: *mut Ldap,
        answer: *mut Answer,
        code: *mut c_int,
        matched: *mut *mut c_char,
        text: *mut *mut c_char,
        referrals: *mut *mut *mut c_char,
        controls: *mut *mut *mut c_void,
        free: c_int,
    ) -> c_int;
    fn ldap_msgfree(answer: *mut Answer) -> c_int;
    fn ldap_memfree(memory: *mut c_void);
    fn ldap_err2string(code: c_int) -> *const c_char;
    fn ldap_unbind_ext(
        session: *mut Ldap,
        server_controls: *mut *mut c_void,
        client_controls: *mut *mut c_void,
    ) -> c_int;
    fn ber_sockbuf_ctrl(sockbuf: *mut Sockbuf, option: c_int, value: *mut c_void) -> c_int;
    fn ber_sockbuf_add_io(
        sockbuf: *mut Sockbuf,
        io: *mut LayerIo,
        level: c_int,
        argument: *mut c_void,
    ) -> c_int;
}
