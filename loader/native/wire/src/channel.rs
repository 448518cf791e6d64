//! A bound connection that sends and receives messages, and the options to open it.

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

/// A password. Debug output hides the password, and dropping overwrites it in memory.
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
        // Prevents the compiler from removing the overwrite as a dead store.
        black_box(&self.0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Connection options, with the same meaning as in ldapsearch. If an option is `None`, libldap's files and environment
/// variables decide (ldap.conf(5)).
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    pub uri: Option<String>,
    pub bind_dn: Option<String>,
    pub secret: Option<Secret>,
    /// The SASL mechanism; `None` is a simple bind.
    pub mechanism: Option<String>,
    /// SASL authentication and authorization identities.
    pub authcid: Option<String>,
    pub authzid: Option<String>,
    pub realm: Option<String>,
    /// Required properties of the SASL security layer (ldap.conf(5), `SASL_SECPROPS`).
    pub secprops: Option<String>,
    /// Whether the server's name is taken from the URI, without canonicalization (`SASL_NOCANON`).
    pub as_written: bool,
    /// 1 requests `StartTLS`, but continues in clear text if the server refuses (-Z). 2 requires `StartTLS` (-ZZ).
    pub start_tls: u8,
    pub connect_timeout: Duration,
    /// Time limit for the answer to `StartTLS` and to each step of a bind; zero means no limit.
    pub bind_timeout: Duration,
    /// If a server owes an answer and sends nothing for longer than this, the wait fails; zero means no limit.
    pub silence: Duration,
}

/// Maximum time between two checks for cancellation.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// [`Channel::send`] writes the queued messages when they have this many bytes.
const SEND_BUFFER: usize = 64 * 1024;

/// Shortest and longest pause between reads. A busy server sends entries one by one. A read after a pause gets a
/// hundred entries or more, and saves as many wake-ups. Pauses begin short and double each time, so that a page's end
/// is hardly delayed.
const PAUSES: Range<Duration> = Duration::from_micros(1500)..Duration::from_millis(6);

/// Pauses on a Unix socket. The socket holds at most some hundred entries, and slapd resumes slowly after it was full.
const LOCAL_PAUSES: Range<Duration> = Duration::from_micros(50)..Duration::from_micros(50);

/// A bound connection. Requests have numbers from [`Self::next_id`]; answers arrive in any order.
///
/// Every wait fails soon after `Counters::cancel`, or when the server has sent nothing for longer than
/// [`ConnectionOptions::silence`].
pub struct Channel {
    session: Session,
    stop: Arc<Counters>,
    silence: Duration,
    input: Input,
    output: Output,
    next_id: i32,
    gathering: bool,
    pauses: Range<Duration>,
    /// Length of the next pause.
    pause: Duration,
}

impl Channel {
    /// Connects and binds.
    pub fn open(link: &ConnectionOptions, stop: &Arc<Counters>) -> Result<Self> {
        let session = Session::open(link, stop)?;
        let local = socket_domain(session.layer.socket()) == Ok(AddressFamily::UNIX);
        let pauses = if local { LOCAL_PAUSES } else { PAUSES };
        Ok(Self {
            session,
            stop: Arc::clone(stop),
            silence: link.silence,
            input: Input::default(),
            output: Output::default(),
            // libldap has used lower numbers for its own requests, which have all ended.
            next_id: 100,
            gathering: false,
            pause: pauses.start,
            pauses,
        })
    }

    /// Returns the number for a new request. After 2^31 - 1, numbers begin again at 1.
    pub fn next_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = if id == i32::MAX { 1 } else { id + 1 };
        id
    }

    /// Queues messages. The queue is written when it has `SEND_BUFFER` bytes, by `flush`, and before waits for answers.
    pub fn send(&mut self, messages: &[u8]) -> Result<()> {
        self.output.push(messages);
        self.pause = self.pauses.start;
        if self.output.len() < SEND_BUFFER {
            return Ok(());
        }
        self.push_out().map(drop)
    }

    /// Writes all queued messages. Answers that arrive meanwhile are buffered.
    pub fn flush(&mut self) -> Result<()> {
        let mut begun = Instant::now();
        let mut unsent = self.output.len();
        while let Some(needed) = self.push_out()? {
            self.check(begun)?;
            // A server that cannot send its answers may stop reading requests.
            let answered = self.read_some()?.is_none();
            if !answered {
                self.wait(needed | PollFlags::IN)?;
            }
            if answered || self.output.len() < unsent {
                (begun, unsent) = (Instant::now(), self.output.len());
            }
        }
        Ok(())
    }

    /// Turns pauses between reads on or off. Pauses suit a stream of answers of which none is urgent.
    pub fn gather(&mut self, on: bool) {
        self.gathering = on;
    }

    /// Returns the next message. Waits until the message has arrived.
    pub fn receive(&mut self) -> Result<Message<'_>> {
        let range = loop {
            if let Some(range) = self.input.next()? {
                break range;
            }
            self.read()?;
        };
        open(self.input.bytes(range))
    }

    /// Returns the next message if it has already arrived. Never waits.
    pub fn try_receive(&mut self) -> Result<Option<Message<'_>>> {
        let range = loop {
            if let Some(range) = self.input.next()? {
                break range;
            }
            self.push_out()?;
            if self.read_some()?.is_some() {
                return Ok(None);
            }
        };
        open(self.input.bytes(range)).map(Some)
    }

    /// Waits until at least one byte has been read.
    fn read(&mut self) -> Result<()> {
        let begun = Instant::now();
        let mut pause = self.gathering;
        loop {
            self.check(begun)?;
            let output = self.push_out()?;
            let Some(needed) = self.read_some()? else { return Ok(()) };
            if pause && output.is_none() {
                thread::sleep(self.pause);
                self.pause = (2 * self.pause).min(self.pauses.end);
            } else {
                self.wait(needed | output.unwrap_or(PollFlags::empty()))?;
            }
            pause = false;
        }
    }

    /// Writes without waiting. Returns the event to wait for, or `None` if all queued bytes are written.
    fn push_out(&mut self) -> Result<Option<PollFlags>> {
        while self.output.len() > 0 {
            match moved(self.session.layer.write(self.output.next()), PollFlags::OUT)? {
                Ok(count) => self.output.consumed(count),
                Err(needed) => return Ok(Some(needed)),
            }
        }
        Ok(None)
    }

    /// Reads available bytes without waiting. Returns the event to wait for if no bytes were available.
    fn read_some(&mut self) -> Result<Option<PollFlags>> {
        loop {
            match moved(self.session.layer.read(self.input.room()), PollFlags::IN)? {
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

    /// Waits until the socket is ready, or for at most `PATIENCE`.
    fn wait(&self, event: PollFlags) -> Result<()> {
        let socket = self.session.layer.socket();
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

/// Parses a message. An unsolicited message means that the server is disconnecting, and becomes an error.
fn open(bytes: &[u8]) -> Result<Message<'_>> {
    let message = Message::read(bytes)?;
    if message.id == 0 { Err(message.notice_of_disconnection()) } else { Ok(message) }
}

/// Returns the number of bytes read or written, which is 0 after a signal. If no bytes could be moved, returns the
/// event to wait for: `own`, unless a security layer needs the other direction.
fn moved(done: io::Result<IoResult>, own: PollFlags) -> Result<std::result::Result<usize, PollFlags>> {
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
