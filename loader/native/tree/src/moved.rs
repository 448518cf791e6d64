//! Entries that stand elsewhere than where they were read, though they did not change themselves:
//! an entry above them was renamed. They keep their entryCSN, so that replication does not tell.

use std::collections::HashMap;
use std::path::PathBuf;

use ldif::walk::each_record;
use ldif::{Counters, Input, Record, Result};

use crate::claim::Claim;
use crate::fingerprint::hash;
use crate::name::Name;

/// For each file of `looks` (entries with entryUUID and entryCSN, as they stand now): how many of
/// them `known` does not have at that DN, those newer than the claim left aside.
///
/// Memory: about 40 bytes for each entry in `looks`.
pub fn moved(
    known: &[PathBuf],
    looks: &[PathBuf],
    claim: &Claim,
    counters: &Counters,
) -> Result<Vec<u64>> {
    let mut unseen: HashMap<u128, usize> = HashMap::new();
    let mut place = Place::default();
    for (look, path) in looks.iter().enumerate() {
        each_record(Input::from_path(path)?, counters, |record| {
            if claim.held_back(record)?.is_none() {
                unseen.insert(place.of(record)?, look);
            }
            Ok(())
        })?;
    }
    for path in known {
        each_record(Input::from_path(path)?, counters, |record| {
            unseen.remove(&place.of(record)?);
            Ok(())
        })?;
    }
    let mut counts = vec![0; looks.len()];
    for look in unseen.into_values() {
        counts[look] += 1;
    }
    Ok(counts)
}

/// Which entry stands where, as a number.
#[derive(Default)]
struct Place {
    name: Name,
    text: Vec<u8>,
}

impl Place {
    fn of(&mut self, record: &Record<'_>) -> Result<u128> {
        let entry = record.entry()?;
        self.name.set(&entry.dn);
        self.text.clear();
        self.text.extend_from_slice(self.name.key());
        for field in entry.fields {
            let field = field?;
            if field.is("entryUUID") {
                self.text.push(0);
                self.text.extend(field.value()?.to_ascii_lowercase());
            }
        }
        Ok(hash(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CLAIMED: &str = "20260101000000.000000Z#000000#001#000000";

    fn entry(dn: &str, uuid: &str, second: u32) -> String {
        let csn = format!("202601010000{second:02}.000000Z#000000#001#000000");
        format!("dn: {dn}\nentryUUID: {uuid}\nentryCSN: {csn}\n\n")
    }

    #[test]
    fn counts_those_that_an_ancestor_took_along() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = home.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let known = [file("known", entry("cn=a,ou=old", "1", 0) + &entry("cn=b,ou=new", "2", 0))];
        let looks = [
            file("one", entry("cn=a,ou=new", "1", 0) + &entry("CN=B, ou=new", "2", 0)),
            file("two", entry("cn=newer,ou=new", "3", 1)),
        ];
        let claim = Claim::new(&[CLAIMED]);
        let counts = moved(&known, &looks, &claim, &Counters::default()).unwrap();
        assert_eq!(counts, [1, 0]);
    }
}
