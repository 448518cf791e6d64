//! One entry on its way from LDIF to the database; the worker reuses its memory from entry to entry.

/// A piece of [`Draft::bytes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub at: usize,
    pub length: usize,
}

/// A value and its normal form; the same span where the equality rule has no normaliser.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pair {
    pub value: Span,
    pub normal: Span,
}

/// Neighbouring lines of one attribute description.
#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    /// Index into the worker's columns.
    pub column: usize,
    pub first: usize,
    pub count: usize,
    /// Normal forms are stored. Those that slapadd generates mostly have none.
    pub normals: bool,
}

#[derive(Debug, Default)]
pub struct Draft {
    pub bytes: Vec<u8>,
    pub pairs: Vec<Pair>,
    pub attributes: Vec<Attribute>,
}

impl Draft {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.attributes.clear();
    }

    #[inline]
    pub fn bytes_of(&self, span: Span) -> &[u8] {
        &self.bytes[span.at..span.at + span.length]
    }

    pub fn pairs_of(&self, attribute: &Attribute) -> &[Pair] {
        &self.pairs[attribute.first..attribute.first + attribute.count]
    }

    pub fn values_of<'a>(
        &'a self,
        attribute: &Attribute,
    ) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.value))
    }

    /// What matching rules see.
    pub fn normals_of<'a>(
        &'a self,
        attribute: &Attribute,
    ) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.normal))
    }

    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Span {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span { at, length: bytes.len() }
    }

    /// The first block of a column.
    pub fn find(&self, column: usize) -> Option<&Attribute> {
        self.attributes.iter().find(|one| one.column == column)
    }

    /// The last block of a column: the one that slapd's schema check looks at.
    pub fn find_last(&self, column: usize) -> Option<&Attribute> {
        self.attributes.iter().rev().find(|one| one.column == column)
    }

    /// The column's lines are not all neighbours.
    pub fn is_scattered(&self, column: usize) -> bool {
        self.attributes.iter().filter(|one| one.column == column).count() > 1
    }

    /// One more value at the end; in the last attribute when it is of the same column.
    #[inline]
    pub fn add_line(&mut self, column: usize, pair: Pair, normals: bool) {
        self.pairs.push(pair);
        match self.attributes.last_mut() {
            Some(last) if last.column == column => last.count += 1,
            _ => {
                let first = self.pairs.len() - 1;
                self.attributes.push(Attribute { column, first, count: 1, normals });
            }
        }
    }

    /// One more value in the attribute at `index`, whose pairs move to the end.
    pub fn add_value(&mut self, index: usize, pair: Pair) {
        let one = self.attributes[index];
        let first = self.pairs.len();
        self.pairs.extend_from_within(one.first..one.first + one.count);
        self.pairs.push(pair);
        self.attributes[index] = Attribute { first, count: one.count + 1, ..one };
    }
}
