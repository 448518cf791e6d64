//! Search filters (RFC 4515), which are evaluated as in slapd (`servers/slapd/filterentry.c`).

mod assertion;
mod compile;

use schema::{Description, Result, Schema};
use values::filter::{MAX_DEPTH, parse};

use assertion::Test;
pub use assertion::Values;

/// The result of a filter. `None` is Undefined, for example if the attribute is not in the schema (RFC 4511, 4.5.1.7).
pub type FilterResult = Option<bool>;

/// A compiled filter.
pub struct Filter {
    root: Compiled,
    descriptions: Vec<Description>,
}

enum Compiled {
    Known(FilterResult),
    And(Vec<Compiled>),
    Or(Vec<Compiled>),
    Not(Box<Compiled>),
    /// A test of the description with this index in [`Filter::descriptions`].
    Ask(usize, Test),
}

impl Filter {
    /// Compiles a filter. Refuses an invalid filter, and a filter whose result depends on more than the entry.
    pub fn read(text: &str, schema: &Schema) -> Result<Self> {
        let mut compiler = compile::Compiler::new(schema);
        let root = compiler.node(parse(text, MAX_DEPTH)?)?;
        Ok(Self { root, descriptions: compiler.descriptions })
    }

    /// Returns the attribute descriptions in the filter, without duplicates.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// Evaluates the filter; `entry` has the values of each description in [`descriptions`](Self::descriptions).
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

/// Returns False if any part is False, else Undefined if any is Undefined, else True, even without parts (RFC 4526).
fn all(parts: impl Iterator<Item = FilterResult>) -> FilterResult {
    let mut result = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            None => result = None,
            Some(true) => {}
        }
    }
    result
}

fn not(part: FilterResult) -> FilterResult {
    part.map(|holds| !holds)
}
