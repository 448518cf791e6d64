//! The entries of a database as the replay has changed them. Unchanged entries are read from the file when needed.

use std::rc::Rc;

use codec::{dn2i, id2e};
use common::{Code, Error, Result, WithCode};
use lmdbfile::{Reader, TableReader};
use rustc_hash::FxHashMap;
use schema::{Description, Dn, Rdn, Schema};

use crate::entry::{Entry, Value};
use crate::operation::{Change, Kind};

/// An entry that the replay has read or added.
pub struct Node {
    pub parent: u64,
    normal: Box<[u8]>,
    pretty: Box<[u8]>,
    pub entry: Entry,
    /// Whether the database file has the entry; `uuid` is the entry's entryUUID in the file.
    stored: bool,
    uuid: Option<u128>,
    deleted: bool,
    changed: bool,
}

/// A DN within a suffix of the database.
pub struct Place {
    dn: Dn,
    /// The normalised suffix, then the normalised RDNs below the suffix, from the top down.
    steps: Vec<Vec<u8>>,
}

pub struct Model<'r> {
    schema: &'r Schema,
    id2e: TableReader<'r>,
    dn2i: TableReader<'r>,
    /// Attribute descriptions by their number in ad2i, from 1; `None` if the attribute is not in the schema.
    descriptions: Vec<Option<Rc<Description>>>,
    /// The normal form and the number of RDNs of each suffix.
    suffixes: Vec<(Vec<u8>, usize)>,
    nodes: FxHashMap<u64, Node>,
    /// Children that the replay added (`Some`) or removed (`None`), by the parent's ID and the normalised RDN.
    children: FxHashMap<(u64, Box<[u8]>), Option<u64>>,
    by_uuid: FxHashMap<u128, u64>,
    /// The ID of the next added entry.
    next: u64,
}

impl<'r> Model<'r> {
    pub fn new(reader: &'r Reader, schema: &'r Schema, suffixes: &[String]) -> Result<Self> {
        let table = |name: &str| {
            let missing = || Error::damaged(format!("the table {name} is missing"));
            reader.table(name.as_bytes()).ok_or_else(missing)
        };
        let (id2e, dn2i, ad2i) = (table("id2e")?, table("dn2i")?, table("ad2i")?);
        let (mut descriptions, mut cursor) = (vec![None], ad2i.cursor()?);
        while let Some((key, text)) = cursor.next()? {
            let number = codec::ad2i::read(key).filter(|number| *number as usize == descriptions.len());
            number.ok_or_else(|| Error::damaged("the numbers in ad2i have gaps"))?;
            descriptions.push(schema.describe(text).ok().map(Rc::new));
        }
        let parsed = |suffix: &String| {
            let dn = schema.dn(suffix.as_bytes()).with_code(Code::Schema)?;
            Ok((dn.normal(), dn.rdns.len()))
        };
        let last = id2e.last_key()?.and_then(|key| codec::id::read(&key)).unwrap_or(0);
        Ok(Self {
            schema,
            id2e,
            dn2i,
            descriptions,
            suffixes: suffixes.iter().map(parsed).collect::<Result<_>>()?,
            nodes: FxHashMap::default(),
            children: FxHashMap::default(),
            by_uuid: FxHashMap::default(),
            next: last + 1,
        })
    }

    /// Parses a DN. Returns `None` if the DN is within no suffix of the database, and an error if it is invalid.
    pub fn place(&self, dn: &[u8]) -> Result<Option<Place>> {
        let dn = self.schema.dn(dn).with_code(Code::Unproven)?;
        let normals: Vec<_> = dn.rdns.iter().map(|rdn| rdn.normal.clone()).collect();
        let steps = self.suffixes.iter().find_map(|(suffix, count)| {
            let depth = normals.len().checked_sub(*count)?;
            let is_own = normals[depth..].join(&b',') == *suffix;
            is_own.then(|| [vec![suffix.clone()], normals[..depth].iter().rev().cloned().collect()].concat())
        });
        Ok(steps.map(|steps| Place { dn, steps }))
    }

    fn child(&self, parent: u64, normal: &[u8]) -> Result<Option<u64>> {
        if let Some(id) = self.children.get(&(parent, Box::from(normal))) {
            return Ok(*id);
        }
        let mut like = Vec::new();
        dn2i::child(&mut like, normal, normal, 0, 0);
        let record = self.dn2i.find(&parent.to_ne_bytes(), &like)?;
        Ok(record.as_deref().and_then(dn2i::read).map(|node| node.id))
    }

    fn walk(&self, steps: &[Vec<u8>]) -> Result<Option<u64>> {
        let mut at = 0;
        for step in steps {
            let Some(below) = self.child(at, step)? else { return Ok(None) };
            at = below;
        }
        Ok(Some(at))
    }

