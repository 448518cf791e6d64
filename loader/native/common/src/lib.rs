//! What every crate of the core shares: its [`Error`], the [`Counters`] of a call, and pipes whose waits can be
//! cancelled.

mod cancellable;
mod context;
mod counters;
mod error;

pub use cancellable::CancellablePipe;
pub use context::{InFile, WithCode};
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, Result};
pub use workers::lock;
