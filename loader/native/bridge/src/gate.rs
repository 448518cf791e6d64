//! Calls the core without the interpreter lock, and cancels the call on Ctrl-C. Wraps the counters of a call.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{Raise, raised};

/// Maximum delay before a signal's Python handler runs.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Runs a short call of the core without the interpreter lock.
pub fn detached<T: Send, E: Raise + Send>(work: impl FnOnce() -> Result<T, E> + Send) -> PyResult<T> {
    raised(Python::attach(|py| py.detach(work)))
}

/// Waits until the worker drops its end of the channel. Returns the exception that a signal handler raised, if any.
fn watch(worker: &Receiver<()>, counters: &common::Counters) -> Option<PyErr> {
    while worker.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        if let Some(interrupt) = Python::attach(|py| py.check_signals().err()) {
            counters.cancel();
            return Some(interrupt);
        }
    }
    None
}

/// A duplicate of a descriptor; the caller still owns the original.
pub struct Descriptor(pub OwnedFd);

impl<'py> FromPyObject<'_, 'py> for Descriptor {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let fd: RawFd = number.extract()?;
        if fd < 0 {
            return Err(PyValueError::new_err(format!("{fd} is not a file descriptor")));
        }
        // SAFETY: `fd` is not -1, and it is only passed to dup, which fails if it is not open.
        #[allow(unsafe_code)]
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        Ok(Self(borrowed.try_clone_to_owned()?))
    }
}

/// Gives Python access to the counters of a running call.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug, Default, Clone)]
pub struct Counters(pub Arc<common::Counters>);

impl Counters {
    /// Runs `work` on a new thread while this thread checks for signals. Python runs signal handlers only on its main
    /// thread, so a call from another thread just waits. If a handler raises an exception (as for Ctrl-C), the work is
    /// cancelled, and the exception is returned after the work has stopped.
    pub fn run<T: Send, R: From<T>, E: Raise + Send>(
        &self,
        work: impl FnOnce(&common::Counters) -> Result<T, E> + Send,
    ) -> PyResult<R> {
        let counters = &*self.0;
        let call = || {
            thread::scope(|scope| {
                let (done, waiting) = channel::<()>();
                let worker = scope.spawn(move || {
                    let _done = done;
                    work(counters)
                });
                let interrupt = watch(&waiting, counters);
                (worker.join(), interrupt)
            })
        };
        let (result, interrupt) = Python::attach(|py| py.detach(call));
        let result = result.unwrap_or_else(|payload| panic::resume_unwind(payload));
        interrupt.map_or_else(|| raised(result).map(R::from), Err)
    }
}

#[pymethods]
impl Counters {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    #[getter]
    fn files(&self) -> Vec<(OsString, u64, String)> {
        let fields =
            |file: common::WholeFile| (file.path.into_os_string(), file.bytes, format!("{:032x}", file.checksum));
        self.0.files().into_iter().map(fields).collect()
    }

    #[getter]
    fn open_ends(&self) -> Vec<OsString> {
        self.0.open_ends().into_iter().map(PathBuf::into_os_string).collect()
    }

    #[getter]
    fn stage(&self) -> (&'static str, u64, u64) {
        self.0.stage()
    }

    fn limit(&self, rate: u64) {
        self.0.limit(rate);
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
