//! Handles entries that may already be on the server.

use wire::Result;

use super::{Worker, busy};
use crate::codes;
use crate::entry_requests::{EntryModifies, EntryReads};
use crate::journal::Kind;
use crate::options::OnExists;
use crate::server_entry::{Modification, ServerEntry};
use crate::work::BatchWork;

impl Worker<'_> {
    /// Looks up entries that may already be on the server, and settles the entries that exist.
    pub(super) fn look_up(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<()> {
        if self.wait(work).is_none() {
            return Ok(());
        }
        let content = self.shared.options.exists.compares() || list.iter().any(|&at| work.states[at].uncertain);
        let entries: Vec<_> = list.iter().map(|&at| work.entry(at)).collect();
        let mut reads = if content {
            EntryReads::with_content(&entries, &self.shared.leave_out)?
        } else {
            EntryReads::new(entries.iter().map(|entry| entry.dn.as_slice()).collect())
        };
        self.exchange()?.pipeline(&mut reads)?;
        let existing = reads.entries;
        let mut changes = Vec::new();
        for (&at, existing) in list.iter().zip(existing) {
            if let Some(existing) = existing {
                changes.extend(self.settle_existing(work, at, &existing)?.map(|all| (at, all)));
            } else {
                let state = &mut work.states[at];
                (state.needs_lookup, state.lookups) = (false, state.lookups + 1);
            }
        }
        self.replace(work, changes)
    }

    /// Settles an existing entry. If the entry must be modified first, returns the modifications instead.
    fn settle_existing(
        &self,
        work: &mut BatchWork<'_>,
        at: usize,
        existing: &ServerEntry,
    ) -> Result<Option<Vec<Modification>>> {
        work.existing += 1;
        let (options, entry) = (self.shared.options, work.entry(at));
        let changes = |loosely| existing.changes(entry, &self.shared.leave_out, &options.aliases, loosely);
        if work.states[at].uncertain && existing.was_added_by_this_load(&changes(true)?) {
            work.settle(at, Kind::Added);
            return Ok(None);
        }
        let replace = match options.exists {
            OnExists::Error => {
                work.reject(at, codes::reason(codes::EXISTS, ""), false);
                return Ok(None);
            }
            OnExists::Skip => false,
            OnExists::Replace => true,
            OnExists::Newer => existing.is_older_than(entry)?,
        };
        let changes = if replace { changes(false)? } else { Vec::new() };
        if changes.is_empty() {
            work.settle(at, Kind::Present);
            return Ok(None);
        }
        Ok(Some(changes))
    }

    fn replace(&mut self, work: &mut BatchWork<'_>, changes: Vec<(usize, Vec<Modification>)>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let list: Vec<usize> = changes.iter().map(|(at, _)| *at).collect();
        let requests = changes.into_iter().map(|(at, all)| (work.entry(at).dn.as_slice(), all)).collect();
        let mut modifies = EntryModifies::new(requests);
        let sent = self.exchange()?.pipeline(&mut modifies);
        let answers = modifies.answers;
        let mut transient = None;
        for (&at, answer) in list.iter().zip(answers) {
            match answer {
                Some(answer) if answer.code == 0 => work.settle(at, Kind::Replaced),
                Some(answer) if codes::is_transient(answer.code) => transient = Some(answer),
                Some(answer) => work.reject(at, codes::reason(answer.code, &answer.text), false),
                None => {}
            }
        }
        sent?;
        transient.map_or(Ok(()), |answer| Err(busy(&answer)))
    }
}
