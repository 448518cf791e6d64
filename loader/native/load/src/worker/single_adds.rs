//! Adds entries outside of transactions, with many outstanding requests.

use common::killpoint;
use wire::Result;

use super::{MOST_LOOKUPS, Worker, busy};
use crate::codes;
use crate::exchange::{Adds, Answer};
use crate::journal::Kind;
use crate::requests::Controls;
use crate::work::BatchWork;

impl Worker<'_> {
    pub(super) fn single(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<()> {
        if self.wait(work).is_none() {
            return Ok(());
        }
        let controls = Controls { relax: self.shared.options.relax, transaction: None };
        work.sending = list.len();
        let exchange = self.exchange()?;
        let mut adds = Adds::new(work.adds(list), controls);
        let sent = exchange.pipeline(&mut adds);
        let (ids, answers) = (adds.ids, adds.answers);
        let mut transient = None;
        let mut any_exists = false;
        for ((&at, id), answer) in list.iter().zip(ids).zip(answers) {
            match answer {
                Some(answer) if codes::is_transient(answer.code) => transient = Some(answer),
                Some(answer) => {
                    any_exists |= answer.code == codes::EXISTS;
                    self.judge(work, at, &answer)?;
                }
                None if id != 0 => work.states[at].lost(),
                None => {}
            }
        }
        if any_exists {
            work.look_up_all();
        }
        sent?;
        killpoint("load.single");
        transient.map_or(Ok(()), |answer| Err(busy(&answer)))
    }

    /// Settles an entry by the response to its add, or marks it for a lookup.
    fn judge(&self, work: &mut BatchWork<'_>, at: usize, answer: &Answer) -> Result<()> {
        let outside = self.shared.is_never_in_transaction(work.entry(at));
        let state = &mut work.states[at];
        state.outside = outside;
        match answer.code {
            0 => {
                self.shared.remember_descriptions(&work.prepared[at].descriptions);
                work.settle(at, Kind::Added);
            }
            codes::EXISTS if state.lookups < MOST_LOOKUPS => state.needs_lookup = true,
            codes::NO_SUCH_OBJECT => work.orphan(at, || codes::reason(answer.code, &answer.text))?,
            code => work.reject(at, codes::reason(code, &answer.text), false),
        }
        Ok(())
    }
}
