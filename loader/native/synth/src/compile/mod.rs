//! A model becomes a tree: names are looked up, and whatever does not make sense is told with its place.

mod branches;
mod counts;
pub(crate) mod items;
mod kinds;
mod naming;

use crate::draw::Stream;
use crate::model::Template;
use crate::operational::Clock;
use crate::problem::{Location, Problem};
use crate::tree::Tree;

/// Entries of a tree, at most.
pub const ENTRIES: u64 = 1 << 40;
/// Bytes of an entry, at most: what the readers of LDIF take.
pub const ENTRY: u64 = 256 << 20;

/// What decides the bytes besides the template.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub seed: i64,
    /// Instead of the template's.
    pub suffix: Option<String>,
    /// Entries of the kind that has no count of its own.
    pub entries: Option<u64>,
    /// When `entries` is not given and the template leaves a count open.
    pub otherwise: Option<u64>,
    /// With what slapd would make up: entryUUID, entryCSN, names and times.
    pub operational: bool,
}

pub fn compile(template: &Template, options: &Options) -> Result<Tree, Problem> {
    let context = Context {
        template,
        seed: options.seed,
        suffix: options.suffix.as_ref().unwrap_or(&template.suffix),
        is_given: options.suffix.is_some(),
    };
    let branches = branches::compile(&context)?;
    let counts = counts::of(&context, options)?;
    let kinds = kinds::compile(&context, &counts, &branches)?;
    let largest = kinds.iter().map(|(_, most)| *most).max().unwrap_or(0);
    let mut tree = Tree {
        description: template.description.clone(),
        suffix: context.suffix.to_owned(),
        fingerprint: fingerprint(template),
        branches,
        kinds: kinds.into_iter().map(|(kind, _)| kind).collect(),
        clock: None,
        largest,
    };
    if options.operational {
        let clock = Clock::new(template.operational, context.suffix, options.seed, tree.entries());
        tree.largest += clock.most();
        tree.clock = Some(clock);
    }
    Ok(tree)
}

/// The same for two files that say the same.
fn fingerprint(template: &Template) -> String {
    let said = (
        &template.lists,
        &template.branches,
        &template.kinds,
        template.operational,
        &template.learned,
    );
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(format!("{said:?}").as_bytes()))
}

/// What all parts of compiling need.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    template: &'a Template,
    seed: i64,
    suffix: &'a str,
    /// The suffix is not the template's.
    is_given: bool,
}

impl Context<'_> {
    fn wrong(&self, spot: Location, message: impl Into<String>) -> Problem {
        Problem::new(&self.template.path, spot, message)
    }

    fn stream(&self, names: &[&str]) -> Stream {
        Stream::new(self.seed, names)
    }
}
