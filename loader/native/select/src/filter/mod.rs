//! Search filters (RFC 4515) and what slapd makes of them (`servers/slapd/filterentry.c`).

mod assertion;
mod compile;
mod parse;

use schema::{Description, Result, Schema};

use assertion::Test;
pub use assertion::Values;
pub use parse::{Item, ItemKind, Node, filter as parsed};

/// RFC 4511, 4.5.1.7: what is asked of an attribute that the schema does not know is neither true nor false, but
/// Undefined: `None`.
pub type FilterResult = Option<bool>;

/// A filter that is ready to be asked.
#[derive(Debug)]
pub struct Filter {
    root: Compiled,
    asked: Vec<Description>,
}

#[derive(Debug)]
enum Compiled {
    Known(FilterResult),
    And(Vec<Compiled>),
    Or(Vec<Compiled>),
    Not(Box<Compiled>),
    /// Of the description with this number.
    Ask(usize, Test),
}

impl Filter {
    /// Refuses what is no filter, and what cannot be answered from an entry alone as slapd would.
    pub fn read(text: &str, schema: &Schema) -> Result<Self> {
        let mut compiler = compile::Compiler::new(schema);
        let root = compiler.node(parse::filter(text)?)?;
        Ok(Self { root, asked: compiler.asked })
    }

    /// The attribute descriptions that it asks of, each once.
    pub fn asked(&self) -> &[Description] {
        &self.asked
    }

    /// `values`: of an entry, for each of [`asked`](Self::asked).
    pub fn test(&self, schema: &Schema, entry: &Values<'_>) -> FilterResult {
        self.root.test(schema, entry)
    }
}

impl Compiled {
    fn test(&self, schema: &Schema, entry: &Values<'_>) -> FilterResult {
        match self {
            Self::Known(truth) => *truth,
            Self::And(parts) => all(parts.iter().map(|part| part.test(schema, entry))),
            Self::Or(parts) => not(all(parts.iter().map(|part| not(part.test(schema, entry))))),
            Self::Not(part) => not(part.test(schema, entry)),
            Self::Ask(number, test) => test.holds(schema, entry, *number),
        }
    }
}

/// False if one is, else Undefined if one is. True of none at all (RFC 4526).
fn all(parts: impl Iterator<Item = FilterResult>) -> FilterResult {
    let mut found = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            None => found = None,
            Some(true) => {}
        }
    }
    found
}

fn not(part: FilterResult) -> FilterResult {
    part.map(|holds| !holds)
}
