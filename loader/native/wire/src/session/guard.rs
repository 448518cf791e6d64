//! Limits the time of libldap's TLS handshakes, which ignore timeouts and cancellation.
//!
//! libldap 2.5 retries a stalled handshake forever. Shutting down the socket in both directions ends the handshake.

#![allow(unsafe_code, reason = "libldap is C")]

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Counters, lock};
use rustix::net::{Shutdown, shutdown};

use super::ffi::{self, ConnectCallbacks, Ldap, Sockbuf};

/// Time between two checks of the handshake.
const PATIENCE: Duration = Duration::from_millis(100);

/// Watches the socket of one session, and lives as long as the session.
pub(super) struct Guard {
    state: Box<Mutex<State>>,
    callbacks: Box<ConnectCallbacks>,
}

#[derive(Debug, Default)]
struct State {
    socket: Option<RawFd>,
    /// Start of the handshake that may be in progress.
    since: Option<Instant>,
    /// Whether a handshake took longer than the limit.
    timed_out: bool,
}

// SAFETY: the pointer in `callbacks` refers to `state`, which is thread-safe.
unsafe impl Send for Guard {}
// SAFETY: the pointer in `callbacks` refers to `state`, which is thread-safe.
unsafe impl Sync for Guard {}

impl Guard {
    pub(super) fn new() -> Self {
        let state = Box::new(Mutex::new(State::default()));
        let argument = ptr::from_ref(&*state).cast_mut().cast();
        let callbacks = Box::new(ConnectCallbacks { add: Some(connected), delete: Some(closing), argument });
        Self { state, callbacks }
    }

    /// Returns the value for libldap's option `CONNECT_CB`.
    pub(super) fn option(&self) -> *const c_void {
        ptr::from_ref(&*self.callbacks).cast()
    }

    /// Runs `work`. Aborts a TLS handshake of `work` that takes longer than `limit`, or that `stop` cancels.
    pub(super) fn watching<T>(&self, stop: &Counters, limit: Duration, work: impl FnOnce() -> T) -> T {
        let (working, over) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(|| self.watch(over, stop, limit));
            let done = work();
            drop(working);
            done
        })
    }

    #[allow(clippy::needless_pass_by_value, reason = "the watch ends when the sender is dropped")]
    fn watch(&self, over: Receiver<()>, stop: &Counters, limit: Duration) {
        while over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let mut state = lock(&self.state);
            let late = state.since.is_some_and(|since| since.elapsed() > limit);
            if late || stop.is_cancelled() {
                state.timed_out |= late;
                state.close();
            }
        }
    }

    /// Records that a handshake begins.
    pub(super) fn begin(&self) {
        lock(&self.state).since = Some(Instant::now());
    }

    /// Records that the handshake has ended; returns true if it was aborted because it took too long.
    pub(super) fn end(&self) -> bool {
        let mut state = lock(&self.state);
        state.since = None;
        state.timed_out
    }
}

impl State {
    fn close(&self) {
        if let Some(socket) = self.socket {
            // SAFETY: libldap calls `closing`, which waits for the lock on this state, before it closes the socket.
            let socket = unsafe { BorrowedFd::borrow_raw(socket) };
            // The server may have closed the connection already.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }
}

/// Records a connected socket. libldap calls this after it has connected the socket; a handshake may follow.
unsafe extern "C" fn connected(
    _session: *mut Ldap,
    sockbuf: *mut Sockbuf,
    _server: *mut c_void,
    _address: *mut c_void,
    callbacks: *mut ConnectCallbacks,
) -> c_int {
    let mut socket: RawFd = -1;
    // SAFETY: libldap passes its own connection and our callbacks, whose argument is a `State`.
    let state = unsafe {
        ffi::ber_sockbuf_ctrl(sockbuf, ffi::SB_GET_FD, (&raw mut socket).cast());
        &*(*callbacks).argument.cast::<Mutex<State>>()
    };
    let mut state = lock(state);
    state.socket = (socket >= 0).then_some(socket);
    state.since = Some(Instant::now());
    ffi::SUCCESS
}

/// Forgets the socket. libldap calls this before it closes the socket.
unsafe extern "C" fn closing(_session: *mut Ldap, _sockbuf: *mut Sockbuf, callbacks: *mut ConnectCallbacks) {
    // SAFETY: as in `connected`.
    let state = unsafe { &*(*callbacks).argument.cast::<Mutex<State>>() };
    let mut state = lock(state);
    state.socket = None;
    state.since = None;
}
