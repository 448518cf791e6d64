//! Handles entries that may already be on the server.

use wire::Result;

use super::{Worker, busy};
use crate::asks::{EntryModifies, EntryReads};
use crate::codes;
use crate::found::{Modification, ServerEntry};
use crate::journal::Kind;
use crate::options::OnExists;
use crate::work::BatchWork;

impl Worker<'_> {
    /// Looks up entries that may already be on the server, and settles those that are.
    pub(super) fn look(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<()> {
        if self.wait(work).is_none() {
            return Ok(());
        }
        let content = self.shared.options.exists.compares() || list.iter().any(|&at| work.states[at].uncertain);
        let entries: Vec<_> = list.iter().map(|&at| work.entry(at)).collect();
        let mut looks = if content {
            EntryReads::with_content(entries, &self.shared.leave_out)?
        } else {
            EntryReads::new(entries.into_iter().map(|entry| entry.dn.as_slice()).collect())
        };
        self.exchange()?.pipeline(&mut looks)?;
        let found = looks.found;
        let mut changes = Vec::new();
        for (&at, found) in list.iter().zip(found) {
            match found {
                None => {
                    let mark = &mut work.states[at];
                    (mark.look, mark.looks) = (false, mark.looks + 1);
                }
                Some(found) => {
                    changes.extend(self.settle_found(work, at, &found)?.map(|all| (at, all)));
                }
            }
        }
        self.replace(work, changes)
    }

    /// Decides what happens to an entry that exists; returns the modifications, if any are needed.
    fn settle_found(
        &self,
        work: &mut BatchWork<'_>,
        at: usize,
        found: &ServerEntry,
    ) -> Result<Option<Vec<Modification>>> {
        work.existing += 1;
        let (shared, exists) = (self.shared, self.shared.options.exists);
        let entry = work.entry(at);
        let changes = |loosely| found.changes(entry, &shared.leave_out, &shared.options.aliases, loosely);
        if work.states[at].uncertain && found.was_added_by_this_load(&changes(true)?) {
            work.settle(at, Kind::Added);
            return Ok(None);
        }
        let wanted = match exists {
            OnExists::Error => {
                work.reject(at, codes::reason(codes::EXISTS, ""), false);
                return Ok(None);
            }
            OnExists::Skip => false,
            OnExists::Replace => true,
            OnExists::Newer => found.is_older_than(entry)?,
        };
        let changes = if wanted { changes(false)? } else { Vec::new() };
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
        let mut replaces = EntryModifies::new(requests);
        let sent = self.exchange()?.pipeline(&mut replaces);
        let answers = replaces.answers;
        let mut passing = None;
        for (&at, answer) in list.iter().zip(answers) {
            match answer {
                Some(answer) if answer.code == 0 => work.settle(at, Kind::Replaced),
                Some(answer) if codes::is_transient(answer.code) => passing = Some(answer),
                Some(answer) => work.reject(at, codes::reason(answer.code, &answer.text), false),
                None => {}
            }
        }
        sent?;
        passing.map_or(Ok(()), |answer| Err(busy(&answer)))
    }
}
