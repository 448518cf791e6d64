//! An entry of the input, and the add request for it.

use std::path::PathBuf;
use std::sync::Arc;

use common::Result;
use ldif::Field;
use ldif::records::Record;
use tree::Names;
use tree::fingerprint::{hash, hash_description};
use tree::name::{ParsedDn, is_within};
use wire::ber::Writer;
use xxhash_rust::xxh3::xxh3_64;

use crate::requests;

/// A record of the input, with hashes that identify the entry and its parent.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Number of the record, counted from 0 over all input files.
    pub position: u64,
    /// The input file; `None` for a stream.
    pub path: Option<Arc<PathBuf>>,
    /// Number of the record's first line, counted from 1.
    pub line: u64,
    pub text: Vec<u8>,
    pub dn: Vec<u8>,
    /// Hashes of the normalized DNs of the entry and of its parent.
    pub name: u128,
    pub parent: u128,
    /// Number of RDNs in the DN.
    pub depth: usize,
    /// Hashes of the DNs that the entry names (see [`Entry::named`]). Filled only for deferred entries.
    pub references: Vec<u128>,
}

impl Entry {
    pub fn new(position: u64, path: Option<Arc<PathBuf>>, line: u64, text: &[u8]) -> Result<Self> {
        let dn = record(text, line).entry()?.dn.into_owned();
        let name = ParsedDn::new(&dn);
        Ok(Self {
            position,
            path,
            line,
            text: text.to_vec(),
            name: hash(name.key()),
            parent: hash(name.parent()),
            depth: name.depth(),
            references: Vec::new(),
            dn,
        })
    }

    /// Returns the hashes of the DNs that the entry names: the values of its attributes of these types. The entry
    /// itself, its ancestors and its subordinates are omitted: the order of their adds is fixed, because a parent comes
    /// before its children.
    pub fn named(&self, types: &Names) -> Result<Vec<u128>> {
        let own = ParsedDn::new(&self.dn);
        let (mut names, mut name) = (Vec::new(), ParsedDn::default());
        for field in self.fields()?.iter().filter(|field| types.has_field(field)) {
            name.set(without_uid(&field.value()?));
            if !is_within(own.key(), name.key()) && !is_within(name.key(), own.key()) {
                names.push(hash(name.key()));
            }
        }
        Ok(names)
    }

    pub fn fields(&self) -> Result<Vec<Field<'_>>> {
        let entry = record(&self.text, self.line).entry()?;
        entry.fields.collect()
    }
}

/// Returns the DN in a value of the syntax Name And Optional UID (RFC 4517): `DN#'0101'B`.
fn without_uid(value: &[u8]) -> &[u8] {
    let mark = value.windows(2).rposition(|two| two == b"#'");
    mark.filter(|_| value.ends_with(b"'B")).map_or(value, |at| &value[..at])
}

fn record(text: &[u8], line: u64) -> Record<'_> {
    Record { bytes: text, line, closed: true, last: false }
}

/// The encoded add request of an entry.
pub struct Prepared {
    /// The `AddRequest` (RFC 4511, 4.7), without the message around it.
    pub operation: Vec<u8>,
    /// Hashes of the attribute descriptions, including the types of the RDN. Each hash also depends on the suffix,
    /// because every database has its own numbers for descriptions.
    pub descriptions: Vec<u64>,
    /// Number of values that [`crate::Options::leave_out`] removes.
    pub left_out: u64,
}

impl Prepared {
    /// `suffix` is the hash of the entry's suffix ([`crate::shared::Shared::suffix_hash`]).
    pub fn new(entry: &Entry, leave_out: &Names, suffix: u64) -> Result<Self> {
        let all = entry.fields()?;
        let count = all.len();
        let fields: Vec<Field<'_>> = all.into_iter().filter(|field| !leave_out.has_field(field)).collect();
        let groups = GroupedValues::new(&fields)?;
        let mut writer = Writer::default();
        let attributes = groups.members.iter().map(|members| {
            let values = members.iter().map(|&at| groups.values[at].as_ref()).collect();
            (fields[members[0]].description(), values)
        });
        requests::add_operation(&mut writer, &entry.dn, attributes);
        let naming = naming_types(&entry.dn);
        let descriptions = groups.descriptions.iter().copied().chain(naming.iter().map(|name| xxh3_64(name)));
        Ok(Self {
            operation: writer.bytes().to_vec(),
            descriptions: descriptions.map(|hash| hash ^ suffix).collect(),
            left_out: (count - fields.len()) as u64,
        })
    }
}

/// Returns the attribute types of the RDN in lower case.
pub fn naming_types(dn: &[u8]) -> Vec<Vec<u8>> {
    let name = ParsedDn::new(dn);
    let rdn = &name.key()[..name.key().len() - name.parent().len()];
    let parts = rdn.split(|&byte| byte == b'+');
    let types = parts.filter_map(|part| part.split(|&byte| byte == b'=').next());
    types.map(<[u8]>::to_vec).collect()
}

/// The values of a record, grouped by attribute description.
pub struct GroupedValues<'a> {
    pub values: Vec<std::borrow::Cow<'a, [u8]>>,
    /// Hashes of the descriptions in lower case, in the order of their first occurrence.
    pub descriptions: Vec<u64>,
    /// For each description, the indexes of its values in `values`.
    pub members: Vec<Vec<usize>>,
}

impl<'a> GroupedValues<'a> {
    pub fn new(fields: &'a [Field<'_>]) -> Result<Self> {
        let mut groups = Self { values: Vec::new(), descriptions: Vec::new(), members: Vec::new() };
        let mut lower = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            groups.values.push(field.value()?);
            let description = hash_description(field, &mut lower);
            let group = groups.descriptions.iter().rposition(|known| *known == description);
            if let Some(group) = group {
                groups.members[group].push(at);
            } else {
                groups.descriptions.push(description);
                groups.members.push(vec![at]);
            }
        }
        Ok(groups)
    }
}