    /// Returns the ID of the entry with this DN.
    pub fn find(&self, place: &Place) -> Result<Option<u64>> {
        self.walk(&place.steps)
    }

    /// Returns whether the entry has this DN. This is faster than [`Self::find`], which searches dn2i.
    pub fn is_at(&mut self, id: u64, place: &Place) -> Result<bool> {
        let mut at = id;
        for step in place.steps.iter().rev() {
            if at == 0 || *self.node(at)?.normal != **step {
                return Ok(false);
            }
            at = self.node(at)?.parent;
        }
        Ok(at == 0)
    }

    /// Returns the ID of the entry with this entryUUID, if the replay has read, added or located the entry.
    pub fn find_uuid(&self, uuid: u128) -> Option<u64> {
        self.by_uuid.get(&uuid).copied()
    }

    pub fn node(&mut self, id: u64) -> Result<&mut Node> {
        if !self.nodes.contains_key(&id) {
            let node = self.load(id)?;
            self.by_uuid.extend(uuid_of(&node.entry).map(|uuid| (uuid, id)));
            self.nodes.insert(id, node);
        }
        self.nodes.get_mut(&id).ok_or_else(|| damaged(id))
    }

    fn load(&self, id: u64) -> Result<Node> {
        let key = id.to_ne_bytes();
        let record = self.dn2i.get(&key)?.ok_or_else(|| damaged(id))?;
        let node = dn2i::read(&record).ok_or_else(|| damaged(id))?;
        let blob = Rc::from(self.id2e.get(&key)?.ok_or_else(|| damaged(id))?);
        let mut entry = Entry::default();
        for attribute in id2e::read(&blob).ok_or_else(|| damaged(id))?.attributes {
            let description = self.descriptions.get(attribute.number as usize).and_then(Option::as_ref);
            let description = description.filter(|_| !attribute.apart).ok_or_else(|| {
                let message = format!("entry {id} has an attribute that the schema lacks, or values in id2v");
                Error::new(Code::Unproven, message)
            })?;
            entry.push(description, attribute.values.into_iter().map(|part| Value::part(&blob, part)));
        }
        let (normal, pretty, uuid) = (node.normal.into(), node.pretty.into(), uuid_of(&entry));
        Ok(Node { parent: node.id, normal, pretty, entry, stored: true, uuid, deleted: false, changed: false })
    }

    pub fn touch(&mut self, id: u64) -> Result<&mut Entry> {
        let node = self.node(id)?;
        node.changed = true;
        Ok(&mut node.entry)
    }

    /// Adds an entry with a DN that no entry has. If the parent is missing, the inner error is the reason.
    pub fn add(&mut self, place: &Place, entry: Entry) -> Result<std::result::Result<(), String>> {
        let Place { dn, steps } = place;
        let Some((normal, above)) = steps.split_last() else { return Ok(Ok(())) };
        let Some(parent) = self.walk(above)? else {
            return Ok(Err("the parent of the added entry is missing".into()));
        };
        let pretty = if above.is_empty() { dn.pretty() } else { dn.rdns[0].pretty.clone() };
        let id = self.next;
        self.next += 1;
        self.children.insert((parent, normal.as_slice().into()), Some(id));
        self.by_uuid.extend(uuid_of(&entry).map(|uuid| (uuid, id)));
        let (normal, pretty) = (normal.as_slice().into(), pretty.into());
        let node = Node { parent, normal, pretty, entry, stored: false, uuid: None, deleted: false, changed: true };
        self.nodes.insert(id, node);
        Ok(Ok(()))
    }

    pub fn delete(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        node.deleted = true;
        let (key, uuid) = ((node.parent, node.normal.clone()), uuid_of(&node.entry));
        self.children.insert(key, None);
        uuid.map(|uuid| self.by_uuid.remove(&uuid));
        Ok(())
    }

