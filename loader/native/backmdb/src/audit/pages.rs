//! The second rung: every page is used once or free, and all keys and values stand in order.

use std::collections::BTreeSet;

use lmdbfile::{Accounting, Reader};

use super::findings::{Finding, Findings, Kind};

/// Which tables are damaged. `new`: the file was written in one go, so that it has no free pages.
pub fn look(reader: &Reader, new: bool, findings: &mut Findings) -> BTreeSet<String> {
    let (found, damage) = reader.survey(&mut |_| {});
    for error in &damage {
        findings.add(Kind::Page, || error.into());
    }
    lost(&found, findings);
    if new && found.free > 0 {
        let free = found.free;
        findings.add(Kind::FreePages, || Finding::new(format!("{free} free pages in a new file")));
    }
    damage.into_iter().filter_map(|error| error.table).collect()
}

fn lost(found: &Accounting, findings: &mut Findings) {
    for run in &found.unreachable {
        let pages = run.end - run.start;
        findings.add(Kind::LostPages, || Finding {
            page: Some(run.start),
            ..Finding::new(format!("{pages} pages that are neither used nor free"))
        });
    }
}
