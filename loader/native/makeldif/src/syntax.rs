//! What stands in a makeldif template, as it is written there.

use std::sync::Arc;

use super::error::Located;
use super::format::Format;

#[derive(Debug, Default)]
pub struct File {
    /// What the define of that name is; None when the file has no such line.
    pub suffix: Option<String>,
    pub branches: Vec<Branch>,
    pub templates: Vec<Template>,
}

/// `branch: DN`, an entry of its own.
#[derive(Debug)]
pub struct Branch {
    pub dn: Located<String>,
    pub below: Vec<Subordinate>,
    pub lines: Vec<Arc<ValueLine>>,
}

/// `template: NAME`, what many entries are made by.
#[derive(Debug)]
pub struct Template {
    pub name: Located<String>,
    pub rdn: Vec<Located<String>>,
    pub below: Vec<Subordinate>,
    /// Those of the template it extends first. They are the same lines: what counts in them counts on.
    pub lines: Vec<Arc<ValueLine>>,
}

/// `subordinateTemplate: NAME:COUNT`.
#[derive(Debug)]
pub struct Subordinate {
    pub template: Located<String>,
    /// None when it is left out: makeldif never ends then.
    pub count: Option<u64>,
}

/// `ATTRIBUTE: text with tags`.
#[derive(Debug, PartialEq)]
pub struct ValueLine {
    /// As OpenDJ spells it.
    pub attribute: Located<String>,
    pub pieces: Vec<Located<Piece>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Text(String),
    /// `{ATTRIBUTE:LENGTH}`: the first value that the attribute has by then; all of it when the length is 0.
    Attribute {
        name: String,
        characters: usize,
    },
    /// A negative number counts from the suffix, 0 is the whole DN.
    Dn {
        parts: i32,
        separator: char,
    },
    ParentDn {
        separator: char,
    },
    Rdn,
    File {
        path: String,
        order: Access,
    },
    FirstName,
    LastName,
    Guid,
    /// The value is not there unless an attribute is (or is this), or is not.
    If {
        attribute: String,
        equals: Option<String>,
        absent: bool,
    },
    /// The value is not there but in so many of a hundred entries.
    Presence(u32),
    /// Values with weights.
    List(Vec<(String, u32)>),
    Random(Random),
    Sequential {
        start: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Random,
    Sequential,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Random {
    Characters {
        of: String,
        least: usize,
        most: usize,
    },
    Number {
        low: i64,
        high: i64,
        format: Option<Format>,
    },
    /// Its name, not longer than that.
    Month {
        longest: usize,
    },
    Telephone,
    Uuid,
}
