//! Finds the index that back-mdb uses for a filter item (`back-mdb/filterindex.c`, `index.c`).

use rustc_hash::FxHashMap;
use schema::{AttributeType, Description, Schema};
use values::filter::{Item, ItemKind, Node, piece_lengths};
use values::keys::Substrings;

/// Ordering rules that use the equality index, because its keys are ordered (`SLAP_MR_ORDERED_INDEX`).
const ORDERED: [&str; 3] = ["integerOrderingMatch", "generalizedTimeOrderingMatch", "CSNOrderingMatch"];

/// An attribute description as spelled in the configuration, and an index type.
pub type IndexKind = (String, &'static str);

/// The configured indexes of a database.
#[derive(Debug)]
pub struct Indexes<'a> {
    schema: &'a Schema,
    lengths: Substrings,
    /// Maps an attribute description, as spelled in the schema, to its index types.
    kinds: FxHashMap<String, Configured>,
}

#[derive(Debug)]
struct Configured {
    attribute: String,
    kinds: Vec<String>,
}

/// The indexes that a filter uses, and the indexes that it lacks.
#[derive(Debug, Default)]
pub struct Needs {
    pub used: Vec<IndexKind>,
    pub lacking: Vec<IndexKind>,
}

impl Configured {
    fn has(&self, kind: &str) -> bool {
        self.kinds.iter().any(|own| own == kind)
    }
}

impl<'a> Indexes<'a> {
    /// `configured` has attribute descriptions with their index types, as in slapd.conf(5).
    pub fn new(schema: &'a Schema, configured: Vec<(String, Vec<String>)>, lengths: Substrings) -> Self {
        let named = configured.into_iter().filter_map(|(attribute, kinds)| {
            let text = schema.describe(attribute.as_bytes()).ok()?.text;
            let kinds = kinds.iter().map(|kind| kind.to_ascii_lowercase()).collect();
            Some((text, Configured { attribute, kinds }))
        });
        Self { schema, lengths, kinds: named.collect() }
    }

    /// Whether slapd finds all candidates in indexes. Collects the used and the missing indexes in `needs`.
    pub fn serve(&self, shape: &Node, needs: &mut Needs) -> bool {
        match shape {
            Node::And(parts) => {
                let mut own = Needs::default();
                let served = parts.iter().filter(|part| self.serve(part, &mut own)).count() > 0;
                needs.used.append(&mut own.used);
                if !served {
                    needs.lacking.append(&mut own.lacking);
                }
                served
            }
            Node::Or(parts) => parts.iter().filter(|part| !self.serve(part, needs)).count() == 0,
            Node::Not(_) => false,
            Node::Item(Item { attribute, asks }) => self.item(attribute, asks, needs),
        }
    }

    /// Does the same as [`Self::serve`] for an item. slapd needs no index to compare entryDN, or if the attribute or a
    /// suitable rule is not in the schema.
    fn item(&self, attribute: &str, asks: &ItemKind, needs: &mut Needs) -> bool {
        let Ok(description) = self.schema.describe(attribute.as_bytes()) else { return true };
        let kind = self.schema.get(description.attribute);
        if kind.name == "entryDN" && matches!(asks, ItemKind::Equal(_)) {
            return true;
        }
        if kind.name == "objectClass" && *asks == ItemKind::Present || matches!(asks, ItemKind::Extended { .. }) {
            return false;
        }
        let (wanted, names) = match asks {
            ItemKind::Pieces(_) if kind.substrings.is_none() => return true,
            ItemKind::Pieces(pieces) => ("sub", self.substring_kinds(pieces)),
            _ => match needed(kind, asks) {
                Some(wanted) => (wanted, vec![wanted]),
                None => return true,
            },
        };
        let serves = |index: &&Configured| names.iter().any(|name| index.has(name));
        let index = self.index_of(&description).filter(serves);
        if let Some(index) = index {
            needs.used.push((index.attribute.clone(), wanted));
        } else if !names.is_empty() {
            needs.lacking.push((description.text, wanted));
        }
        index.is_some()
    }

    /// Returns the index types that serve a substring match. A piece that is too short has no index key.
    fn substring_kinds(&self, pieces: &[Vec<u8>]) -> Vec<&'static str> {
        let [first, middle, last] = piece_lengths(pieces);
        let (end, any) = (self.lengths.min.max(1), self.lengths.any.max(1));
        let long = [("subinitial", first >= end), ("subany", middle >= any), ("subfinal", last >= end)];
        let mut kinds: Vec<_> = long.into_iter().filter(|(_, is_long)| *is_long).map(|(kind, _)| kind).collect();
        if !kinds.is_empty() {
            kinds.extend(["sub", "substr"]);
        }
        kinds
    }

    /// Returns the indexes of the description, or else of its type without options, or else of a supertype.
    fn index_of(&self, description: &Description) -> Option<&Configured> {
        if let Some(own) = self.kinds.get(&description.text) {
            return Some(own);
        }
        let kind = self.schema.get(description.attribute);
        if description.tagged || description.binary {
            let base = self.kinds.get(&kind.name);
            if let Some(base) = base.filter(|base| !base.has("notags") && !base.has("nolang")) {
                return Some(base);
            }
        }
        let upwards = kind.chain.iter().rev();
        upwards.filter_map(|id| self.kinds.get(&self.schema.get(*id).name)).find(|above| !above.has("nosubtypes"))
    }
}

/// Returns the index type for an item, or None if the attribute has no suitable matching rule.
fn needed(kind: &AttributeType, asks: &ItemKind) -> Option<&'static str> {
    match asks {
        ItemKind::Present => Some("pres"),
        ItemKind::Approx(_) if kind.equality.as_ref().is_some_and(schema::Rule::approximate) => Some("approx"),
        ItemKind::Equal(_) | ItemKind::Approx(_) => kind.equality.is_some().then_some("eq"),
        ItemKind::AtLeast(_) | ItemKind::AtMost(_) => {
            let rule = kind.ordering.as_ref()?;
            Some(if ORDERED.contains(&&*rule.name) { "eq" } else { "pres" })
        }
        ItemKind::Pieces(_) | ItemKind::Extended { .. } => None,
    }
}
