//! What every crate of the core shares: its [`Error`], the [`Counters`] of a call, and pipes whose waits can be
//! cancelled.

mod cancellable;
mod context;
mod counters;
mod error;
mod killpoint;

pub use cancellable::CancellablePipe;
pub use context::{InFile, WithCode};
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, Result};
pub use killpoint::killpoint;
pub use workers::lock;
