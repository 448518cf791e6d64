//! What every crate of the core shares: its [`Error`], the [`Counters`] of a call, and pipes whose waits can be
//! cancelled.

mod cancellable;
mod counters;
mod error;
mod killpoint;

pub use cancellable::CancellablePipe;
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, InFile, Result, WithCode};
pub use killpoint::killpoint;
pub use workers::lock;
