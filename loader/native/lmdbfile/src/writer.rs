//! Writes a table from sorted keys and values. Values go into the node of their key, onto a sub-page in the node, or
//! into a tree of values.

use crate::bulk::Bulk;
use crate::error::{check_order, check_size, programming_error};
use crate::layout::{MAX_VALUE, NODE_HEADER, node};
use crate::{Error, ErrorKind, FileWriter, Flags, Layout, Order, Result, Table};

/// Writes one table bottom-up. Uses memory for one page per level of the tree.
pub struct TreeWriter {
    layout: Layout,
    flags: Flags,
    bulk: Bulk,
    /// The values of the open key.
    values: Values,
    /// The key that was added last.
    key: Vec<u8>,
    /// Further values may be added to `key`.
    open: bool,
    /// `None`: the caller guarantees the order.
    key_order: Option<Order>,
    entries: u64,
    /// Number of pending values.
    unfilled: u64,
}

/// A key whose value [`TreeWriter::fill`] adds later.
#[must_use = "the table cannot be finished without its value"]
#[derive(Debug)]
pub struct PendingValue {
    page: u64,
    key: Vec<u8>,
}

impl TreeWriter {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        Self {
            layout,
            flags,
            bulk: Bulk::new(flags, layout),
            values: Values::new(flags, layout),
            key: Vec::new(),
            open: false,
            key_order: Some(flags.key_order()),
            entries: 0,
            unfilled: 0,
        }
    }

    /// For tables whose owner gives LMDB its own comparison functions: keys and values are written in the order of the
    /// calls, and refused only if they equal their predecessor.
    #[must_use]
    pub fn in_own_order(mut self) -> Self {
        self.key_order = None;
        self.values.order = None;
        self
    }

    /// Returns the number of values added so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds a key with one value.
    #[inline]
    pub fn put(&mut self, file: &mut FileWriter, key: &[u8], value: &[u8]) -> Result<()> {
        let max_value = self.layout.max_key().min(self.room(key));
        if (1..=max_value).contains(&value.len()) || !self.flags.contains(Flags::DUPSORT) {
            return self.put_node(file, key, value, 0);
        }
        self.begin(key)?;
        self.dup(file, value)?;
        self.end(file)
    }

    pub(crate) fn put_node(&mut self, file: &mut FileWriter, key: &[u8], value: &[u8], flags: u16) -> Result<()> {
        self.next_key(key)?;
        self.entries += 1;
        let size = value.len();
        if size <= self.room(key) {
            return self.bulk.add(file, Layout::leaf_node(size, flags, key.len()), key, value);
        }
        if size > MAX_VALUE {
            let message = format!("a value of {size} bytes; LMDB allows at most {MAX_VALUE}");
            return Err(Error::new(ErrorKind::TooLong, message));
        }
        let pointer = file.overflow(value)?;
        self.bulk.table.overflow_pages += self.layout.overflow_pages(size);
        let header = Layout::leaf_node(size, flags | node::BIGDATA, key.len());
        self.bulk.add(file, header, key, pointer.as_ref())
    }

    /// Returns the maximum size in bytes of a value in the node of this key.
    fn room(&self, key: &[u8]) -> usize {
        self.layout.max_node() - NODE_HEADER - key.len() - self.layout.key_pad(key.len())
    }

    /// Opens a key of a DUPSORT table, to which [`Self::dup`] or [`Self::fixed`] adds values.
    #[inline]
    pub fn begin(&mut self, key: &[u8]) -> Result<()> {
        if !self.flags.contains(Flags::DUPSORT) {
            return Err(programming_error("many values for a key of a table without DUPSORT"));
        }
        self.next_key(key)?;
        self.values.clear();
        self.open = true;
        Ok(())
    }

    /// Adds a value to the open key.
    #[inline]
    pub fn dup(&mut self, file: &mut FileWriter, value: &[u8]) -> Result<()> {
        self.check_open()?;
        self.values.add(file, value)
    }

    /// Adds any number of values to the open key of a table with INTEGERDUP and DUPFIXED.
    #[inline]
    pub fn fixed(&mut self, file: &mut FileWriter, values: &[u64]) -> Result<()> {
        self.check_open()?;
        self.values.add_integers(file, values)
    }

    /// Closes the open key.
    #[inline]
    pub fn end(&mut self, file: &mut FileWriter) -> Result<()> {
        self.check_open()?;
        self.open = false;
        let room = self.room(&self.key);
        let Self { bulk, values, key, .. } = self;
        self.entries += values.count;
        let (flags, value) = values.stored(file, room)?;
        let header = Layout::leaf_node(value.len(), flags, key.len());
        bulk.add(file, header, key, value)
    }

    /// Adds a key to a table without DUPSORT; [`Self::fill`] adds its value later. The key gets a leaf of its own.
    pub fn held(&mut self, file: &mut FileWriter, key: &[u8]) -> Result<PendingValue> {
        if self.flags.contains(Flags::DUPSORT) {
            return Err(programming_error("a value that comes late in a table with DUPSORT"));
        }
        self.next_key(key)?;
        let page = self.bulk.reserve_leaf(file, key)?;
        self.entries += 1;
        self.unfilled += 1;
        Ok(PendingValue { page, key: key.to_vec() })
    }

    /// Adds the value of a pending key. The overflow pages of a large value go to the current end of the file.
    pub fn fill(&mut self, file: &mut FileWriter, pending: &PendingValue, value: &[u8]) -> Result<()> {
        let mut single = Self::new(self.flags, self.layout);
        single.put(file, &pending.key, value)?;
        self.bulk.table.overflow_pages += single.bulk.table.overflow_pages;
        self.unfilled = self.unfilled.saturating_sub(1);
        file.replace(pending.page, single.bulk.leaf.sealed().to_vec());
        Ok(())
    }

    /// Writes the open pages, and returns the record of the table.
    pub fn finish(mut self, file: &mut FileWriter) -> Result<Table> {
        if self.open || self.unfilled > 0 {
            return Err(programming_error("a table finished before the values of all its keys came"));
        }
        let mut table = self.bulk.finish(file)?;
        table.entries = self.entries;
        Ok(table)
    }

    fn check_open(&self) -> Result<()> {
        if self.open { Ok(()) } else { Err(programming_error("a value before its key")) }
    }

    #[inline]
    fn next_key(&mut self, key: &[u8]) -> Result<()> {
        if self.open {
            return Err(programming_error("a key while another is open"));
        }
        check_size("key", key, self.layout.max_key())?;
        check_order("key", self.key_order, &self.key, key)?;
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }
}

