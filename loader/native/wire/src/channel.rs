//! A bound connection as a stream of messages, out and in; how to reach a server, and as whom.

use std::fmt;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::Counters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use crate::buffer::{Input, Output};
use crate::session::{IoResult, Session, check_silence};
use crate::{Error, Message, Result};

/// A password. Overwritten when it is let go, and never printed.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Or the compiler would see that nobody reads it any more.
        black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Options of ldapsearch, with its meaning. Where `None` stands, libldap's own files and variables
/// decide (ldap.conf(5)).
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    pub uri: Option<String>,
    pub bind_dn: Option<String>,
    pub secret: Option<Secret>,
    /// SASL; without it the bind is simple.
    pub mechanism: Option<String>,
    /// Who SASL says we are, and for whom we act.
    pub authcid: Option<String>,
    pub authzid: Option<String>,
    pub realm: Option<String>,
    /// What a security layer must be (ldap.conf(5), `SASL_SECPROPS`).
    pub secprops: Option<String>,
    /// The server's name is that of the URI, whatever its address is called (`SASL_NOCANON`).
    pub as_written: bool,
    /// 1: try, and go on in the clear (-Z). 2: demand (-ZZ).
    pub start_tls: u8,
    pub connect_timeout: Duration,
    /// So long may the answer to `StartTLS`, and to each step of a bind, take; zero is without limit.
    pub bind_timeout: Duration,
    /// So long may a server that owes us something send not a byte; zero is without limit.
    pub silence: Duration,
}

/// How long a wait may overlook that we are cancelled.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What [`Channel::send`] keeps back at most before it writes.
const SEND: usize = 64 * 1024;

/// A server that pours out entries writes them one by one. Looking again after so long finds a
/// hundred and more, and spares us as many wake-ups. Each nap is twice the one before, up to the
/// longest, so that the end of a page is not overslept by much.
const NAPS: Range<Duration> = Duration::from_micros(1500)..Duration::from_millis(6);

/// A Unix socket holds some hundred entries at most, and slapd is slow to go on once it was full.
const NAPS_LOCAL: Range<Duration> = Duration::from_micros(50)..Duration::from_micros(50);

/// Requests go out with numbers of the caller's asking; answers come in as they come.
///
/// Every wait ends soon after `Counters::cancel`, and with an error when the server sends not a byte
/// for as long as the link's `silence` says.
pub struct Channel {
    session: Session,
    stop: Arc<Counters>,
    silence: Duration,
    input: Input,
    output: Output,
    next_id: i32,
    gathering: bool,
    naps: Range<Duration>,
    /// How long the next one is.
    nap: Duration,
}

impl Channel {
    /// Connects and binds.
    pub fn open(link: &ConnectionOptions, stop: &Arc<Counters>) -> Result<Self> {
        let session = Session::open(link, stop)?;
        let local = socket_domain(session.socket()) == Ok(AddressFamily::UNIX);
        let naps = if local { NAPS_LOCAL } else { NAPS };
        Ok(Self {
            session,
            stop: Arc::clone(stop),
            silence: link.silence,
            input: Input::default(),
            output: Output::default(),
            // libldap's own requests, of which none is left, had the first few.
            next_id: 100,
            gathering: false,
            nap: naps.start,
            naps,
        })
    }

