//! What the walk finds of an entry: is it there, does it decode, are its attributes and values known?

use super::as_loaded::AsLoaded;
use super::findings::{Finding, Kind};
use super::walk::{MultivalRecords, Walk, of_number};
use codec::id2e::StoredEntry;
use codec::{dn2i, id2v};

impl Walk<'_> {
    pub(super) fn presence(&mut self, id: u64, entry: bool, node: bool, rows: &MultivalRecords) {
        match (entry, node) {
            (true, false) => self.add(Kind::NoNode, id, "an entry that is not in dn2i"),
            (false, true) if id != 0 => self.add(Kind::NoEntry, id, "a node without an entry"),
            (false, _) if !rows.is_empty() => {
                self.add(Kind::Values, id, "id2v has values of an entry that is not there");
            }
            _ => {}
        }
    }

    pub(super) fn entry(
        &mut self,
        id: u64,
        value: &[u8],
        rows: &MultivalRecords,
        own: Option<&[u8]>,
    ) {
        self.part.entries += 1;
        if value.is_empty() {
            let message = "a place kept for an entry that never came";
            return self.add(Kind::Hole, id, message);
        }
        match StoredEntry::read_whole(value) {
            Some(entry) => {
                self.attributes(id, &entry, rows);
                self.judged(id, &entry, rows, own);
                self.as_loaded(id, &entry, value.len(), own);
            }
            None => self.add(Kind::Entry, id, "its value in id2e cannot be read"),
        }
    }

    /// Attributes have known numbers and stand once; those that live in id2v have all their values there.
    fn attributes(&mut self, id: u64, entry: &StoredEntry<'_>, rows: &MultivalRecords) {
        let mut apart = 0;
        self.numbers(id, entry);
        for one in entry.attributes.iter().filter(|one| one.apart) {
            apart += 1;
            let (number, count) = (one.number, one.count);
            let rows = of_number(rows, number);
            let found = rows.len();
            if found != count as usize {
                let what =
                    format!("{found} values in id2v of attribute number {number}, not {count}");
                self.add(Kind::Values, id, what);
            }
            // The judge reads the rows, too, and says so itself.
            let legible = |row: &Vec<u8>| id2v::read_row(row, one.has_normals).is_some();
            if self.judge.is_none() && !rows.iter().all(legible) {
                let what = format!("a row of id2v of attribute number {number} cannot be read");
                self.add(Kind::Values, id, what);
            }
        }
        if apart < rows.len() {
            self.add(Kind::Values, id, "id2v has values of an attribute that is not there");
        }
    }

    fn numbers(&mut self, id: u64, entry: &StoredEntry<'_>) {
        let numbers = entry.attributes.iter().map(|one| one.number);
        if numbers.clone().eq(self.last.numbers.iter().copied()) {
            return;
        }
        self.last.numbers.clear();
        let mut sorted: Vec<u32> = numbers.clone().collect();
        sorted.sort_unstable();
        let is_twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        if !is_twice && sorted.iter().all(|number| self.text(*number).is_some()) {
            self.last.numbers.extend(numbers);
            return;
        }
        let numbers = sorted;
        let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1] && !self.scattered);
        for pair in twice.map(|pair| pair[0]).collect::<Vec<_>>() {
            let text = self.text(pair).unwrap_or_default().to_owned();
            self.part.findings.add(Kind::Scattered, || {
                let what = "the attribute stands in several pieces; slapd changes only the first";
                Finding::of_entry(id, what).of_attribute(&text)
            });
        }
        for number in numbers {
            if self.text(number).is_none() {
                self.add(Kind::Entry, id, format!("no attribute has the number {number}"));
            }
        }
    }

    fn text(&self, number: u32) -> Option<&str> {
        let at = (number as usize).checked_sub(1)?;
        self.texts.get(at).map(String::as_str)
    }

    fn as_loaded(&mut self, id: u64, entry: &StoredEntry<'_>, size: usize, own: Option<&[u8]>) {
        let Some(ask) = &mut self.as_loaded else { return };
        let node = own.and_then(dn2i::read);
        let name = |ask: &AsLoaded<'_>| node.map_or(Ok(()), |node| ask.name(&node));
        if let Err(refusal) = ask.entry(entry, size).and_then(|()| name(ask)) {
            self.add(Kind::Schema, id, refusal.0);
        }
    }

    fn judged(
        &mut self,
        id: u64,
        entry: &StoredEntry<'_>,
        rows: &MultivalRecords,
        own: Option<&[u8]>,
    ) {
        // slapd makes no index keys for the entry of the empty DN.
        let Some((judge, posted)) = self.judge.as_mut().filter(|_| id != 0) else { return };
        let findings = &mut self.part.findings;
        let mut tell = |kind: Kind, finding: Finding| {
            findings.add(kind, || Finding { id: Some(id), ..finding });
        };
        judge.next_entry(&mut self.last, entry, rows, &mut posted.at(id), &mut tell);
        if let Some(node) = own.and_then(dn2i::read) {
            judge.name(&node, entry, rows, &mut tell);
        }
    }
}
