//! One entry: its name and its attributes.

use backmdb::{blob, rows};
use lmdbfile::TableReader;
use rustc_hash::FxHashMap;
use tree::Description;

use crate::descriptions::Descriptions;
use crate::parents::Place;
use crate::{Result, damaged, reading};

/// An entry where it lies in the pages.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: u64,
    pub(crate) place: &'a Place,
    pub(crate) parts: &'a [Part<'a>],
    pub(crate) id2v: Option<TableReader<'a>>,
}

/// One attribute of it.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub(crate) description: &'a Description,
    stored: blob::Stored<'a>,
}

impl Entry<'_> {
    /// Shows every value, those of one attribute side by side.
    #[inline]
    pub(crate) fn each(&self, mut see: impl FnMut(&Description, &[u8])) -> Result<()> {
        for part in self.parts {
            if part.stored.apart {
                self.apart(part, &mut see)?;
            } else {
                part.stored.values().for_each(|value| see(part.description, value));
            }
        }
        Ok(())
    }

    /// Values that live in id2v. slapd too takes it for damage when they are fewer than it wrote down.
    fn apart(&self, part: &Part<'_>, see: &mut impl FnMut(&Description, &[u8])) -> Result<()> {
        let wrong = |what: &str| {
            let name = String::from_utf8_lossy(part.description.text());
            damaged(format!("entry {}: {what} of {name} (table id2v)", self.id))
        };
        let table = self.id2v.ok_or_else(|| wrong("the table is missing that has the values"))?;
        #[allow(clippy::cast_possible_truncation, reason = "back-mdb keeps 16 bits of it")]
        let number = part.stored.number as u16;
        let key = [&self.id.to_ne_bytes()[..], &number.to_ne_bytes()].concat();
        let (mut cursor, mut count) = (table.cursor().map_err(reading)?, 0);
        cursor.seek(&key).map_err(reading)?;
        while let Some((_, row)) = cursor.next().map_err(reading)?.filter(|(at, _)| *at == key) {
            let (_, value) = rows::read(row).ok_or_else(|| wrong("a damaged value"))?;
            see(part.description, value);
            count += 1;
        }
        if count == part.stored.count {
            return Ok(());
        }
        Err(wrong(&format!("{count} values instead of {}", part.stored.count)))
    }
}

/// Takes entries apart.
#[derive(Debug)]
pub(crate) struct Decoder<'d> {
    descriptions: &'d Descriptions,
    /// By number: the entry in which it was met last, counted from 1.
    met: Vec<u64>,
    entries: u64,
}

impl<'d> Decoder<'d> {
    pub(crate) fn new(descriptions: &'d Descriptions) -> Self {
        Self { descriptions, met: vec![0; descriptions.len()], entries: 0 }
    }

    /// Leaves in `parts` the attributes of the entry `id`.
    #[inline]
    pub(crate) fn decode<'a>(
        &mut self,
        id: u64,
        value: &'a [u8],
        parts: &mut Vec<Part<'a>>,
    ) -> Result<()>
    where
        'd: 'a,
    {
        self.entries += 1;
        let broken = || damaged(format!("entry {id} is damaged (table id2e)"));
        let mut again = false;
        for stored in blob::attributes(value).map_err(|_| broken())? {
            let stored = stored.map_err(|_| broken())?;
            let number = stored.number;
            let description = self.descriptions.get(number).ok_or_else(|| {
                damaged(format!("entry {id}: no attribute has the number {number} (table id2e)"))
            })?;
            let met = &mut self.met[number as usize];
            again |= std::mem::replace(met, self.entries) == self.entries;
            parts.push(Part { description, stored });
        }
        if again {
            bring_together(parts);
        }
        Ok(())
    }
}

/// Attributes that stand in several places: slapd 2.6.11 to 2.6.14 damage entries that are loaded so.
fn bring_together(parts: &mut [Part<'_>]) {
    let mut firsts = FxHashMap::default();
    let mut first =
        |(at, part): (usize, &Part<'_>)| *firsts.entry(part.stored.number).or_insert(at);
    let firsts: Vec<_> = parts.iter().enumerate().map(&mut first).collect();
    let mut order: Vec<_> = firsts.into_iter().zip(parts.iter().cloned()).collect();
    order.sort_by_key(|(first, _)| *first);
    for (place, (_, part)) in parts.iter_mut().zip(order) {
        *place = part;
    }
}
