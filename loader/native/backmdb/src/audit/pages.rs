//! The second rung: every page is used once or free, and all keys and values stand in order.

use std::collections::BTreeSet;

use ldif::Counters;
use lmdbfile::{ErrorKind, PageUsage, Reader, Seen};

use super::findings::{Finding, Findings, Kind};

/// Pages after which it is told how far the look is, and asked whether to go on.
const STEP: u64 = 1024;

/// Which tables are damaged. `new`: the file was written in one go, so that it has no free pages. `seen`: what somebody
/// noted who has read all of it. An error when the operating system does not let it be read.
pub fn check(
    reader: &Reader,
    new: bool,
    seen: Option<&Seen>,
    counters: &Counters,
    findings: &mut Findings,
) -> lmdbfile::Result<BTreeSet<String>> {
    counters.begin("pages", reader.pages());
    let (mut met, mut told) = (0, 0);
    let (found, mut damage) = reader.survey(seen, &mut |page| {
        met += page.count;
        if met - told >= STEP {
            counters.advance(met - told);
            told = met;
        }
        !counters.is_cancelled()
    });
    if let Some(place) = damage.iter().position(|error| error.kind == ErrorKind::Io) {
        return Err(damage.swap_remove(place));
    }
    for error in &damage {
        findings.add(Kind::Page, || error.into());
    }
    lost(&found, findings);
    if new && found.free > 0 {
        let free = found.free;
        findings.add(Kind::FreePages, || Finding::new(format!("{free} free pages in a new file")));
    }
    Ok(damage.into_iter().filter_map(|error| error.table).collect())
}

fn lost(found: &PageUsage, findings: &mut Findings) {
    for run in &found.unreachable {
        let pages = run.end - run.start;
        findings.add(Kind::LostPages, || Finding {
            page: Some(run.start),
            ..Finding::new(format!("{pages} pages that are neither used nor free"))
        });
    }
}
