//! The table ad2i: attribute descriptions by their numbers.

use lmdbfile::TableReader;
use tree::{Description, Names};

use crate::{Error, Result};

/// slapd supports no more attribute descriptions in one database (`servers/slapd/back-mdb/attr.c`).
const MOST: usize = 65_536;

#[derive(Debug)]
pub(crate) struct Descriptions {
    /// Indexed by the number in ad2i.
    known: Vec<Option<Description>>,
    /// Whether each description has only one number. slapd never assigns two, but a damaged table may contain them.
    pub(crate) distinct: bool,
}

impl Descriptions {
    pub(crate) fn read(ad2i: &TableReader<'_>, ignore: &Names) -> Result<Self> {
        let (mut found, drop) = (Vec::new(), Names::default());
        let mut cursor = ad2i.cursor()?;
        while let Some((key, text)) = cursor.next()? {
            let number = codec::ad2i::read(key).map_or(MOST, |number| number as usize);
            if number >= MOST {
                return Err(Error::damaged("a number that no attribute can have (table ad2i)"));
            }
            let description = Description::learn(text, &drop, ignore).ok_or_else(|| {
                let text = text[..text.len().min(80)].escape_ascii();
                Error::damaged(format!("\"{text}\" is no attribute description (table ad2i)"))
            })?;
            found.resize_with(found.len().max(number + 1), || None);
            found[number] = Some(description);
        }
        let mut hashes: Vec<u64> =
            found.iter().flatten().map(|one: &Description| one.hash).collect();
        hashes.sort_unstable();
        let distinct = hashes.windows(2).all(|pair| pair[0] != pair[1]);
        Ok(Self { known: found, distinct })
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Description> {
        self.known.get(number as usize)?.as_ref()
    }
}
