//! The operational attributes that slapadd would make by itself: N of them would make the same CSNs.

use backmdb::operational::{csn_at, csn_pattern, uuid};
use ldif::{Field, write};
use values::uuid::spelled;

const NAMES: [&str; 4] = ["entryUUID", "createTimestamp", "entryCSN", "modifyTimestamp"];

#[derive(Debug, Clone)]
pub struct OperationalAttributes {
    now: String,
    pattern: Vec<u8>,
    first: u64,
    /// Which of [`NAMES`] the entry has.
    has: [bool; 4],
}

impl OperationalAttributes {
    /// `now`: as in createTimestamp. `first`: the number of the first CSN that is made.
    pub fn new(now: &str, server_id: u16, first: u64) -> Self {
        let pattern = csn_pattern(now, server_id);
        Self { now: now.to_owned(), pattern, first, has: [false; 4] }
    }

    pub fn begin(&mut self) {
        self.has = [false; 4];
    }

    pub fn see(&mut self, field: &Field<'_>) {
        for (has, name) in self.has.iter_mut().zip(NAMES) {
            *has |= field.is(name);
        }
    }

    /// The lines of what the entry lacks. `position`: one less than its ID. `held_back`: the CSN that it
    /// has to have instead of one.
    pub fn lines(
        &self,
        dn: &[u8],
        position: u32,
        held_back: impl Fn(&[u8]) -> Option<Vec<u8>>,
        out: &mut Vec<u8>,
    ) {
        for (name, _) in NAMES.iter().zip(self.has).filter(|(_, has)| !has) {
            let value = match *name {
                "entryUUID" => spelled(uuid(&[dn, self.now.as_bytes()].concat())).to_vec(),
                "entryCSN" => {
                    let csn = csn_at(&self.pattern, self.first + u64::from(position));
                    held_back(&csn).unwrap_or(csn)
                }
                _ => self.now.clone().into_bytes(),
            };
            write::line(out, name.as_bytes(), &value);
        }
    }
}
