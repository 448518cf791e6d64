//! Named points at which a test can kill the process as `kill -9` does; loader/run/log.py has the same for Python.

use rustix::process::{Signal, getpid, kill_process};

/// Kills the process if the environment variable `DITSEED_KILL_AT` names this point.
pub fn killpoint(name: &str) {
    if std::env::var_os("DITSEED_KILL_AT").is_some_and(|point| point == name) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
