//! Keys that cut a table into parts, for those who read it side by side.

use super::TableReader;
use super::path::MAX_DEPTH;
use super::view::Kind;
use crate::{Error, Result};

/// More parts than this are not wanted.
const ENOUGH: usize = 256;
/// Pages read for it, at most.
const PAGES: usize = 1024;

/// Goes down the levels of branches until one has keys enough.
pub(super) fn cuts(table: &TableReader<'_>) -> Result<Vec<Vec<u8>>> {
    let record = table.record;
    if record.depth > MAX_DEPTH {
        return Err(Error::corrupt(record.root, "a tree of an impossible depth"));
    }
    let (mut level, mut keys) = (vec![record.root], Vec::new());
    for _ in 1..record.depth {
        let (below, found) = children(table, &level)?;
        keys = found;
        if keys.len() >= ENOUGH || below.len() > PAGES {
            break;
        }
        level = below;
    }
    Ok(keys)
}

/// The pages below those of a level, and the keys between them.
fn children(table: &TableReader<'_>, level: &[u64]) -> Result<(Vec<u64>, Vec<Vec<u8>>)> {
    let (mut below, mut keys) = (Vec::new(), Vec::new());
    for &number in level {
        let view = table.store.view(number)?;
        if view.kind != Kind::Branch {
            return Err(Error::corrupt(number, "a tree of another depth than its record says"));
        }
        // The first key of a branch stands for all that is below; between two branches nothing cuts.
        keys.extend((1..view.count).map(|at| view.key(at).to_vec()));
        below.extend((0..view.count).map(|at| view.child(at)));
    }
    Ok((below, keys))
}
