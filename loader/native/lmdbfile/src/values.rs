//! The values of one key: on the leaf, on a sub-page of it, or in a tree of their own.

use crate::bulk::Bulk;
use crate::checks::{check_order, check_size, programming_error};
use crate::layout::node;
use crate::table::Table;
use crate::{FileWriter, Flags, Layout, Order, Result};

/// Collects values on the first leaf of the tree that they would have, which most never need.
#[derive(Debug)]
pub(crate) struct Values {
    flags: Flags,
    /// Bytes of the longest value.
    most: usize,
    bulk: Bulk,
    order: Option<Order>,
    last: Vec<u8>,
    count: u64,
    /// Size of every value of a table with DUPFIXED, 0 before the first.
    fixed: usize,
    /// What goes into the node.
    stored: Vec<u8>,
}

impl Values {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        Self {
            flags,
            most: layout.max_key(),
            bulk: Bulk::new(flags.of_values(), layout),
            order: Some(flags.value_order()),
            last: Vec::new(),
            count: 0,
            fixed: 0,
            stored: Vec::new(),
        }
    }

    pub fn in_own_order(&mut self) {
        self.order = None;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Begins another key.
    #[inline]
    pub fn clear(&mut self) {
        self.bulk.clear(self.flags.of_values(), self.fixed);
        self.last.clear();
        self.count = 0;
    }

    pub fn add(&mut self, file: &mut FileWriter, value: &[u8]) -> Result<()> {
        check_size("value", value, self.most)?;
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
            for (place, value) in room.chunks_exact_mut(size_of::<u64>()).zip(now) {
                place.copy_from_slice(&value.to_ne_bytes());
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
        if self.fixed == size {
            Ok(())
        } else {
            Err(programming_error("values of two sizes under DUPFIXED"))
        }
    }

    /// The node's flags and value, which has at most `room` bytes.
    #[inline]
    pub fn stored(&mut self, file: &mut FileWriter, room: usize) -> Result<(u16, &[u8])> {
        match self.count {
            0 => Err(programming_error("a key without values")),
            1 if self.last.len() <= room => Ok((0, &self.last)),
            2.. if self.bulk.on_one_page() && self.bulk.leaf.sub_page_size() <= room => {
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