    /// Moves an entry, and changes its naming attributes as slapd does (`slap_modrdn2mods`). If the operation does not
    /// fit the entries, the inner error is the reason.
    pub fn rename(
        &mut self,
        id: u64,
        new_rdn: &[u8],
        superior: Option<&[u8]>,
        deletes_old: bool,
    ) -> Result<std::result::Result<(), String>> {
        let schema = self.schema;
        let parent = match superior {
            None => self.node(id)?.parent,
            Some(dn) => match self.place(dn)?.map_or(Ok(None), |place| self.find(&place))? {
                Some(parent) => parent,
                None => return Ok(Err("the new superior is missing".into())),
            },
        };
        let mut above = parent;
        while above != 0 {
            if above == id {
                return Ok(Err("the new superior is below the entry".into()));
            }
            above = self.node(above)?.parent;
        }
        let rdn = schema.rdn(new_rdn).with_code(Code::Unproven)?;
        if self.child(parent, &rdn.normal)?.is_some_and(|other| other != id) {
            return Ok(Err("an entry with the new DN exists".into()));
        }
        let node = self.node(id)?;
        let old_key = (node.parent, node.normal.clone());
        let old = schema.rdn(&node.pretty).with_code(Code::Unproven)?;
        let change = |kind: Kind, ava: &schema::Ava| Change {
            description: schema.get(ava.attribute).name.as_bytes().into(),
            kind,
            values: vec![ava.value.as_slice().into()],
        };
        let removed = old.avas.iter().rev().filter(|_| deletes_old).map(|ava| change(Kind::Delete, ava));
        let added = rdn.avas.iter().rev().map(|ava| change(Kind::Add, ava));
        for change in removed.chain(added) {
            if let Err(reason) = node.entry.apply(schema, &change, true, false) {
                return Ok(Err(reason));
            }
        }
        let Rdn { pretty, normal, .. } = rdn;
        (node.parent, node.normal, node.pretty) = (parent, normal.as_slice().into(), pretty.into());
        node.changed = true;
        self.children.insert(old_key, None);
        self.children.insert((parent, normal.into()), Some(id));
        Ok(Ok(()))
    }

    fn require_childless(&self, id: u64) -> Result<()> {
        let key = id.to_ne_bytes();
        let is_parent =
            self.dn2i.get_all(&key)?.len() > 1 || self.nodes.values().any(|node| node.parent == id && !node.deleted);
        let dn = String::from_utf8_lossy(&self.dn(id)?).into_owned();
        let message = format!("{dn} has entries below it, and its entryUUID was changed");
        if is_parent { Err(Error::new(Code::Unproven, message)) } else { Ok(()) }
    }

    /// Records the entryUUID of an entry.
    pub fn identify(&mut self, id: u64, uuid: Option<u128>) {
        self.by_uuid.extend(uuid.map(|uuid| (uuid, id)));
    }

    /// Returns the entryCSN of an entry, or an empty string if it has none.
    pub fn entry_csn(&mut self, id: u64) -> Result<String> {
        let csn = self.node(id)?.entry.first("entryCSN").unwrap_or_default();
        Ok(String::from_utf8_lossy(csn).into_owned())
    }

    fn dn(&self, id: u64) -> Result<Vec<u8>> {
        let (mut dn, mut at) = (Vec::new(), id);
        while at != 0 {
            let (parent, pretty) = if let Some(node) = self.nodes.get(&at) {
                (node.parent, node.pretty.to_vec())
            } else {
                let record = self.dn2i.get(&at.to_ne_bytes())?.ok_or_else(|| damaged(at))?;
                let node = dn2i::read(&record).ok_or_else(|| damaged(at))?;
                (node.id, node.pretty.to_vec())
            };
            if !dn.is_empty() {
                dn.push(b',');
            }
            dn.extend_from_slice(&pretty);
            if dn.len() > 1 << 16 {
                return Err(damaged(id));
            }
            at = parent;
        }
        Ok(dn)
    }

    /// Calls `changed` with the LDIF of each changed or added entry, and `deleted` with the entryUUID of each deleted
    /// entry that the database file has. In the order of IDs, so that a new parent comes before its children.
    pub fn results(
        &mut self,
        mut changed: impl FnMut(&[u8]) -> Result<()>,
        mut deleted: impl FnMut(u128) -> Result<()>,
    ) -> Result<()> {
        let mut ids: Vec<u64> = self.nodes.keys().copied().collect();
        ids.sort_unstable();
        let mut text = Vec::new();
        for id in ids {
            let node = &self.nodes[&id];
            if node.deleted {
                node.uuid.map_or(Ok(()), &mut deleted)?;
            } else if node.changed {
                if node.stored && node.uuid != uuid_of(&node.entry) {
                    self.require_childless(id)?; // for replication, another entry has replaced this entry
                    node.uuid.map_or(Ok(()), &mut deleted)?;
                }
                text.clear();
                let dn = self.dn(id)?;
                ldif::write::line(&mut text, b"dn", &dn);
                self.nodes[&id].entry.each(|name, value| ldif::write::line(&mut text, name, value));
                text.push(b'\n');
                changed(&text)?;
            }
        }
        Ok(())
    }
}

pub fn uuid_of(entry: &Entry) -> Option<u128> {
    entry.first("entryUUID").and_then(values::uuid::octets).map(u128::from_be_bytes)
}

fn damaged(id: u64) -> Error {
    Error::damaged(format!("entry {id} cannot be read (table id2e or dn2i)"))
}
