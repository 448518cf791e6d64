//! Changes an index table from the old index keys of the changed entries to their new keys.

use codec::idl::{self, IndexRecord};
use extsort::{Sorted, Visitor};
use lmdbfile::TableReader;

use super::Sink;
use super::local::id_of;
use crate::verify::wrong;
use crate::{Code, Error, Result};

/// Applies the sorted keys of the index `name`, whose number is `at`. Even positions have the old keys of an entry, the
/// odd positions after them its new keys. `id` returns the entry ID of a position.
pub fn apply(
    sorted: &Sorted,
    at: usize,
    name: &str,
    table: TableReader<'_>,
    exponent: u32,
    id: impl Fn(u32) -> Option<u64>,
    sink: &mut impl Sink,
) -> Result<()> {
    let id = &id as &dyn Fn(u32) -> Option<u64>;
    sorted.visit(at, &mut IndexChanges { name, table, exponent, id, sink, list: List::default() })
}

/// The changes of one key.
#[derive(Debug, Default)]
struct List {
    /// The key's bytes, big-endian and left-aligned, and the number of bytes.
    key: (u64, u8),
    /// Position of the previous posting.
    last: Option<u32>,
    /// IDs to be removed.
    gone: Vec<u64>,
    /// IDs to be added.
    new: Vec<u64>,
}

struct IndexChanges<'a, 'r, S> {
    name: &'a str,
    table: TableReader<'r>,
    exponent: u32,
    id: &'a dyn Fn(u32) -> Option<u64>,
    sink: &'a mut S,
    list: List,
}

impl<S: Sink> Visitor for IndexChanges<'_, '_, S> {
    type Error = Error;

