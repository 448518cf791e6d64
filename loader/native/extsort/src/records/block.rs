//! Records in memory: their bytes one after the other, and where each is.

/// Records in memory.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    pub records: Vec<Place>,
}

/// A record of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Most significant half first: it needs less room than a `u128` because of the alignment.
    pub prefix: [u64; 2],
    start: u32,
    len: u32,
}

#[allow(clippy::cast_possible_truncation)] // takes the halves apart
pub(super) fn halves(prefix: u128) -> [u64; 2] {
    [(prefix >> 64) as u64, prefix as u64]
}

impl Block {
    pub fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.records)
    }

    /// An empty one with room for about as much.
    pub fn next(&self) -> Self {
        let bytes = Vec::with_capacity(self.bytes.len());
        Self { bytes, records: Vec::with_capacity(self.records.len()) }
    }

    pub fn push(&mut self, prefix: u128, bytes: &[u8]) -> Option<()> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        let len = u32::try_from(bytes.len()).ok()?;
        self.bytes.extend_from_slice(bytes);
        self.records.push(Place { prefix: halves(prefix), start, len });
        Some(())
    }

    pub fn record(&self, place: Place) -> &[u8] {
        &self.bytes[place.start as usize..][..place.len as usize]
    }

    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        let record = |place: &Place| &bytes[place.start as usize..][..place.len as usize];
        self.records.sort_unstable_by(|one, other| {
            one.prefix.cmp(&other.prefix).then_with(|| record(one).cmp(record(other)))
        });
    }
}
