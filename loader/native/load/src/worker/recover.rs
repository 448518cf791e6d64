//! Recovers from broken connections and busy servers.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use wire::{Error, Failure, Phase, Result};

use super::Worker;
use crate::codes;
use crate::work::BatchWork;

/// Shortest and longest pause between attempts to reconnect.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Time between two checks during a pause whether the load was cancelled or stopped.
const NAP: Duration = Duration::from_millis(50);
/// An entry is rejected if more than this many successive connections break while it is sent.
const BREAKS: usize = 5;

/// slapd's default for olcSockbufMaxIncoming, in bytes (`SLAP_SB_MAX_INCOMING_DEFAULT`).
const LARGE: usize = (1 << 18) - 1;

impl Worker<'_> {
    /// Reconnects if the connection broke or the server was busy. Returns any other error, which ends the load.
    pub(super) fn recover(&mut self, work: &mut BatchWork<'_>, error: Error) -> Result<()> {
        let reason = retryable(error)?;
        let was_connected = self.exchange.take().is_some();
        self.shared.tally.reconnects.fetch_add(1, Relaxed);
        if reason.phase != Phase::Lost {
            self.pause(PAUSES[0])?;
        }
        let at_once = self.connect()?;
        if was_connected && at_once && work.sending > 0 && reason.phase == Phase::Lost {
            suspect(work, &reason);
        }
        Ok(())
    }

    /// Connects, with increasing pauses between attempts. Returns true if the first attempt succeeded.
    fn connect(&mut self) -> Result<bool> {
        let (begun, mut pause) = (Instant::now(), PAUSES[0]);
        loop {
            match self.open() {
                Ok(exchange) => {
                    self.exchange = Some(exchange);
                    return Ok(pause == PAUSES[0]);
                }
                Err(error) => {
                    let reason = retryable(error)?;
                    if begun.elapsed() > self.shared.options.patience {
                        return Err(reason.into());
                    }
                }
            }
            self.pause(pause)?;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    fn pause(&self, length: Duration) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < length && !self.shared.queue.is_stopped() {
            self.shared.counters.check()?;
            thread::sleep(NAP);
        }
        Ok(())
    }
}

/// Finds the entry at which the server always closes the connection. If several entries were sent, the next attempts
/// send fewer entries. If a single entry was sent, and broke too many connections, the entry is rejected.
fn suspect(work: &mut BatchWork<'_>, reason: &Failure) {
    work.breaks += 1;
    if work.sending > 1 {
        if work.breaks > 1 {
            (work.size, work.breaks) = (work.sending / 2, 0);
        }
    } else if work.breaks > BREAKS {
        let at = work.unsettled[0];
        let bytes = work.prepared[at].operation.len();
        let words = "the server closes the connection when this entry is sent";
        let limit = if bytes > LARGE { "; slapd's limit is olcSockbufMaxIncomingAuth" } else { "" };
        work.reject(at, format!("{words} ({bytes} bytes): {}{limit}", reason.text), false);
    }
}

/// Returns the failure if it is worth another attempt, otherwise the error.
fn retryable(error: Error) -> Result<Failure> {
    match error {
        Error::Ldap(failure) if is_temporary(&failure) => Ok(*failure),
        error => Err(error),
    }
}

fn is_temporary(failure: &Failure) -> bool {
    match failure.phase {
        Phase::Connect | Phase::Lost | Phase::Silent => true,
        Phase::Bind => failure.result < 0 || codes::is_transient(failure.result),
        Phase::Request => codes::is_transient(failure.result),
        Phase::Library | Phase::Tls | Phase::Protocol => false,
    }
}
