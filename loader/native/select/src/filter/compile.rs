//! Compiles a parsed filter with a schema: resolves names, validates and normalizes values (`ava.c`, `filter.c`,
//! `mra.c`). Items that slapd cannot assert become Undefined. Items that only slapd itself can evaluate are refused.

use schema::{AttributeType, Description, Normalise, Result, RuleKind, Schema};
use values::filter::{Item, ItemKind, Node};
use values::{Normaliser, refuse};

use super::Compiled;
use super::assertion::{Comparison, SubstringAssertion, Test, compared, in_ordering_form};

/// Attributes that slapd computes from the tree, so that their values do not follow from the entry alone.
const COMPUTED: [&str; 3] = ["hasSubordinates", "numSubordinates", "numAllSubordinates"];
/// Attributes that every entry has although no entry stores them.
const IN_EVERY_ENTRY: [&str; 3] = ["entryDN", "subschemaSubentry", "hasSubordinates"];

const UNDEFINED: Compiled = Compiled::Known(None);

pub struct Compiler<'a> {
    schema: &'a Schema,
    pub descriptions: Vec<Description>,
}

impl<'a> Compiler<'a> {
    pub fn new(schema: &'a Schema) -> Self {
        Self { schema, descriptions: Vec::new() }
    }

    pub fn node(&mut self, node: Node) -> Result<Compiled> {
        Ok(match node {
            Node::And(parts) => Compiled::And(self.nodes(parts)?),
            Node::Or(parts) => Compiled::Or(self.nodes(parts)?),
            Node::Not(part) => Compiled::Not(Box::new(self.node(*part)?)),
            Node::Item(item) => self.item(&item)?,
        })
    }

    fn nodes(&mut self, parts: Vec<Node>) -> Result<Vec<Compiled>> {
        parts.into_iter().map(|part| self.node(part)).collect()
    }

    fn item(&mut self, item: &Item) -> Result<Compiled> {
        if item.attribute.is_empty() {
            return refuse("an extensible match without an attribute cannot be evaluated");
        }
        let Ok(description) = self.schema.describe(item.attribute.as_bytes()) else {
            return Ok(UNDEFINED);
        };
        if description.text.ends_with('-') {
            return refuse(format!("a range of options ({}) cannot be evaluated", description.text));
        }
        let kind = self.schema.get(description.attribute);
        if item.asks == ItemKind::Present {
            if IN_EVERY_ENTRY.contains(&kind.name.as_str()) {
                return Ok(Compiled::Known(Some(true)));
            }
            return Ok(self.ask(description, Test::Present));
        }
        if COMPUTED.contains(&kind.name.as_str()) || kind.name == "entryDN" {
            return refuse(format!("{} is computed by slapd and stored in no entry", kind.name));
        }
        let test = self.test(kind, &item.asks)?;
        Ok(test.map_or(UNDEFINED, |test| self.ask(description, test)))
    }

    fn ask(&mut self, description: Description, test: Test) -> Compiled {
        let number = self.descriptions.iter().position(|own| *own == description);
        let number = number.unwrap_or_else(|| {
            self.descriptions.push(description);
            self.descriptions.len() - 1
        });
        Compiled::Ask(number, test)
    }

    /// Compiles the test of an item. Returns `None` if the item is Undefined for every entry.
    fn test(&self, kind: &AttributeType, asks: &ItemKind) -> Result<Option<Test>> {
        self.require_known(kind)?;
        match asks {
            ItemKind::Present => Ok(Some(Test::Present)),
            ItemKind::Equal(value) => Ok(self.equal(kind, value)),
            ItemKind::Approx(value) => self.approx(kind, value),
            ItemKind::AtLeast(value) => Ok(self.ordered(kind, value, true)),
            ItemKind::AtMost(value) => Ok(self.ordered(kind, value, false)),
            ItemKind::Pieces(pieces) => Ok(self.pieces(kind, pieces)),
            ItemKind::Extended { rule, dn, value } => self.extended(kind, rule.as_deref(), *dn, value),
        }
    }

    /// Returns an error if values of the type, or of a subtype, are compared by rules that are not implemented here.
    fn require_known(&self, kind: &AttributeType) -> Result<()> {
        for one in self.schema.attributes().filter(|one| one.chain.contains(&kind.id)) {
            let name = &one.name;
            if one.ordered.is_some() {
                return refuse(format!("{name} has ordered values (X-ORDERED), which cannot be evaluated"));
            }
            if let Some(rule) = one.equality.as_ref().filter(|_| compared(one).is_none()) {
                return refuse(format!("{name} is compared by {}, which cannot be evaluated", rule.name));
            }
        }
        Ok(())
    }

