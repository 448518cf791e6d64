//! Decides which operations are possible with the entries of a kind.

use crate::searches::{SearchFilter, SearchWeight, Texts, is_naming, looks};
use crate::unique::flattened;
use synth::Tree;
use synth::model::{Kind, Parent, Piece, Tag, Template};

/// A kind of the tree. Aliases and referrals are excluded, because servers treat them specially.
#[derive(Debug)]
pub struct TargetKind {
    /// Index of the kind in the tree.
    pub kind: usize,
    pub count: u64,
    pub looks: Vec<SearchFilter>,
    pub password: Option<Password>,
    /// Attributes that may be modified, because no search uses them.
    pub changing: Vec<String>,
    /// Whether entries may be renamed: they have no children, and the syntax of their RDNs allows an appended word.
    pub loose: bool,
    /// Attribute descriptions, as spelled in the template.
    pub attributes: Vec<String>,
}

/// The place of an entry's clear-text password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Password {
    /// The value of the generator with this index.
    Slot(usize),
    /// The attribute itself, which is not hashed.
    Plain,
}

pub const PASSWORD: &str = "userPassword";
const SPECIAL: [&[u8]; 2] = [b"alias", b"referral"];
/// Maximum length of an RDN value to which a word may be appended, in bytes.
const LONGEST_RDN: u64 = 100;
/// Naming attributes whose syntax does not allow words.
const NO_WORDS: [&str; 8] =
    ["uidNumber", "gidNumber", "ipServicePort", "ipProtocolNumber", "oncRpcNumber", "c", "x121Address", "member"];

pub fn subjects(template: &Template, tree: &Tree, wanted: &[SearchWeight], changes: bool) -> Vec<TargetKind> {
    let texts = Texts::new(template);
    let mut found = Vec::new();
    for (place, entries) in tree.kinds().iter().enumerate().filter(|(_, kind)| kind.count > 0) {
        let kind = template.kinds.iter().find(|kind| kind.name == entries.name);
        let Some(kind) = kind.filter(|kind| !is_special(kind)) else { continue };
        let mut looks = looks(&texts, kind, entries.count, wanted);
        let changing = if changes { changing(kind, &mut looks) } else { Vec::new() };
        found.push(TargetKind {
            kind: place,
            count: entries.count,
            looks,
            password: password(kind),
            changing,
            loose: is_leaf(template, kind) && takes_words(tree, place),
            attributes: kind.attributes.iter().map(|one| one.description.clone()).collect(),
        });
    }
    found
}

fn is_special(kind: &Kind) -> bool {
    let classes = kind.attributes.iter().filter(|one| one.description.eq_ignore_ascii_case("objectClass"));
    classes.flat_map(|one| &one.items).any(|item| match item.text.as_slice() {
        [Piece::Literal(class)] => SPECIAL.iter().any(|known| known.eq_ignore_ascii_case(class)),
        _ => false,
    })
}

/// Returns the attributes that may be modified. If searches use all, one that is not unique is removed from `looks`.
fn changing(kind: &Kind, looks: &mut Vec<SearchFilter>) -> Vec<String> {
    let all = kind.attributes.iter().map(|one| &one.description).filter(|name| {
        let fixed = ["objectClass", PASSWORD].iter().any(|fixed| fixed.eq_ignore_ascii_case(name));
        !fixed && !is_naming(kind, name) && !name.contains(';')
    });
    let is_looked = |name: &str, looks: &[SearchFilter], unique: bool| {
        looks.iter().any(|look| look.attribute.eq_ignore_ascii_case(name) && (look.unique || !unique))
    };
    let (spare, looked): (Vec<_>, Vec<_>) = all.cloned().partition(|name| !is_looked(name, looks, false));
    if !spare.is_empty() {
        return spare;
    }
    let mut shared: Vec<String> = looked.into_iter().filter(|name| !is_looked(name, looks, true)).collect();
    shared.truncate(1);
    looks.retain(|look| !shared.iter().any(|name| name.eq_ignore_ascii_case(&look.attribute)));
    shared
}

/// Returns the first password that every entry of the kind has.
fn password(kind: &Kind) -> Option<Password> {
    let own = kind.attributes.iter().find(|one| one.description.eq_ignore_ascii_case(PASSWORD))?;
    let item = own.items.iter().find(|item| item.chance >= 1.0 && item.conditions.is_empty())?;
    let text = flattened(kind, &item.text);
    match text.as_slice() {
        [Piece::Tag(Tag::Ssha { name } | Tag::Argon2 { name, .. })] => {
            // Values are the first slots, in the same order.
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

fn takes_words(tree: &Tree, place: usize) -> bool {
    let kind = &tree.kinds()[place];
    let is_number = |name: &[u8]| NO_WORDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    kind.rdn().iter().all(|(name, slot)| !is_number(name) && kind.longest(*slot) <= LONGEST_RDN)
}