    /// The number of a request to be made; each is given once.
    pub fn next_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = if id == i32::MAX { 1 } else { id + 1 };
        id
    }

    /// Takes whole messages to be sent. They go when much has come together, with `flush`, or before
    /// the next wait for an answer.
    pub fn send(&mut self, messages: &[u8]) -> Result<()> {
        self.output.push(messages);
        self.nap = self.naps.start;
        if self.output.len() < SEND {
            return Ok(());
        }
        self.push_out().map(drop)
    }

    /// Returns when all is sent. Answers that come meanwhile are kept.
    pub fn flush(&mut self) -> Result<()> {
        let mut begun = Instant::now();
        let mut left = self.unsent();
        while let Some(needed) = self.push_out()? {
            self.check(begun)?;
            // A server that cannot send its answers may stop to take requests.
            let answered = self.read_some()?.is_none();
            if !answered {
                self.wait(needed | PollFlags::IN)?;
            }
            if answered || self.unsent() < left {
                (begun, left) = (Instant::now(), self.unsent());
            }
        }
        Ok(())
    }

    /// Bytes that `send` took and that are not sent yet.
    pub fn unsent(&self) -> usize {
        self.output.len()
    }

    /// For a stream of answers where none is urgent: fewer and larger reads.
    pub fn gather(&mut self, on: bool) {
        self.gathering = on;
    }

    /// The next message, after a wait where that is needed.
    pub fn receive(&mut self) -> Result<Message<'_>> {
        let place = loop {
            if let Some(place) = self.input.next()? {
                break place;
            }
            self.read()?;
        };
        open(self.input.bytes(place))
    }

    /// The next message if it is there, without a wait.
    pub fn try_receive(&mut self) -> Result<Option<Message<'_>>> {
        let place = loop {
            if let Some(place) = self.input.next()? {
                break place;
            }
            self.push_out()?;
            if self.read_some()?.is_some() {
                return Ok(None);
            }
        };
        open(self.input.bytes(place)).map(Some)
    }

    /// Reads at least a byte.
    fn read(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut nap = self.gathering;
        loop {
            self.check(begun)?;
            let output = self.push_out()?;
            let Some(needed) = self.read_some()? else { return Ok(()) };
            if nap && output.is_none() {
                thread::sleep(self.nap);
                self.nap = (2 * self.nap).min(self.naps.end);
            } else {
                self.wait(needed | output.unwrap_or(PollFlags::empty()))?;
            }
            nap = false;
        }
    }

    /// Writes what goes without a wait; what the rest is waiting for, `None` when nothing is left.
    fn push_out(&mut self) -> Result<Option<PollFlags>> {
        while !self.output.is_empty() {
            match moved(self.session.write(self.output.next()), PollFlags::OUT)? {
                Ok(count) => self.output.consumed(count),
                Err(needed) => return Ok(Some(needed)),
            }
        }
        Ok(None)
    }

    /// Reads what is there. Where nothing is, what it is waiting for.
    fn read_some(&mut self) -> Result<Option<PollFlags>> {
        loop {
            match moved(self.session.read(self.input.room()), PollFlags::IN)? {
                Ok(0) => {}
                Ok(count) => {
                    self.input.fill(count);
                    return Ok(None);
                }
                Err(needed) => return Ok(Some(needed)),
            }
        }
    }

    fn check(&self, begun: Instant) -> Result<()> {
        self.stop.check()?;
        check_silence(begun, self.silence)
    }

    /// Waits until the socket is ready or a little while is over.
    fn wait(&self, event: PollFlags) -> Result<()> {
        let socket = self.session.socket();
        let mut polled = [PollFd::new(&socket, event)];
        match poll(&mut polled, Some(&PATIENCE)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::lost(error.to_string())),
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Channel").field("next_id", &self.next_id).finish_non_exhaustive()
    }
}

/// A message for us; one for nobody is the server's farewell.
fn open(bytes: &[u8]) -> Result<Message<'_>> {
    let message = Message::read(bytes)?;
    if message.id == 0 { Err(message.notice_of_disconnection()) } else { Ok(message) }
}

/// How many bytes were read or written, 0 if a signal came in between; else what it is waiting for, `own` unless a
/// security layer wants the other direction.
fn moved(
    done: io::Result<IoResult>,
    own: PollFlags,
) -> Result<std::result::Result<usize, PollFlags>> {
    Ok(match done {
        Ok(IoResult::Bytes(count)) => Ok(count),
        Ok(IoResult::NeedsRead) => Err(PollFlags::IN),
        Ok(IoResult::NeedsWrite) => Err(PollFlags::OUT),
        Ok(IoResult::End) => return Err(Error::lost("the server closed the connection")),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INTR) => Ok(0),
            Some(Errno::AGAIN) => Err(own),
            _ => return Err(Error::lost(error.to_string())),
        },
    })
}
