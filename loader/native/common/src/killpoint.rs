//! Named points at which a test can kill the process as with `kill -9`; see also loader/run/log.py.

use rustix::process::{Signal, getpid, kill_process};

const VARIABLE: &str = "DITSEED_KILL_AT";

/// Kills the process if the environment variable names this point.
pub fn killpoint(name: &str) {
    if std::env::var_os(VARIABLE).is_some_and(|wanted| wanted == name) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