/// The values of a key, collected on the first leaf of their tree. Most keys need no second leaf, and thus no tree.
struct Values {
    flags: Flags,
    /// Maximum size of a value in bytes.
    max_value: usize,
    bulk: Bulk,
    order: Option<Order>,
    last: Vec<u8>,
    count: u64,
    /// Size of every value of a DUPFIXED table, or 0 before the first value.
    fixed: usize,
    /// Buffer for the value of the key's node.
    stored: Vec<u8>,
}

impl Values {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        Self {
            flags,
            max_value: layout.max_key(),
            bulk: Bulk::new(flags.of_values(), layout),
            order: Some(flags.value_order()),
            last: Vec::new(),
            count: 0,
            fixed: 0,
            stored: Vec::new(),
        }
    }

    /// Prepares for another key.
    #[inline]
    pub fn clear(&mut self) {
        self.bulk.clear(self.flags.of_values(), self.fixed);
        self.last.clear();
        self.count = 0;
    }

    pub fn add(&mut self, file: &mut FileWriter, value: &[u8]) -> Result<()> {
        check_size("value", value, self.max_value)?;
        check_order("value", self.order, &self.last, value)?;
        self.last.clear();
        self.last.extend_from_slice(value);
        self.count += 1;
        if self.flags.contains(Flags::DUPFIXED) {
            return self.add_fixed(file, value);
        }
        let header = Layout::leaf_node(0, 0, value.len());
        self.bulk.add(file, header, value, &[])
    }

    fn add_fixed(&mut self, file: &mut FileWriter, value: &[u8]) -> Result<()> {
        self.fix_size(value.len())?;
        if self.bulk.leaf.fixed_room() == 0 {
            self.bulk.flush_leaf(file)?;
        }
        self.bulk.leaf.push_fixed(1).copy_from_slice(value);
        Ok(())
    }

    pub fn add_integers(&mut self, file: &mut FileWriter, mut values: &[u64]) -> Result<()> {
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return Ok(()) };
        if !self.flags.contains(Flags::DUPFIXED | Flags::INTEGERDUP) {
            return Err(programming_error("integers in a table without INTEGERDUP and DUPFIXED"));
        }
        self.fix_size(size_of::<u64>())?;
        check_order("value", self.order, &self.last, &first.to_ne_bytes())?;
        for pair in values.windows(2).filter(|pair| pair[0] >= pair[1]).take(1) {
            check_order("value", self.order, &pair[0].to_ne_bytes(), &pair[1].to_ne_bytes())?;
        }
        self.last.clear();
        self.last.extend_from_slice(&last.to_ne_bytes());
        self.count += values.len() as u64;
        while !values.is_empty() {
            if self.bulk.leaf.fixed_room() == 0 {
                self.bulk.flush_leaf(file)?;
            }
            let (now, later) = values.split_at(values.len().min(self.bulk.leaf.fixed_room()));
            let room = self.bulk.leaf.push_fixed(now.len());
            for (room, value) in room.chunks_exact_mut(size_of::<u64>()).zip(now) {
                room.copy_from_slice(&value.to_ne_bytes());
            }
            values = later;
        }
        Ok(())
    }

    fn fix_size(&mut self, size: usize) -> Result<()> {
        if self.fixed == 0 {
            self.fixed = size;
            self.bulk.clear(self.flags.of_values(), size);
        }
        if self.fixed == size { Ok(()) } else { Err(programming_error("values of two sizes under DUPFIXED")) }
    }

    /// Returns the flags and the value of the key's node. The value has at most `room` bytes.
    #[inline]
    pub fn stored(&mut self, file: &mut FileWriter, room: usize) -> Result<(u16, &[u8])> {
        match self.count {
            0 => Err(programming_error("a key without values")),
            1 if self.last.len() <= room => Ok((0, &self.last)),
            // No leaf is full yet, so all values are on the open one.
            2.. if self.bulk.table.leaf_pages == 0 && self.bulk.leaf.sub_page_size() <= room => {
                self.bulk.leaf.sub_page(&mut self.stored);
                Ok((node::DUPDATA, &self.stored))
            }
            count => {
                let table = Table { entries: count, ..self.bulk.finish(file)? };
                self.stored.clear();
                self.stored.extend_from_slice(&table.encode());
                Ok((node::DUPDATA | node::SUBDATA, &self.stored))
            }
        }
    }
}
