//! The content of a template, independent of its syntax. [`crate::compile`] checks the content. Fingerprints are
//! computed from the debug forms, so a renamed field changes them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::distribution::Distribution;
use crate::list::List;
use crate::problem::Location;
use crate::vocabulary::Learned;

#[derive(Debug, Clone)]
pub struct Template {
    /// The file of the template, for messages only. Not part of fingerprints.
    pub path: PathBuf,
    pub description: String,
    /// The suffix, unless [`crate::Options::suffix`] replaces it.
    pub suffix: String,
    pub lists: Vec<Arc<List>>,
    /// Single entries, each after its parent. The first entry is the suffix.
    pub branches: Vec<Branch>,
    /// Kinds of entries. The parent of a kind is a branch, an earlier kind, or the kind itself.
    pub kinds: Vec<Kind>,
    pub operational: Operational,
    /// Vocabularies and shapes learned from a real tree.
    pub learned: Learned,
}

/// How the times of creation and modification are generated for operational attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operational {
    /// One load creates all entries, one per microsecond, beginning at `from` (seconds since 1970).
    Load { from: i64 },
    /// The creation is spread over this period (seconds since 1970). Many entries were modified later.
    Years { from: i64, to: i64 },
}

/// 2026-01-01, in seconds since 1970.
pub const LOADED: i64 = 1_767_225_600;

impl Default for Operational {
    fn default() -> Self {
        Self::Load { from: LOADED }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    pub spot: Location,
    /// DN relative to the suffix; empty for the suffix itself.
    pub dn: String,
    /// Attributes of the entry. The naming attribute may be omitted. An empty list means the attributes that the RDN
    /// requires.
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub spot: Location,
    /// Unique among the kinds.
    pub name: String,
    pub count: Count,
    pub parent: Parent,
    /// Naming attributes, each with one text that is always present. Several attributes make a multi-valued RDN.
    pub rdn: Vec<String>,
    /// The structural object class, for operational attributes.
    pub structural: Option<String>,
    /// Values that are drawn once per entry. Texts may refer to them, and a value may refer to the values before it.
    pub values: Vec<Named>,
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The number in [`crate::Options::entries`]. At most one kind of a template may have this count.
    Asked,
    Fixed(u64),
    /// `ones` entries for every `of` entries of the kind with [`Count::Asked`], rounded up.
    Share {
        ones: u64,
        of: u64,
    },
    /// Exactly this many entries below each entry of the parent kind.
    Each(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Parent {
    /// An index into [`Template::branches`].
    Branch(usize),
    /// An entry of an earlier kind.
    Kind { name: String, pick: Pick },
    /// An entry of the same kind on the level above. The first level is below the branch.
    Itself { branch: usize, levels: u32, pick: Pick },
}

/// The distribution of a choice among many entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pick {
    /// All entries are chosen equally often, and consecutive choices are the same.
    Each,
    Uniform,
    /// Rank k has the weight 1/k^exponent. Ranks are assigned to entries at random.
    Zipf(f64),
    /// Entries in the middle are chosen more often.
    Normal,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub name: String,
    pub item: Item,
}

/// An attribute of an entry: the distinct values of all its items.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    pub spot: Location,
    /// Attribute type and options.
    pub description: String,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub spot: Location,
    pub text: Text,
    /// Probability of being present, 0 to 1.
    pub chance: f64,
    /// The value is present only if all conditions hold.
    pub conditions: Vec<Condition>,
    /// Number of values; None means one. Always None for a named value of the entry ([`Named`]).
    pub count: Option<Distribution>,
}

impl Item {
    /// An item with one value that is always present.
    pub const fn always(spot: Location, text: Text) -> Self {
        Self { spot, text, chance: 1.0, conditions: Vec::new(), count: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The name of a value of the entry, or of an earlier attribute.
    pub name: String,
    /// The required value. Only allowed if `name` is a value of the entry.
    pub equals: Option<Vec<u8>>,
    /// Negates the condition.
    pub unless: bool,
}

pub type Text = Vec<Piece>;

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Literal(Vec<u8>),
    Tag(Tag),
}

/// A placeholder in a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Tag {
    /// The entry's number within its kind, counted from `start` and zero-padded to `width` digits.
    Number {
        start: u64,
        width: usize,
    },
    /// This many random decimal digits.
    Digits(usize),
    /// This many random hexadecimal digits.
    Hex(usize),
    /// A random number, zero-padded to the width.
    Drawn {
        distribution: Distribution,
        width: usize,
    },
    /// A number of `width` digits in base 10 or 16, from a permutation of all numbers: it looks random and never
    /// repeats.
    Unique {
        base: u32,
        width: usize,
    },
    /// A value from a list of the template.
    Pick {
        list: String,
    },
    /// A value from a list of the template, decoded from base64.
    Base64 {
        list: String,
    },
    /// A named value of the entry.
    Value {
        name: String,
    },
    /// The first characters of a value of the entry.
    Start {
        name: String,
        characters: usize,
    },
    /// A value of the entry reduced to lower case letters and digits without accents, for mail addresses.
    Ascii {
        name: String,
    },
    /// A value of the entry as a salted SHA-1 password (RFC 2307).
    Ssha {
        name: String,
    },
    /// A value of the entry as an Argon2id password. `memory` is in KiB.
    Argon2 {
        name: String,
        memory: u32,
        passes: u32,
    },
    /// A random UUID.
    Uuid,
    Suffix,
    /// The DN of an entry of this kind.
    Dn {
        kind: String,
        pick: Pick,
    },
    /// The DN of the parent entry.
    ParentDn,
    /// A generalizedTime between two times (seconds since 1970). Later times are likelier.
    Time {
        from: i64,
        to: i64,
    },
    /// Between `low` and `high` random bytes.
    Bytes {
        low: u64,
        high: u64,
    },
    /// A meaningless certificate of between `low` and `high` bytes, approximately.
    Certificate {
        low: u64,
        high: u64,
    },
    /// A word of a vocabulary. Frequent words are likelier.
    Word {
        vocabulary: String,
    },
    /// A word in the style of a vocabulary. No other entry has the same word.
    NewWord {
        vocabulary: String,
    },
    /// This many words of a vocabulary, separated by spaces.
    Words {
        vocabulary: String,
        count: Distribution,
    },
    /// One of the texts of a shape.
    Shape {
        name: String,
    },
    /// This many random characters.
    Chars {
        class: Class,
        length: Distribution,
    },
}

/// Characters to draw from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Hex,
    /// Lower case letters.
    Alpha,
    /// Lower case letters and digits.
    Mixed,
    Base64,
}