    fn key(&mut self, bits: u64, length: u8) -> Result<()> {
        self.list = List { key: (bits, length), ..List::default() };
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> Result<()> {
        for &position in positions {
            let before = self.list.last.replace(position);
            let Some(id) = (self.id)(position).filter(|_| before != Some(position)) else {
                continue;
            };
            if position % 2 == 0 {
                self.list.gone.push(id);
            } else if before == Some(position - 1) && self.list.gone.last() == Some(&id) {
                self.list.gone.pop();
            } else {
                self.list.new.push(id);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let List { key: (bits, length), gone, new, .. } = std::mem::take(&mut self.list);
        if gone.is_empty() && new.is_empty() {
            return Ok(());
        }
        let key = &bits.to_be_bytes()[..usize::from(length)];
        self.change(key, gone, new)
    }
}

impl<S: Sink> IndexChanges<'_, '_, S> {
    fn change(&mut self, key: &[u8], mut gone: Vec<u64>, mut new: Vec<u64>) -> Result<()> {
        let before = self.table.counted(key)?;
        let (first, count) = before.map_or((1, 0), |(first, count)| (id_of(&first).unwrap_or(1), count));
        if first == 0 {
            return self.widen(key, &new);
        }
        let count_after = (count + new.len() as u64).saturating_sub(gone.len() as u64);
        if idl::is_too_long(count_after, self.exponent) {
            return self.become_range(key, &gone, &new);
        }
        gone.sort_unstable();
        new.sort_unstable();
        for id in gone {
            if let Err(error) = self.sink.remove(key, &id.to_ne_bytes()) {
                return Err(self.reason(key, id, error));
            }
        }
        for id in new {
            self.sink.put(key, &id.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Returns the error for an ID that could not be removed. If the index lacks the entry, it is not damaged, but was
    /// configured later or built with another schema.
    fn reason(&self, key: &[u8], id: u64, error: Error) -> Error {
        if self.table.contains(key, &id.to_ne_bytes()).unwrap_or(true) {
            return error;
        }
        let name = self.name;
        let message = format!("the index of {name} lacks entry {id}: make it again with slapindex");
        Error::new(Code::Unproven, message)
    }

    /// Widens a range. Like slapd, never narrows it or makes it a list: wide ranges only add search candidates.
    fn widen(&mut self, key: &[u8], new: &[u64]) -> Result<()> {
        let (IndexRecord::Range(low, high), _) = self.row(key)? else {
            return Err(wrong("an index has an invalid range"));
        };
        if new.iter().all(|id| (low..=high).contains(id)) {
            return Ok(());
        }
        self.range(key, new.iter().copied().chain([low, high]))
    }

    /// Replaces the list with a range, as slapd does if a list becomes too long.
    fn become_range(&mut self, key: &[u8], gone: &[u64], new: &[u64]) -> Result<()> {
        let (_, ids) = self.row(key)?;
        let kept = ids.into_iter().filter(|id| !gone.contains(id));
        self.range(key, kept.chain(new.iter().copied()))
    }

    fn row(&self, key: &[u8]) -> Result<(IndexRecord, Vec<u64>)> {
        let values = self.table.get_all(key)?;
        idl::read(&values).ok_or_else(|| wrong("an index has an ID that does not have 8 bytes"))
    }

    fn range(&mut self, key: &[u8], ids: impl Iterator<Item = u64>) -> Result<()> {
        let mut row = idl::Writer::new(self.exponent);
        row.widen(ids);
        self.sink.clear(key)?;
        row.row().iter().try_for_each(|id| self.sink.put(key, &id.to_ne_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use extsort::{KeySize, Postings};
    use lmdbfile::{FileWriter, Format, Options, Reader, TreeWriter};

    use super::*;

    /// A sink that collects the IDs of a table.
    #[derive(Default)]
    struct TableAfter(Vec<u64>);

    impl Sink for TableAfter {
        fn open(&mut self, _: &str) -> Result<()> {
            Ok(())
        }

        fn put(&mut self, _: &[u8], value: &[u8]) -> Result<()> {
            self.0.push(id_of(value)?);
            self.0.sort_unstable();
            Ok(())
        }

        fn remove(&mut self, _: &[u8], value: &[u8]) -> Result<()> {
            let id = id_of(value)?;
            let at = self.0.iter().position(|one| *one == id).expect("a listed ID");
            self.0.remove(at);
            Ok(())
        }

        fn clear(&mut self, _: &[u8]) -> Result<()> {
            self.0.clear();
            Ok(())
        }
    }

    /// Returns the IDs of a key that had the IDs `before`, after `changes`; a list has at most seven IDs. `changes`: an
    /// ID, whether the entry had the key before, and whether it has the key now.
    fn changed(before: &[u64], changes: &[(u64, bool, bool)]) -> Vec<u64> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.mdb");
        let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 20 };
        let mut file = FileWriter::create(&path, &options).unwrap();
        let mut tree = TreeWriter::new(codec::tables::INDEX, file.layout());
        if !before.is_empty() {
            tree.begin(b"key!").unwrap();
            tree.fixed(&mut file, before).unwrap();
            tree.end(&mut file).unwrap();
        }
        let table = tree.finish(&mut file).unwrap();
        file.finish(vec![(b"cn".to_vec(), table)]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let postings = Postings::new(&[KeySize::Four], 1 << 20, directory.path(), &stop);
        let mut writer = postings.writer();
        for (number, (_, was, is)) in (0u32..).zip(changes) {
            let key = u32::from_be_bytes(*b"key!");
            for (asked, position) in [(was, 2 * number), (is, 2 * number + 1)] {
                // Pushes each key twice, like an entry with two values that have the same key.
                (0..2 * u32::from(*asked)).for_each(|_| writer.push(0, key, position));
            }
        }
        writer.finish_index().unwrap();
        drop(writer);
        let reader = Reader::open(&path).unwrap();
        let mut kept = TableAfter(before.to_vec());
        let id = |position: u32| Some(changes[position as usize / 2].0);
        let sorted = postings.finish(1).unwrap();
        apply(&sorted, 0, "cn", reader.table(b"cn").unwrap(), 3, id, &mut kept).unwrap();
        kept.0
    }

    #[test]
    fn a_list_gets_and_loses_ids() {
        let kept = changed(&[1, 5, 9], &[(5, true, false), (9, true, true), (2, false, true)]);
        assert_eq!(kept, [1, 2, 9]);
        assert_eq!(changed(&[5], &[(5, true, false)]), []);
        assert_eq!(changed(&[], &[(5, false, true), (3, false, true)]), [3, 5]);
    }

    #[test]
    fn a_list_that_is_too_long_becomes_a_range_and_stays_one() {
        let seven = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(changed(&seven, &[(9, false, true)]), [0, 1, 9]);
        assert_eq!(changed(&seven, &[(9, false, true), (3, true, false)]), [1, 2, 4, 5, 6, 7, 9]);
        assert_eq!(changed(&seven, &[(8, false, true), (9, false, true), (1, true, false)]), [0, 2, 9]);
        assert_eq!(changed(&[0, 4, 8], &[(9, false, true), (2, false, true)]), [0, 2, 9]);
        assert_eq!(changed(&[0, 4, 8], &[(8, true, false), (6, false, true)]), [0, 4, 8]);
    }
}
