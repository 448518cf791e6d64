//! Tags, ready to write: what each [`Tag`] of a model becomes. One file a family; a new tag is a variant of the model,
//! a [`Render`] here, and its spelling in the syntaxes that have it.

mod bytes;
mod certificate;
mod chars;
mod name;
pub mod number;
mod password;
mod scope;
mod shape;
pub mod time;
mod value;
mod words;

use std::fmt;

use crate::draw::{Stream, again};
use crate::model::Tag;
use crate::names::Names;
use crate::tree::Tree;

pub use bytes::write_uuid;
pub use scope::{KindFacts, Scope, SlotFacts};

/// Writes what stands for a tag in one entry.
pub trait Render: Send + Sync + fmt::Debug {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>);

    /// It never writes more bytes than this.
    fn most(&self) -> u64;

    /// Whether it only writes what stands in LDIF as it is: ` ` to `~`.
    fn is_printable(&self) -> bool {
        true
    }
}

/// The entry that is written, and which of its values.
#[derive(Debug)]
pub struct EntryContext<'a> {
    pub tree: &'a Tree,
    /// A place among the tree's kinds; of no meaning for branches.
    pub kind: usize,
    /// The number of the entry in its kind.
    pub index: u64,
    /// Counts the values of one item from 0.
    pub occurrence: u64,
    /// The entry's values so far.
    pub slots: &'a [Slot],
    /// For DNs of other entries.
    pub names: &'a mut Names,
}

impl EntryContext<'_> {
    /// Random bits of one place of the template for this value.
    pub const fn bits(&self, stream: Stream) -> u64 {
        let bits = stream.at(self.index);
        if self.occurrence == 0 { bits } else { again(bits, self.occurrence + OTHERS) }
    }
}

/// Values after the first draw apart from what tags draw besides for the first one.
const OTHERS: u64 = 1 << 32;

/// A value that was drawn for the entry; empty when it is not there.
#[derive(Debug, Default, Clone)]
pub struct Slot {
    pub text: Vec<u8>,
    pub there: bool,
}

/// What writes this tag at the place that `scope` describes; what is wrong with it otherwise.
pub fn compile(tag: &Tag, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    match tag {
        Tag::Number { start, width } => number::number(*start, *width, scope),
        Tag::Digits(width) => number::random(10, *width, scope),
        Tag::Hex(width) => number::random(16, *width, scope),
        Tag::Unique { base, width } => number::unique(*base, *width, scope),
        Tag::Drawn { distribution, width } => number::drawn(distribution, *width, scope),
        Tag::Pick { list } => bytes::pick(list, scope),
        Tag::Base64 { list } => bytes::decoded(list, scope),
        Tag::Uuid => Ok(bytes::uuid(scope)),
        Tag::Bytes { low, high } => bytes::random(*low, *high, scope),
        Tag::Value { name } => value::value(name, scope),
        Tag::Start { name, characters } => value::start(name, *characters, scope),
        Tag::Ascii { name } => value::ascii(name, scope),
        Tag::Suffix => Ok(value::suffix(scope)),
        Tag::Ssha { name } => password::ssha(name, scope),
        Tag::Argon2 { name, memory, passes } => password::argon2(name, *memory, *passes, scope),
        Tag::Dn { kind, pick } => name::dn(kind, *pick, scope),
        Tag::ParentDn => Ok(name::parent(scope)),
        Tag::Time { from, to } => time::between(*from, *to, scope),
        Tag::Certificate { low, high } => certificate::certificate(*low, *high, scope),
        Tag::Word { vocabulary } => words::word(vocabulary, scope),
        Tag::NewWord { vocabulary } => words::new_word(vocabulary, scope),
        Tag::Words { vocabulary, count } => words::words(vocabulary, count, scope),
        Tag::Shape { name } => shape::shape(name, scope),
        Tag::Chars { class, length } => chars::chars(*class, length, scope),
    }
}

/// The values of the entry that a tag names.
pub fn named(tag: &Tag) -> &[String] {
    match tag {
        Tag::Value { name }
        | Tag::Start { name, .. }
        | Tag::Ascii { name }
        | Tag::Ssha { name }
        | Tag::Argon2 { name, .. } => std::slice::from_ref(name),
        _ => &[],
    }
}

/// Whether no two entries of a kind get the same from it.
pub const fn is_unique(tag: &Tag) -> bool {
    matches!(tag, Tag::Number { .. } | Tag::Unique { .. } | Tag::Uuid | Tag::NewWord { .. })
}

/// Whether it may stand in a name: those that tell of other names would have no end.
pub const fn may_name(tag: &Tag) -> bool {
    !matches!(
        tag,
        Tag::Dn { .. }
            | Tag::ParentDn
            | Tag::Bytes { .. }
            | Tag::Certificate { .. }
            | Tag::Shape { .. }
    )
}
