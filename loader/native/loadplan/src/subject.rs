//! Decides which operations are possible with the entries of a kind.

use crate::searches::{SearchFilter, SearchWeight, Texts, filters, is_naming};
use crate::unique::flattened;
use synth::Tree;
use synth::model::{Kind, Parent, Piece, Tag, Template};

/// A kind to whose entries operations apply. Aliases and referrals are excluded, because servers treat them specially.
#[derive(Debug)]
pub struct TargetKind {
    /// Index of the kind in the tree.
    pub kind: usize,
    pub count: u64,
    pub filters: Vec<SearchFilter>,
    pub password: Option<Password>,
    /// Attributes that may be modified, because no search uses them.
    pub modifiable: Vec<String>,
    /// Whether entries may be deleted, renamed or copied: they have no children, and a word can be appended to their
    /// RDNs.
    pub removable: bool,
    /// Attribute descriptions, as spelled in the template.
    pub attributes: Vec<String>,
}

/// The source of an entry's clear-text password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Password {
    /// In the slot with this index ([`synth::Maker::value`]).
    Slot(usize),
    /// The values of userPassword itself, which are not hashed.
    Plain,
}

pub const PASSWORD: &str = "userPassword";
/// Object classes of entries that servers treat specially.
const SPECIAL: [&[u8]; 2] = [b"alias", b"referral"];
/// Maximum length in bytes of an RDN value to which a word may be appended.
const LONGEST_RDN: u64 = 100;
/// Naming attributes whose syntax does not allow words.
const NO_WORDS: [&str; 8] =
    ["uidNumber", "gidNumber", "ipServicePort", "ipProtocolNumber", "oncRpcNumber", "c", "x121Address", "member"];

/// Returns the kinds that have entries and are not special. `modifies` says whether the plan modifies entries.
pub fn subjects(template: &Template, tree: &Tree, requested: &[SearchWeight], modifies: bool) -> Vec<TargetKind> {
    let texts = Texts::new(template);
    let mut subjects = Vec::new();
    for (index, entries) in tree.kinds().iter().enumerate().filter(|(_, kind)| kind.count > 0) {
        let kind = template.kinds.iter().find(|kind| kind.name == entries.name);
        let Some(kind) = kind.filter(|kind| !is_special(kind)) else { continue };
        let mut filters = filters(&texts, kind, entries.count, requested);
        let modifiable = if modifies { modifiable(kind, &mut filters) } else { Vec::new() };
        subjects.push(TargetKind {
            kind: index,
            count: entries.count,
            filters,
            password: password(kind),
            modifiable,
            removable: is_leaf(template, kind) && takes_words(entries),
            attributes: kind.attributes.iter().map(|attribute| attribute.description.clone()).collect(),
        });
    }
    subjects
}

fn is_special(kind: &Kind) -> bool {
    let classes = kind.attributes.iter().filter(|one| one.description.eq_ignore_ascii_case("objectClass"));
    classes.flat_map(|one| &one.items).any(|item| match item.text.as_slice() {
        [Piece::Literal(class)] => SPECIAL.iter().any(|known| known.eq_ignore_ascii_case(class)),
        _ => false,
    })
}

/// Returns the attributes that may be modified. If filters use all attributes, removes the filters of an attribute
/// without unique values, so that this attribute may be modified.
fn modifiable(kind: &Kind, filters: &mut Vec<SearchFilter>) -> Vec<String> {
    let all = kind.attributes.iter().map(|one| &one.description).filter(|name| {
        let fixed = ["objectClass", PASSWORD].iter().any(|fixed| fixed.eq_ignore_ascii_case(name));
        !fixed && !is_naming(kind, name) && !name.contains(';')
    });
    let is_of = |name: &str, filter: &SearchFilter| filter.attribute.eq_ignore_ascii_case(name);
    let (unused, used): (Vec<_>, Vec<_>) = all.cloned().partition(|name| !filters.iter().any(|one| is_of(name, one)));
    if !unused.is_empty() {
        return unused;
    }
    let is_unique = |name: &String| filters.iter().any(|filter| is_of(name, filter) && filter.unique);
    let shared = used.into_iter().find(|name| !is_unique(name));
    filters.retain(|filter| !shared.as_ref().is_some_and(|name| is_of(name, filter)));
    Vec::from_iter(shared)
}

/// Returns the first password that every entry of the kind has.
fn password(kind: &Kind) -> Option<Password> {
    let own = kind.attributes.iter().find(|one| one.description.eq_ignore_ascii_case(PASSWORD))?;
    let item = own.items.iter().find(|item| item.chance >= 1.0 && item.conditions.is_empty())?;
    let text = flattened(kind, &item.text);
    match text.as_slice() {
        [Piece::Tag(Tag::Ssha { name } | Tag::Argon2 { name, .. })] => {
            // The named values have the first slots, in the same order.
            kind.values.iter().position(|value| value.name == *name).map(Password::Slot)
        }
        [Piece::Literal(bytes), ..] if bytes.starts_with(b"{") => None,
        _ => Some(Password::Plain),
    }
}

fn is_leaf(template: &Template, kind: &Kind) -> bool {
    let is_above = |other: &Kind| matches!(&other.parent, Parent::Kind { name, .. } if *name == kind.name);
    !matches!(kind.parent, Parent::Itself { .. }) && !template.kinds.iter().any(is_above)
}

/// Whether a word can be appended to the values of the RDN.
fn takes_words(kind: &synth::Kind) -> bool {
    let is_number = |name: &[u8]| NO_WORDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    kind.rdn.iter().all(|(name, slot)| !is_number(name) && kind.longest(*slot) <= LONGEST_RDN)
}
