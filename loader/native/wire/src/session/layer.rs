//! A liblber layer on top of a connection. It reads and writes through the layers below (SASL, TLS, the socket), so
//! that libldap parses no messages.

#![allow(unsafe_code, reason = "liblber is C")]

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use super::ffi::{self, Layer, LayerIo, Sockbuf};

/// The layer of one session. It must not be used after the session has ended.
pub(crate) struct BufferedLayer {
    sockbuf: *mut Sockbuf,
    layer: *mut Layer,
    socket: RawFd,
}

/// The result of one attempt to read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoResult {
    Bytes(usize),
    /// Wait until the socket is readable.
    NeedsRead,
    /// Wait until the socket is writable.
    NeedsWrite,
    /// The other side has closed the connection.
    End,
}

/// liblber's interface takes a mutable pointer to this, but liblber never writes through the pointer.
static IO: LayerIo = LayerIo {
    setup: Some(remember),
    remove: None,
    control: Some(control_below),
    read: Some(read_below),
    write: Some(write_below),
    close: None,
};

impl BufferedLayer {
    /// Adds the layer to a bound connection, and makes its socket non-blocking.
    ///
    /// # Safety
    ///
    /// `sockbuf` must belong to a connected session, and outlive this layer.
    pub(super) unsafe fn install(sockbuf: *mut Sockbuf) -> io::Result<Self> {
        let mut layer: *mut Layer = ptr::null_mut();
        let mut socket: RawFd = -1;
        let io = ptr::from_ref(&IO).cast_mut();
        // SAFETY: the caller guarantees `sockbuf`. `remember` writes to the address of `layer` only during the call.
        // `SB_GET_FD` writes an int, and `SB_SET_NONBLOCK` takes any pointer that is not null.
        let installed = unsafe {
            let place = (&raw mut layer).cast();
            ffi::ber_sockbuf_add_io(sockbuf, io, ffi::LEVEL_APPLICATION, place) == 0
                && ffi::ber_sockbuf_ctrl(sockbuf, ffi::SB_GET_FD, (&raw mut socket).cast()) == 1
                && ffi::ber_sockbuf_ctrl(sockbuf, ffi::SB_SET_NONBLOCK, place) == 1
        };
        if installed && !layer.is_null() && socket >= 0 {
            return Ok(Self { sockbuf, layer, socket });
        }
        Err(io::Error::other("libldap does not expose its connection"))
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the session that owns this layer keeps the socket open.
        unsafe { BorrowedFd::borrow_raw(self.socket) }
    }

    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<IoResult> {
        forget_error();
        // SAFETY: the layers below write at most `room.len()` bytes into `room`.
        let count = unsafe { read_below(self.layer, room.as_mut_ptr().cast(), length(room)) };
        self.judge(count)
    }

    /// Writes some of `bytes`. After a result other than [`IoResult::Bytes`], the next call must pass the same bytes at
    /// the same address, because encrypting layers may have buffered them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<IoResult> {
        forget_error();
        // SAFETY: the layers below read at most `bytes.len()` bytes and modify none.
        let count = unsafe { write_below(self.layer, bytes.as_ptr().cast_mut().cast(), length(bytes)) };
        self.judge(count)
    }

    /// Interprets the result of a read or write. If they must wait, the layers below return 0 or -1 and set an option.
    fn judge(&self, count: c_long) -> io::Result<IoResult> {
        let error = io::Error::last_os_error();
        if count > 0 {
            return Ok(IoResult::Bytes(usize::try_from(count).unwrap_or(0)));
        }
        if self.wants(ffi::SB_NEEDS_WRITE) {
            return Ok(IoResult::NeedsWrite);
        }
        if self.wants(ffi::SB_NEEDS_READ) {
            return Ok(IoResult::NeedsRead);
        }
        match error.raw_os_error() {
            _ if count == 0 => Ok(IoResult::End),
            Some(0) => Err(io::Error::other(format!("the security layer failed ({count})"))),
            _ => Err(error),
        }
    }

    fn wants(&self, option: c_int) -> bool {
        // SAFETY: these options take no argument.
        unsafe { ffi::ber_sockbuf_ctrl(self.sockbuf, option, ptr::null_mut()) == 1 }
    }
}

/// Clears errno. A security layer may fail without setting errno, and then an old value would be reported.
fn forget_error() {
    // SAFETY: `errno` belongs to this thread.
    unsafe { *ffi::__errno_location() = 0 };
}

fn length(bytes: &[u8]) -> c_ulong {
    bytes.len() as c_ulong
}

unsafe extern "C" fn remember(layer: *mut Layer, place: *mut c_void) -> c_int {
    // SAFETY: `install` passes the address of a pointer that outlives the call.
    unsafe { *place.cast() = layer };
    0
}

unsafe extern "C" fn control_below(layer: *mut Layer, option: c_int, value: *mut c_void) -> c_int {
    // SAFETY: liblber passes our layer, and the layers below it are intact.
    unsafe {
        let next = (*layer).next;
        (*(*next).io).control.map_or(0, |control| control(next, option, value))
    }
}

/// # Safety
///
/// `layer` must be our layer on a connection, so that there is a layer below it; `room` must have `length` bytes.
unsafe extern "C" fn read_below(layer: *mut Layer, room: *mut c_void, length: c_ulong) -> c_long {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let next = (*layer).next;
        (*(*next).io).read.map_or(-1, |read| read(next, room, length))
    }
}

/// # Safety
///
/// The conditions of `read_below`.
unsafe extern "C" fn write_below(layer: *mut Layer, bytes: *mut c_void, length: c_ulong) -> c_long {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let next = (*layer).next;
        (*(*next).io).write.map_or(-1, |write| write(next, bytes, length))
    }
}
