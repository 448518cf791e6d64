//! Converts a rejected entry back to LDIF from its encoded value.

use codec::id2e::{self, Attribute, ValueList};
use codec::id2v;

use crate::encoded::MultivalRecord;
use crate::{Result, damaged_entry};

/// Decodes stored entries to LDIF.
pub struct LdifDecoder {
    /// By number, from 1.
    descriptions: Vec<String>,
    creator: Vec<u8>,
}

impl LdifDecoder {
    pub const fn new(descriptions: Vec<String>, creator: Vec<u8>) -> Self {
        Self { descriptions, creator }
    }

    /// Returns the entry as it was in the input, without attributes that the build added. `rows`: its rows for id2v.
    pub fn text(&self, dn: &[u8], value: &[u8], rows: &[MultivalRecord], made_uuid: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        ldif::write::line(&mut out, b"dn", dn);
        for one in &id2e::read(value).ok_or_else(damaged_entry)?.attributes {
            let at = (one.number as usize).checked_sub(1);
            let name = at.and_then(|at| self.descriptions.get(at)).ok_or_else(damaged_entry)?;
            if !self.is_made(name, one, made_uuid) {
                let values = values(one, rows).ok_or_else(damaged_entry)?;
                let mut put = |value: &[u8]| ldif::write::line(&mut out, name.as_bytes(), value);
                values.into_iter().for_each(&mut put);
            }
        }
        Ok(out)
    }

    /// Returns true for an added attribute. Generated times and CSNs have no normal forms.
    fn is_made(&self, name: &str, one: &Attribute<'_>, made_uuid: bool) -> bool {
        match name {
            "structuralObjectClass" => true,
            "entryUUID" => made_uuid,
            "createTimestamp" | "modifyTimestamp" | "entryCSN" => !one.has_normals,
            "creatorsName" | "modifiersName" => *one.values == [self.creator.as_slice()],
            _ => false,
        }
    }
}

/// Returns the values of an attribute from id2e or id2v; `None` if some cannot be read.
fn values<'a>(one: &Attribute<'a>, rows: &'a [MultivalRecord]) -> Option<ValueList<'a>> {
    if !one.apart {
        return Some(one.values.clone());
    }
    let own = rows.iter().filter(|row| u32::from(row.column) == one.number);
    let read = |row: &'a MultivalRecord| id2v::read_row(&row.record, one.has_normals);
    let values: ValueList<'_> = own.map(|row| Some(read(row)?.1)).collect::<Option<_>>()?;
    (!values.is_empty()).then_some(values)
}