    fn equal(&self, kind: &AttributeType, value: &[u8]) -> Option<Test> {
        let rule = kind.equality.as_ref().filter(|rule| rule.matches)?;
        let compared = compared(kind)?;
        if !compared.accepts(self.schema, value) {
            return None;
        }
        if rule.kind == RuleKind::ObjectClass {
            // A class that is not in the schema is an invalid assertion value, even as an OID (`objectClassPretty`).
            return self.schema.class(value).map(Test::Class);
        }
        self.normal(kind, value).map(Test::Equal)
    }

    /// Compiles an approximate match. Refuses string rules, which use metaphone. Other rules get an equality match.
    fn approx(&self, kind: &AttributeType, value: &[u8]) -> Result<Option<Test>> {
        if kind.equality.as_ref().is_some_and(schema::Rule::approximate) {
            return refuse(format!("{}~=: approximate matching cannot be evaluated", kind.name));
        }
        Ok(self.equal(kind, value))
    }

    fn ordered(&self, kind: &AttributeType, value: &[u8], at_least: bool) -> Option<Test> {
        let rule = kind.ordering.as_ref().filter(|rule| rule.matches)?;
        let (compared, normal) = in_ordering_form(&rule.name, value)?;
        compared.accepts(self.schema, value).then_some(Test::Ordered { at_least, than: normal })
    }

    fn pieces(&self, kind: &AttributeType, pieces: &[Vec<u8>]) -> Option<Test> {
        kind.substrings.as_ref()?;
        kind.equality.as_ref().filter(|rule| rule.matches)?;
        let compared = compared(kind)?;
        let is_valid = |piece: &Vec<u8>| piece.is_empty() || compared.accepts(self.schema, piece);
        if compared == Comparison::Class || !pieces.iter().all(is_valid) {
            return None;
        }
        let last = pieces.len() - 1;
        let normal = |(at, piece): (usize, &Vec<u8>)| self.piece(kind, piece, at == 0, at == last);
        let mut normals = pieces.iter().enumerate().map(normal).collect::<Option<Vec<_>>>()?;
        let end = normals.pop().unwrap_or_default();
        let start = normals.remove(0);
        Some(Test::Pieces(SubstringAssertion { start, middle: normals, end }))
    }

    /// Normalizes a piece. Spaces at an end of the piece are significant unless they are at an end of the value
    /// (`UTF8StringNormalize`). A digit stands in for the rest of the value, because digits never compose.
    fn piece(&self, kind: &AttributeType, piece: &[u8], first: bool, last: bool) -> Option<Vec<u8>> {
        if piece.is_empty() {
            return Some(Vec::new());
        }
        let Normalise::Value(normaliser @ (Normaliser::CaseIgnore | Normaliser::CaseExact)) = kind.normaliser else {
            return self.normal(kind, piece);
        };
        let (before, after): (&[u8], &[u8]) = (if first { b"" } else { b"0" }, if last { b"" } else { b"0" });
        let mut normal = Vec::new();
        normaliser.apply(&[before, piece, after].concat(), &mut normal).ok()?;
        let normal = normal[before.len()..normal.len() - after.len()].to_vec();
        Some(if normal.is_empty() && first { b" ".to_vec() } else { normal })
    }

    fn extended(&self, kind: &AttributeType, rule: Option<&str>, dn: bool, value: &[u8]) -> Result<Option<Test>> {
        let own = |name: &str| {
            kind.equality.as_ref().is_some_and(|own| own.oid == name || own.name.eq_ignore_ascii_case(name))
        };
        match rule {
            _ if dn => refuse(format!("{}:dn:=: matching in DNs cannot be evaluated", kind.name)),
            Some(rule) if !own(rule) => {
                refuse(format!("{}:{rule}:=: this matching rule cannot be evaluated", kind.name))
            }
            _ if compared(kind) == Some(Comparison::Class) => {
                refuse(format!("{}:=: an extensible match of classes cannot be evaluated", kind.name))
            }
            _ if !is_extensible(kind) => Ok(None),
            _ => Ok(self.equal(kind, value)),
        }
    }

    fn normal(&self, kind: &AttributeType, value: &[u8]) -> Option<Vec<u8>> {
        let mut normal = Vec::new();
        match self.schema.normalise(kind.id, value, &mut normal) {
            Ok(true) => Some(normal),
            Ok(false) => Some(value.to_vec()),
            Err(_) => None,
        }
    }
}

/// Whether slapd allows the equality rule in an extensible match (`SLAP_MR_EXT` in `schema_init.c`).
fn is_extensible(kind: &AttributeType) -> bool {
    let closed = matches!(kind.normaliser, Normalise::Value(Normaliser::Uuid | Normaliser::Csn));
    kind.equality.is_some() && !closed
}
