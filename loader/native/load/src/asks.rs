//! Requests about entries that may be there already: reads, and modifies.

use wire::Result;
use wire::ber::Writer;
use wire::message::{Message, tag};

use crate::exchange::{Answer, Asker, Ready, answer};
use crate::found::{CONTENT, Change, Found};
use crate::requests;

const NOTHING: &[&str] = &["1.1"];

/// Reads of single entries.
#[derive(Debug)]
pub struct Looks<'a> {
    names: Vec<&'a [u8]>,
    content: bool,
    pub found: Vec<Option<Found>>,
}

impl<'a> Looks<'a> {
    pub fn new(names: Vec<&'a [u8]>, content: bool) -> Self {
        let found = names.iter().map(|_| None).collect();
        Self { names, content, found }
    }
}

impl Asker for Looks<'_> {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn ready(&self, _: usize) -> Ready {
        Ready::Yes
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        let attributes = if self.content { CONTENT } else { NOTHING };
        requests::read(out, id, self.names[request], attributes);
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        if message.tag == tag::ENTRY {
            self.found[request] = Some(Found::read(message)?);
        }
        Ok(())
    }
}

/// Modifies of entries that are there.
#[derive(Debug)]
pub struct Replaces<'a> {
    list: Vec<(&'a [u8], Vec<Change>)>,
    pub answers: Vec<Option<Answer>>,
}

impl<'a> Replaces<'a> {
    pub fn new(list: Vec<(&'a [u8], Vec<Change>)>) -> Self {
        let answers = vec![None; list.len()];
        Self { list, answers }
    }
}

impl Asker for Replaces<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn ready(&self, _: usize) -> Ready {
        Ready::Yes
    }

    fn encode(&mut self, request: usize, id: i32, out: &mut Writer) {
        let (dn, changes) = &self.list[request];
        requests::replace(out, id, dn, changes);
    }

    fn take(&mut self, request: usize, message: &Message<'_>) -> Result<()> {
        self.answers[request] = Some(answer(message)?);
        Ok(())
    }
}
