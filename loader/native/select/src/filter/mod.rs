//! Search filters (RFC 4515), evaluated as by slapd (`servers/slapd/filterentry.c`).

mod assertion;
mod compile;
mod parse;

use schema::{Description, Result, Schema};

use assertion::Test;
pub use assertion::Values;
pub use parse::{Item, ItemKind, Node, filter as parsed};

/// `None` is Undefined: for example, if the schema does not define the attribute (RFC 4511, 4.5.1.7).
pub type FilterResult = Option<bool>;

/// A compiled filter.
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
    /// A test of the description with this number.
    Ask(usize, Test),
}

impl Filter {
    /// Refuses an invalid filter, and one that cannot be evaluated from an entry alone as slapd would.
    pub fn read(text: &str, schema: &Schema) -> Result<Self> {
        let mut compiler = compile::Compiler::new(schema);
        let root = compiler.node(parse::filter(text)?)?;
        Ok(Self { root, asked: compiler.asked })
    }

    /// The attribute descriptions in the filter, each once.
    pub fn asked(&self) -> &[Description] {
        &self.asked
    }

    /// Evaluates the filter; `entry` has the values for each of [`asked`](Self::asked).
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

/// False if any part is, else Undefined if any part is, else True, also without parts (RFC 4526).
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
