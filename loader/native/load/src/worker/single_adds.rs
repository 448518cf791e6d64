//! Adds entries outside of transactions, with many outstanding requests.

use common::killpoint;
use wire::Result;

use super::{LOOKS, Worker, busy};
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
        let mut passing = None;
        let mut there = false;
        for ((&at, id), answer) in list.iter().zip(ids).zip(answers) {
            match answer {
                Some(answer) if codes::is_transient(answer.code) => passing = Some(answer),
                Some(answer) => {
                    there |= answer.code == codes::EXISTS;
                    self.judge(work, at, &answer)?;
                }
                None if id != 0 => work.states[at].lost(),
                None => {}
            }
        }
        if there {
            work.look_for_all();
        }
        sent?;
        killpoint("load.single");
        passing.map_or(Ok(()), |answer| Err(busy(&answer)))
    }

    /// Settles an entry according to the response to its add.
    fn judge(&self, work: &mut BatchWork<'_>, at: usize, answer: &Answer) -> Result<()> {
        let alone = self.shared.stays_outside(work.entry(at));
        let mark = &mut work.states[at];
        mark.alone = alone;
        match answer.code {
            0 => {
                self.shared.learn(&work.prepared[at].descriptions);
                work.settle(at, Kind::Added);
            }
            codes::EXISTS if mark.looks < LOOKS => mark.look = true,
            codes::NO_SUCH_OBJECT => {
                work.orphan(at, || codes::reason(answer.code, &answer.text))?;
            }
            code => work.reject(at, codes::reason(code, &answer.text), false),
        }
        Ok(())
    }
}
