//! The entries of a database as the replay has changed them. Unchanged entries are read from the file when needed.

use std::rc::Rc;

use codec::{dn2i, id2e};
use common::{Code, Error, Result, WithCode};
use lmdbfile::{Reader, TableReader};
use rustc_hash::FxHashMap;
use schema::{Description, Dn, Rdn, Schema};

use crate::entry::{Entry, Misfit, Value};
use crate::operation::{Change, Kind};

/// An entry that an operation named.
pub struct Node {
    pub parent: u64,
    normal: Box<[u8]>,
    pretty: Box<[u8]>,
    pub entry: Entry,
    /// Whether the file has the entry, and with which entryUUID.
    stored: bool,
    uuid: Option<u128>,
    deleted: bool,
    changed: bool,
}

/// A DN in the database's tree.
pub struct Place {
    dn: Dn,
    /// The normalised RDNs from the suffix down. The suffix is the first one.
    steps: Vec<Vec<u8>>,
}

pub struct Model<'r> {
    schema: &'r Schema,
    id2e: TableReader<'r>,
    dn2i: TableReader<'r>,
    /// Attribute descriptions by their number in ad2i, from 1; `None` if the schema lacks the attribute.
    descriptions: Vec<Option<Rc<Description>>>,
    /// The normal form and the number of RDNs of each suffix.
    suffixes: Vec<(Vec<u8>, usize)>,
    nodes: FxHashMap<u64, Node>,
    /// Children that the replay added (`Some`) or took away (`None`), by parent and normalised RDN.
    children: FxHashMap<(u64, Box<[u8]>), Option<u64>>,
    by_uuid: FxHashMap<u128, u64>,
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

    /// Returns the place of a DN, or `None` if it is outside the database's tree. A DN that cannot be read is refused.
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

    /// Returns the ID of the entry in this place.
    pub fn find(&self, place: &Place) -> Result<Option<u64>> {
        self.walk(&place.steps)
    }

    /// Returns whether the entry is in this place. This is cheaper than to find the place's entry.
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

    /// Returns the ID of an entry that the replay has met or located.
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
        let place = dn2i::read(&record).ok_or_else(|| damaged(id))?;
        let blob = Rc::from(self.id2e.get(&key)?.ok_or_else(|| damaged(id))?);
        let mut entry = Entry::default();
        for attribute in id2e::read(&blob).ok_or_else(|| damaged(id))?.attributes {
            let description = self.descriptions.get(attribute.number as usize).and_then(Option::as_ref);
            let description = description.filter(|_| !attribute.apart).ok_or_else(|| {
                let what = "has an attribute that the schema lacks, or values in id2v";
                Error::new(Code::Unproven, format!("entry {id} {what}"))
            })?;
            entry.push(description, attribute.values.into_iter().map(|part| Value::part(&blob, part)));
        }
        let (normal, pretty, parent) = (place.normal.into(), place.pretty.into(), place.id);
        let (uuid, stored) = (uuid_of(&entry), true);
        Ok(Node { parent, normal, pretty, entry, stored, uuid, deleted: false, changed: false })
    }

    pub fn touch(&mut self, id: u64) -> Result<&mut Entry> {
        let node = self.node(id)?;
        node.changed = true;
        Ok(&mut node.entry)
    }

    /// Adds an entry in a free place. The result is `Err` with the reason if its parent is missing.
    pub fn add(&mut self, place: &Place, entry: Entry) -> Result<std::result::Result<(), Misfit>> {
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
        let (stored, uuid, deleted, changed) = (false, None, false, true);
        let node = Node { parent, normal, pretty, entry, stored, uuid, deleted, changed };
        self.nodes.insert(id, node);
        Ok(Ok(()))
    }

    pub fn delete(&mut self, id: u64) -> Result<()> {
        let node = self.node(id)?;
        node.deleted = true;
        let (place, uuid) = ((node.parent, node.normal.clone()), uuid_of(&node.entry));
        self.children.insert(place, None);
        uuid.map(|uuid| self.by_uuid.remove(&uuid));
        Ok(())
    }

    /// Moves an entry, and changes its naming attributes as slapd does (`slap_modrdn2mods`).
    pub fn rename(
        &mut self,
        id: u64,
        new_rdn: &[u8],
        superior: Option<&[u8]>,
        deletes_old: bool,
    ) -> Result<std::result::Result<(), Misfit>> {
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
        let (old_place, old) = ((node.parent, node.normal.clone()), node.pretty.clone());
        let old = schema.rdn(&old).with_code(Code::Unproven)?;
        let change = |kind: Kind, ava: &schema::Ava| Change {
            description: schema.get(ava.attribute).name.as_bytes().into(),
            kind,
            values: vec![ava.value.as_slice().into()],
        };
        let removed = old.avas.iter().rev().filter(|_| deletes_old).map(|ava| change(Kind::Delete, ava));
        let added = rdn.avas.iter().rev().map(|ava| change(Kind::Add, ava));
        for change in removed.chain(added) {
            if let Err(misfit) = node.entry.apply(schema, &change, true, false) {
                return Ok(Err(misfit));
            }
        }
        let Rdn { pretty, normal, .. } = rdn;
        (node.parent, node.normal, node.pretty) = (parent, normal.as_slice().into(), pretty.into());
        node.changed = true;
        self.children.insert(old_place, None);
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

    /// Notes the entryUUID of an entry.
    pub fn identify(&mut self, id: u64, uuid: Option<u128>) {
        self.by_uuid.extend(uuid.map(|uuid| (uuid, id)));
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
    /// entry that the file has. The order of IDs puts a new parent before its children.
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
                    self.require_childless(id)?; // to replication, it is another entry in its place
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
