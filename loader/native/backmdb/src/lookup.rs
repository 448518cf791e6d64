//! Maps attribute descriptions, as LDIF spells them, to columns. The columns are cached.

use std::sync::Arc;

use ldif::LineHead;
use rustc_hash::FxHashMap;
use schema::ValueForm;
use values::InvalidValue;

use crate::descriptions::{AttributeDescription, AttributeDescriptions};
use crate::entry::{LastValue, LineRun};

/// Maximum number of cached spellings. Further spellings are looked up each time.
const SPELLINGS: usize = 65_536;

/// Minimum number of entries between two searches for runs of lines.
const RUNS: u8 = 16;

pub struct Lookup<'a> {
    all: &'a AttributeDescriptions<'a>,
    columns: Vec<Arc<AttributeDescription>>,
    spelled: FxHashMap<Box<[u8]>, usize>,
    /// The lines of the previous entry: consecutive entries are often alike. Lines of attributes with an unsupported
    /// rule are not included.
    sequence: Vec<ExpectedLine>,
    /// Index in `sequence` of the next line.
    at: usize,
    /// Number of lines in the current entry that repeated their cached value and were not part of a run.
    single: usize,
    /// Minimum number of entries before the next search for runs.
    wait: u8,
}

/// A line of the previous entry, which the current entry is expected to have at the same position.
pub struct ExpectedLine {
    pub head: LineHead,
    pub column: usize,
    pub form: ValueForm,
    pub last: LastValue,
    /// This line and following lines that can be matched together; empty if there are none.
    pub run: LineRun,
}

impl ExpectedLine {
    /// Returns the last value if the line is likely to repeat it, without base64 or folding.
    #[inline]
    pub fn repeated(&self) -> Option<&[u8]> {
        self.last.repeated().filter(|_| self.form != ValueForm::Text)
    }
}

impl<'a> Lookup<'a> {
    pub fn new(all: &'a AttributeDescriptions<'a>) -> Self {
        let (columns, spelled) = (Vec::new(), FxHashMap::default());
        Self { all, columns, spelled, sequence: Vec::new(), at: 0, single: 0, wait: 0 }
    }

    /// Returns the previous entry's line at the position of the next line.
    #[inline]
    pub fn expected(&self) -> Option<&ExpectedLine> {
        self.sequence.get(self.at)
    }

    /// Skips `lines` lines that were as expected.
    #[inline]
    pub fn advance(&mut self, lines: usize) {
        self.at += lines;
    }

    /// Skips a line that was as expected and repeated its value.
    #[inline]
    pub fn advance_single(&mut self) {
        (self.at, self.single) = (self.at + 1, self.single + 1);
    }

    /// Returns the spelling of the last line's description, if the line was as expected.
    pub fn last_spelling(&self) -> &[u8] {
        let line = self.at.checked_sub(1).and_then(|at| self.sequence.get(at));
        line.map_or(b"", |line| line.head.description())
    }

    /// Returns the cached value of the line that was looked up last.
    #[inline]
    pub fn last_value(&mut self) -> Option<&mut LastValue> {
        let line = self.at.checked_sub(1).and_then(|at| self.sequence.get_mut(at));
        line.map(|line| &mut line.last)
    }

    /// Begins the next entry.
    pub fn rewind(&mut self) {
        self.wait = self.wait.saturating_sub(1);
        if self.single > 1 && self.wait == 0 {
            self.find_runs();
            self.wait = RUNS;
        }
        (self.at, self.single) = (0, 0);
    }

    fn find_runs(&mut self) {
        self.sequence.iter_mut().for_each(|line| line.run = LineRun::default());
        let both = |line: &ExpectedLine, next: &ExpectedLine| line.repeated().is_some() && next.repeated().is_some();
        for lines in self.sequence.chunk_by_mut(both).filter(|lines| lines.len() > 1) {
            let add = |run: LineRun, line: &ExpectedLine| run.with(line.column, line.head.description(), &line.last);
            lines[0].run = lines.iter().fold(LineRun::default(), add);
        }
    }

    /// Drops the next expected line, all lines after it, and the runs that include any of them.
    fn forget_rest(&mut self) {
        self.sequence.truncate(self.at);
        let length = self.sequence.len();
        for (at, line) in self.sequence.iter_mut().enumerate() {
            if at + line.run.len() > length {
                line.run = LineRun::default();
            }
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> &AttributeDescription {
        &self.columns[index]
    }

    /// Returns the column of the next line's description.
    #[inline]
    pub fn next(&mut self, spelling: &[u8]) -> Result<usize, InvalidValue> {
        if let Some(line) = self.expected().filter(|line| line.head.description() == spelling) {
            let column = line.column;
            self.at += 1;
            return Ok(column);
        }
        let column = self.column(spelling)?;
        let description = self.get(column);
        if description.unproven.is_some() {
            return Ok(column);
        }
        let form = description.form;
        if self.sequence.len() > self.at {
            self.forget_rest();
        }
        if self.sequence.len() < 1024 {
            let (head, last) = (LineHead::new(spelling), LastValue::default());
            self.sequence.push(ExpectedLine { head, column, form, last, run: LineRun::default() });
        }
        self.at += 1;
        Ok(column)
    }

    pub fn column(&mut self, spelling: &[u8]) -> Result<usize, InvalidValue> {
        if let Some(&index) = self.spelled.get(spelling) {
            return Ok(index);
        }
        let column = self.all.column(spelling)?;
        let index = self.columns.iter().position(|other| Arc::ptr_eq(other, &column)).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        if self.spelled.len() < SPELLINGS {
            self.spelled.insert(spelling.into(), index);
        }
        Ok(index)
    }
}
