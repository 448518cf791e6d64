//! A connection with many outstanding requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Counters;
use wire::ber::Writer;
use wire::message::{Message, tag};
use wire::{Channel, ConnectionOptions, Result};

use crate::entry_requests::EntryReads;
use crate::requests::{self, Controls};

/// Whether a request may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendWindow {
    Yes,
    /// The request depends on a response that has not arrived.
    Wait,
    Never,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub code: i32,
    pub text: String,
}

/// The result of a transaction.
pub struct TransactionOutcome {
    pub answer: Answer,
    /// Message ID of the add that made the transaction fail, if the server reports it (RFC 5805, 3.2).
    pub guilty: Option<i32>,
}

pub struct RequestPipeline {
    channel: Channel,
    window: usize,
    writer: Writer,
}

/// A list of requests. It encodes each request, and receives the response.
pub trait Requester {
    fn count(&self) -> usize;
    fn ready(&self, _request: usize) -> SendWindow {
        SendWindow::Yes
    }
    fn encode(&mut self, request: usize, id: i32, out: &mut Writer);
    /// Handles a response, or one of the messages of a search response.
    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()>;
}

/// The window is large enough for this many requests per second at the measured round-trip time.
const RATE: f64 = 5_000.0;
/// The round-trip time is the minimum of this many measurements.
const MEASUREMENTS: usize = 3;

impl RequestPipeline {
    /// Connects, binds, and derives the window from the round-trip time, within the bounds that `window` has.
    pub fn open(link: &ConnectionOptions, stop: &Arc<Counters>, window: (usize, usize)) -> Result<Self> {
        let channel = Channel::open(link, stop)?;
        let mut exchange = Self { channel, window: window.0, writer: Writer::default() };
        let mut round_trip = Duration::MAX;
        for _ in 0..MEASUREMENTS {
            let begun = Instant::now();
            exchange.pipeline(&mut EntryReads::new(vec![b""]))?;
            round_trip = round_trip.min(begun.elapsed());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let outstanding = (round_trip.as_secs_f64() * RATE) as usize;
        exchange.window = outstanding.clamp(window.0, window.1);
        Ok(exchange)
    }

    /// Sends all requests of the queue that may be sent, keeping at most `window` requests outstanding.
    pub fn pipeline(&mut self, queue: &mut impl Requester) -> Result<()> {
        let mut open: Vec<(i32, usize)> = Vec::with_capacity(self.window);
        let (mut next, count) = (0, queue.count());
        loop {
            while next < count && open.len() < self.window {
                match queue.ready(next) {
                    SendWindow::Wait if !open.is_empty() => break,
                    SendWindow::Never | SendWindow::Wait => {}
                    SendWindow::Yes => open.push((self.send(|out, id| queue.encode(next, id, out))?, next)),
                }
                next += 1;
            }
            if open.is_empty() {
                return Ok(());
            }
            deliver(&self.channel.receive()?, queue, &mut open)?;
            // Messages that have already arrived are handled before more requests are sent.
            while !open.is_empty() {
                let Some(message) = self.channel.try_receive()? else { break };
                deliver(&message, queue, &mut open)?;
            }
        }
    }

    /// Sends one request and returns its message ID.
    fn send(&mut self, encode: impl FnOnce(&mut Writer, i32)) -> Result<i32> {
        let id = self.channel.next_id();
        self.writer.clear();
        encode(&mut self.writer, id);
        self.channel.send(self.writer.bytes())?;
        Ok(id)
    }

    /// Sends one request and returns its response.
    fn ask(&mut self, encode: impl FnOnce(&mut Writer, i32)) -> Result<Message<'_>> {
        let id = self.send(encode)?;
        let message = self.channel.receive()?;
        if message.id == id { Ok(message) } else { Err(unexpected(&message)) }
    }

    /// Starts a transaction. Returns the transaction's identifier, or the response with which the server refuses.
    pub fn start(&mut self) -> Result<std::result::Result<Vec<u8>, Answer>> {
        let message = self.ask(requests::start)?;
        let response = message.extended()?;
        if response.result.code != 0 {
            return Ok(Err(answer(&message)?));
        }
        Ok(Ok(response.value.unwrap_or_default().to_vec()))
    }

    pub fn end(&mut self, commit: bool, transaction: &[u8]) -> Result<TransactionOutcome> {
        let message = self.ask(|out, id| requests::end(out, id, commit, transaction))?;
        let response = message.extended()?;
        let guilty = response.value.and_then(|value| {
            let mut list = wire::ber::Reader::new(value).sequence().ok()?;
            list.integer().ok()
        });
        Ok(TransactionOutcome { answer: answer(&message)?, guilty })
    }
}

fn deliver(message: &Message<'_>, queue: &mut impl Requester, open: &mut Vec<(i32, usize)>) -> Result<()> {
    let at = open.iter().position(|(id, _)| *id == message.id);
    let at = at.ok_or_else(|| unexpected(message))?;
    queue.take(open[at].1, message)?;
    if !matches!(message.tag, tag::ENTRY | tag::REFERENCE | tag::INTERMEDIATE) {
        open.remove(at);
    }
    Ok(())
}

pub fn answer(message: &Message<'_>) -> Result<Answer> {
    let result = message.result()?;
    Ok(Answer { code: result.code, text: result.message() })
}

fn unexpected(message: &Message<'_>) -> wire::Error {
    let text = format!("a response to a request that was never sent ({})", message.id);
    wire::Failure::new(wire::Phase::Protocol, 2, text).into()
}

/// Add requests that are sent in the order of a list.
pub struct Adds<'a> {
    /// Each encoded request, with the indexes of the requests whose responses must arrive before it is sent.
    list: Vec<(&'a [u8], Vec<usize>)>,
    controls: Controls,
    /// Message ID of each request; 0 if the request was not sent.
    pub ids: Vec<i32>,
    pub answers: Vec<Option<Answer>>,
    sent: Vec<Option<Instant>>,
    /// The longest response time.
    pub slowest: Duration,
}

impl<'a> Adds<'a> {
    pub fn new(list: Vec<(&'a [u8], Vec<usize>)>, controls: Controls) -> Self {
        let (ids, answers, sent) = (vec![0; list.len()], vec![None; list.len()], vec![None; list.len()]);
        Self { list, controls, ids, answers, sent, slowest: Duration::ZERO }
    }
}

impl Requester for Adds<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    /// A server processes the requests of a connection in parallel, and executes the adds of a transaction in the order
    /// of its responses. So an entry is sent only after the responses to the adds of its parent and of the entries that
    /// it names. If any of these adds was refused, the entry is not sent.
    fn ready(&self, request: usize) -> SendWindow {
        let mut window = SendWindow::Yes;
        for &before in &self.list[request].1 {
            match &self.answers[before] {
                Some(answer) if answer.code == 0 => {}
                None if self.ids[before] != 0 => window = SendWindow::Wait,
                _ => return SendWindow::Never,
            }
        }
        window
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        self.ids[request] = id;
        self.sent[request] = Some(Instant::now());
        requests::add(out, id, self.list[request].0, &self.controls);
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        self.answers[request] = Some(answer(message)?);
        let took = self.sent[request].map_or(Duration::ZERO, |sent| sent.elapsed());
        self.slowest = self.slowest.max(took);
        Ok(())
    }
}
