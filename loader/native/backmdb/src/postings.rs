//! An index table from its sorted postings: lists of entry IDs, or ranges of them where they are long.

use extsort::{Sorted, Visitor};
use lmdbfile::{FileWriter, Flags, Table, TreeWriter};

use crate::numbering::Numbering;
use crate::{Error, Result, sorting, writing};

/// What an index table is to LMDB.
pub fn flags() -> Flags {
    Flags::DUPSORT | Flags::DUPFIXED | Flags::INTEGERDUP
}

/// Takes the rows of an index table, key by key.
pub trait Rows {
    /// `ids`: ascending, or 0, the lowest and the highest of a range.
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()>;
}

/// Writes the table of index `index`.
pub fn write(
    file: &mut FileWriter,
    sorted: &Sorted,
    index: usize,
    numbering: &Numbering,
    exponent: u32,
) -> Result<Table> {
    let tree = TreeWriter::new(flags(), file.layout());
    let mut rows = Written { file, tree };
    each_row(sorted, index, numbering, exponent, &mut rows)?;
    rows.tree.finish(rows.file).map_err(writing)
}

struct Written<'a> {
    file: &'a mut FileWriter,
    tree: TreeWriter,
}

impl Rows for Written<'_> {
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()> {
        self.tree.begin(key).map_err(writing)?;
        self.tree.fixed(self.file, ids).map_err(writing)?;
        self.tree.end(self.file).map_err(writing)
    }
}

/// Tells the rows of index `index`.
///
/// slapd turns a list into a range when an ID is to be added and 2^idlexp - 1 are there, be it among them
/// or not (`servers/slapd/back-mdb/idl.c`).
pub fn each_row(
    sorted: &Sorted,
    index: usize,
    numbering: &Numbering,
    exponent: u32,
    rows: &mut impl Rows,
) -> Result<()> {
    let most = (1usize << exponent) - 1;
    let mut teller = Teller { rows, numbering, most, list: List::default() };
    sorted.visit(index, &mut teller)?;
    Ok(())
}

/// IDs of one key.
#[derive(Debug, Default)]
struct List {
    /// Big-endian from the left, and how many bytes.
    key: (u64, u8),
    ids: Vec<u64>,
    /// Distinct positions.
    count: usize,
    last: Option<u32>,
    /// The last position came twice.
    repeated: bool,
    lowest: u64,
    highest: u64,
}

impl List {
    fn clear(&mut self) {
        self.ids.clear();
        *self = Self { ids: std::mem::take(&mut self.ids), lowest: u64::MAX, ..Self::default() };
    }

    #[inline]
    fn add(&mut self, position: u32, id: u64, most: usize) {
        self.repeated = self.last == Some(position);
        if self.repeated {
            return;
        }
        self.last = Some(position);
        self.count += 1;
        self.lowest = self.lowest.min(id);
        self.highest = self.highest.max(id);
        if self.count <= most {
            self.ids.push(id);
        }
    }

    const fn is_range(&self, most: usize) -> bool {
        self.count > most || self.count == most && self.repeated
    }
}

struct Teller<'a, R> {
    rows: &'a mut R,
    numbering: &'a Numbering,
    most: usize,
    list: List,
}

/// What goes wrong while postings are shown: in the sorter, or with what is made of them.
pub(crate) struct Failure(pub Error);

impl From<extsort::Error> for Failure {
    fn from(error: extsort::Error) -> Self {
        Self(sorting(error))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl<R: Rows> Visitor for Teller<'_, R> {
    type Error = Failure;

    fn key(&mut self, bits: u64, length: u8) -> std::result::Result<(), Failure> {
        self.list.clear();
        self.list.key = (bits, length);
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> std::result::Result<(), Failure> {
        for &position in positions {
            if let Some(id) = self.numbering.id(position) {
                self.list.add(position, id, self.most);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> std::result::Result<(), Failure> {
        let list = &mut self.list;
        // All its entries are dropped.
        if list.count == 0 {
            return Ok(());
        }
        let range = [0, list.lowest, list.highest];
        let is_range = list.is_range(self.most);
        if !is_range && !self.numbering.is_plain() {
            list.ids.sort_unstable();
        }
        let key = &list.key.0.to_be_bytes()[..usize::from(list.key.1)];
        self.rows.row(key, if is_range { &range } else { &list.ids }).map_err(Failure)?;
        Ok(())
    }
}
