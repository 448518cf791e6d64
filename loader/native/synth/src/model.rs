//! What a template says, without any syntax. [`crate::compile`] checks whether it makes sense.

use std::path::PathBuf;
use std::sync::Arc;

use crate::distribution::Distribution;
use crate::list::List;
use crate::problem::Location;
use crate::vocabulary::Learned;

#[derive(Debug, Clone)]
pub struct Template {
    /// For messages; it does not count for what the template says.
    pub path: PathBuf,
    pub description: String,
    /// Used when the caller names none.
    pub suffix: String,
    pub lists: Vec<Arc<List>>,
    /// Single entries, parents first. The first one is the entry of the suffix.
    pub branches: Vec<Branch>,
    /// A kind lies below branches, below itself or below kinds before it.
    pub kinds: Vec<Kind>,
    pub operational: Operational,
    /// Vocabularies and shapes that were learned from a real tree.
    pub learned: Learned,
}

/// When entries came into being, as far as operational attributes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operational {
    /// All in one load: one entry a microsecond from that time on.
    Load { from: i64 },
    /// One after another over these seconds since 1970, and many changed later.
    Years { from: i64, to: i64 },
}

/// 2026-01-01.
pub const LOADED: i64 = 1_767_225_600;

impl Default for Operational {
    fn default() -> Self {
        Self::Load { from: LOADED }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    pub spot: Location,
    /// Relative to the suffix; "" is the suffix itself.
    pub dn: String,
    /// None: what an entry of its naming attribute needs. Else the naming attribute may be left out.
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub spot: Location,
    /// Unlike that of any other kind.
    pub name: String,
    pub count: Count,
    pub parent: Parent,
    /// Attributes that name an entry; each has one text that is always there. Several make a multi-valued RDN.
    pub rdn: Vec<String>,
    /// The structural object class, which operational attributes tell.
    pub structural: Option<String>,
    /// Drawn once an entry, for texts that name them. Each may name those before it.
    pub values: Vec<Named>,
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// What the caller asks for. At most one kind of a template.
    Asked,
    Fixed(u64),
    /// So many for each started `of` of the kind that is [`Count::Asked`].
    Share {
        ones: u64,
        of: u64,
    },
    /// Exactly so many below each entry of the parent kind.
    Each(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Parent {
    /// A place in [`Template::branches`].
    Branch(usize),
    /// An entry of a kind that stands before this one.
    Kind { name: String, pick: Pick },
    /// An entry of this same kind, on the level above; those of the first level lie below the branch.
    Itself { branch: usize, levels: u32, pick: Pick },
}

/// Which one of many is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pick {
    /// Each gets as many as any other, neighbours together.
    Each,
    Uniform,
    /// The one of rank k with a weight of 1/k^exponent; ranks have nothing to do with numbers.
    Zipf(f64),
    /// Those in the middle more often.
    Normal,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub name: String,
    pub item: Item,
}

/// An attribute of an entry: the values of all its items together, each once.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    pub spot: Location,
    /// Type and options.
    pub description: String,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub spot: Location,
    pub text: Text,
    /// Of being there at all, 0 to 1.
    pub chance: f64,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// How many values; one without it. A value of the entry ([`Named`]) has always one.
    pub count: Option<Distribution>,
}

impl Item {
    /// One value that is always there.
    pub const fn always(spot: Location, text: Text) -> Self {
        Self { spot, text, chance: 1.0, conditions: Vec::new(), count: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// A value of the entry, or an attribute that stands before.
    pub name: String,
    /// It must be this; of values only.
    pub equals: Option<Vec<u8>>,
    /// It must not be there, or not be this.
    pub unless: bool,
}

pub type Text = Vec<Piece>;

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Literal(Vec<u8>),
    Tag(Tag),
}

/// What stands for something else in a text. `spot`s are not needed: a wrong one is told at its item.
#[derive(Debug, Clone, PartialEq)]
pub enum Tag {
    /// The number of the entry in its kind, from `start` on, with zeros before it up to that width.
    Number {
        start: u64,
        width: usize,
    },
    /// So many random decimal digits.
    Digits(usize),
    /// So many random hexadecimal digits.
    Hex(usize),
    /// A random number, with zeros before it up to that width.
    Drawn {
        distribution: Distribution,
        width: usize,
    },
    /// A permutation of all numbers of so many digits of that base (10 or 16): random to look at, never twice.
    Unique {
        base: u32,
        width: usize,
    },
    /// A line of a list of the template.
    Pick {
        list: String,
    },
    /// What a line of a list of the template holds in base64.
    Base64 {
        list: String,
    },
    /// A value of the entry.
    Value {
        name: String,
    },
    /// The first characters of that value.
    Start {
        name: String,
        characters: usize,
    },
    /// That value fit for a mail address: lower case, no accents, letters and digits only.
    Ascii {
        name: String,
    },
    /// That value as a salted SHA-1 password (RFC 2307).
    Ssha {
        name: String,
    },
    /// That value as an Argon2id password; memory in KiB.
    Argon2 {
        name: String,
        memory: u32,
        passes: u32,
    },
    /// A random UUID.
    Uuid,
    Suffix,
    /// The DN of an entry of that kind.
    Dn {
        kind: String,
        pick: Pick,
    },
    /// The DN of the entry above.
    ParentDn,
    /// A generalizedTime between two (seconds since 1970), later ones more often.
    Time {
        from: i64,
        to: i64,
    },
    /// So many random bytes.
    Bytes {
        low: u64,
        high: u64,
    },
    /// A certificate of nobody, of so many bytes.
    Certificate {
        low: u64,
        high: u64,
    },
    /// A word of a vocabulary, the frequent ones more often.
    Word {
        vocabulary: String,
    },
    /// A word of its letters that no other entry has.
    NewWord {
        vocabulary: String,
    },
    /// So many words of a vocabulary with spaces between them.
    Words {
        vocabulary: String,
        count: Distribution,
    },
    /// One of the texts of a shape.
    Shape {
        name: String,
    },
    /// So many random characters.
    Chars {
        class: Class,
        length: Distribution,
    },
}

/// Characters to draw from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Hex,
    /// Small letters.
    Alpha,
    /// Small letters and digits.
    Mixed,
    Base64,
}
