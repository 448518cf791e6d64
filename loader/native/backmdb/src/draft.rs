//! One entry on its way from LDIF to the database; the worker reuses its memory from entry to entry.

/// A piece of [`EntryLines::bytes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub at: usize,
    pub length: usize,
}

/// A value and its normal form; the same span where the equality rule has no normaliser.
#[derive(Debug, Clone, Copy, Default)]
pub struct ValueSpans {
    pub value: Span,
    pub normal: Span,
}

/// The lines of one attribute description; until they are gathered, only neighbouring ones.
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
pub struct EntryLines {
    pub bytes: Vec<u8>,
    pub pairs: Vec<ValueSpans>,
    pub attributes: Vec<Attribute>,
    /// Of each column: the last entry that had it, and its place among the attributes there.
    met: Vec<(u64, usize)>,
    /// Number of the entry in hand.
    entry: u64,
    /// The lines of some column do not stand together.
    scattered: bool,
}

impl EntryLines {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.attributes.clear();
        self.entry += 1;
        self.scattered = false;
    }

    #[inline]
    pub fn bytes_of(&self, span: Span) -> &[u8] {
        &self.bytes[span.at..span.at + span.length]
    }

    pub fn pairs_of(&self, attribute: &Attribute) -> &[ValueSpans] {
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

    pub fn find(&self, column: usize) -> Option<&Attribute> {
        self.attributes.iter().find(|one| one.column == column)
    }

    /// One more value at the end; in the last attribute when it is of the same column.
    #[inline]
    pub fn add_line(&mut self, column: usize, pair: ValueSpans, normals: bool) {
        self.pairs.push(pair);
        match self.attributes.last_mut() {
            Some(last) if last.column == column => last.count += 1,
            _ => {
                let first = self.pairs.len() - 1;
                self.meet(column);
                self.attributes.push(Attribute { column, first, count: 1, normals });
            }
        }
    }

    fn meet(&mut self, column: usize) {
        if column >= self.met.len() {
            self.met.resize(column + 1, (0, 0));
        }
        if self.met[column].0 == self.entry {
            self.scattered = true;
        } else {
            self.met[column] = (self.entry, self.attributes.len());
        }
    }

    /// Brings the lines of each column together, in the place of the first one, as slapadd does
    /// without `-q` (`str2entry2` in `servers/slapd/entry.c`); there it goes by the spelling of the
    /// description, here by what it means.
    pub fn gather(&mut self) {
        if !self.scattered {
            return;
        }
        let Self { attributes, met, .. } = self;
        attributes.sort_by_key(|one| met[one.column].1);
        let blocks = std::mem::take(attributes);
        let pairs = std::mem::take(&mut self.pairs);
        for block in blocks {
            for pair in &pairs[block.first..block.first + block.count] {
                self.add_line(block.column, *pair, block.normals);
            }
        }
    }

    /// One more value in the attribute at `index`, whose pairs move to the end.
    pub fn add_value(&mut self, index: usize, pair: ValueSpans) {
        let one = self.attributes[index];
        let first = self.pairs.len();
        self.pairs.extend_from_within(one.first..one.first + one.count);
        self.pairs.push(pair);
        self.attributes[index] = Attribute { first, count: one.count + 1, ..one };
    }
}
