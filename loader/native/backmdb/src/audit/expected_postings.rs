//! Index keys of entries on their way to the sorter, by entry ID.

use crate::entry::Posting;
use crate::{Code, Error, Result};

#[derive(Debug)]
pub struct ExpectedPostings {
    pub writer: extsort::Writer,
    /// An ID had more than 32 bits: what was handed over means nothing.
    pub overflow: bool,
    /// The ID of position 0.
    first: u64,
}

impl ExpectedPostings {
    pub const fn new(writer: extsort::Writer) -> Self {
        Self { writer, overflow: false, first: 0 }
    }

    /// For tables that are written: [`crate::numbering::Numbering::plain`] has 1 as the first ID.
    pub const fn from_1(writer: extsort::Writer) -> Self {
        Self { writer, overflow: false, first: 1 }
    }

    /// All is handed over. Fails where an ID was too large.
    pub fn end(mut self) -> Result<()> {
        if self.overflow {
            let message =
                "an entry ID above 4,294,967,295: the indexes of such a database cannot be checked";
            return Err(Error::new(Code::TooMany, message));
        }
        self.writer.finish_index()
    }

    pub fn at(&mut self, id: u64) -> Posting<'_> {
        let position = u32::try_from(id.wrapping_sub(self.first)).unwrap_or_else(|_| {
            self.overflow = true;
            u32::MAX
        });
        Posting { postings: &mut self.writer, position }
    }
}
