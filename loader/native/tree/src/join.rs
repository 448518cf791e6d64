//! Many files as one stream, for one slapadd.

use std::io::Write;
use std::path::Path;

use ldif::walk::each_record;
use ldif::{Code, Counters, Error, Input, Result, write};

use crate::editor::Editor;
use crate::name::Name;
use crate::names::Names;

/// Written at once; slapadd's pipe takes it in pieces.
const CHUNK: usize = 256 * 1024;

/// The contextCSN values that the entry `root` shall have, and no other entry.
#[derive(Debug)]
pub struct RootStamp {
    root: Name,
    lines: Vec<u8>,
    met: bool,
}

impl RootStamp {
    pub fn new(root: &str, context_csns: &[impl AsRef<str>]) -> Self {
        let mut lines = Vec::new();
        for csn in context_csns {
            write::line(&mut lines, b"contextCSN", csn.as_ref().as_bytes());
        }
        Self { root: Name::new(root.as_bytes()), lines, met: false }
    }

    pub fn root(&self) -> &Name {
        &self.root
    }

    /// The lines that this entry gets: none unless it is the root.
    pub fn lines_for(&mut self, name: &Name) -> &[u8] {
        if name.key() != self.root.key() {
            return b"";
        }
        self.met = true;
        &self.lines
    }

    /// Values that found no entry to stand on would be lost in silence.
    pub fn expect_met(&self) -> Result<()> {
        if self.met || self.lines.is_empty() {
            return Ok(());
        }
        let root = String::from_utf8_lossy(self.root.key()).into_owned();
        Err(Error::new(
            Code::RootMissing,
            format!("the input has no entry {root} to bear contextCSN"),
        ))
    }
}

pub fn context_csn() -> Names {
    Names::new(["contextCSN"])
}

/// Writes the records of all `paths` in order, a blank line after each. Returns their number.
pub fn join(
    paths: &[impl AsRef<Path>],
    sink: &mut impl Write,
    mut stamp: Option<RootStamp>,
    counters: &Counters,
) -> Result<u64> {
    let mut editor = Editor::new(stamp.as_ref().map(|_| context_csn()).unwrap_or_default());
    let mut text = Vec::with_capacity(2 * CHUNK);
    let mut name = Name::default();
    let mut entries = 0;
    for path in paths {
        each_record(Input::from_path(path.as_ref())?, counters, |record| {
            let extra = match &mut stamp {
                None => b"",
                Some(stamp) => {
                    name.set(&record.entry()?.dn);
                    stamp.lines_for(&name)
                }
            };
            editor.copy(record, extra, &mut text)?;
            entries += 1;
            if text.len() < CHUNK { Ok(()) } else { send(&mut text, sink, counters) }
        })?;
    }
    send(&mut text, sink, counters)?;
    stamp.map_or(Ok(()), |stamp| stamp.expect_met())?;
    Ok(entries)
}

fn send(text: &mut Vec<u8>, sink: &mut impl Write, counters: &Counters) -> Result<()> {
    let sent = sink.write_all(text);
    text.clear();
    sent.map_err(|error| counters.check().err().unwrap_or_else(|| error.into()))
}
