//! Compiles a model into a tree: replaces names by indexes, and reports errors with their location.

mod branches;
pub(crate) mod items;
mod kinds;

pub use branches::is_description;

use crate::draw::Stream;
use crate::model::{Count, Kind, Parent, Template};
use crate::problem::{Location, Problem};
use crate::tags::time::Clock;
use crate::tree::Tree;

/// A tree with more entries than this is refused.
const ENTRIES: u64 = 1 << 40;
/// Maximum size of an entry in bytes, as in the LDIF readers. A kind with larger entries is refused.
const ENTRY: u64 = 256 << 20;

/// The options that decide the output together with the template.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub seed: i64,
    /// Replaces the suffix of the template.
    pub suffix: Option<String>,
    /// Number of entries of the kind that has no count in the template. It is an error if all kinds have counts.
    pub entries: Option<u64>,
    /// Used instead of `entries` if that is None and a kind has no count.
    pub otherwise: Option<u64>,
    /// Whether to add the operational attributes that slapd would generate: entryUUID, entryCSN, names and times.
    pub operational: bool,
}

pub fn compile(template: &Template, options: &Options) -> Result<Tree, Problem> {
    let context = Context {
        template,
        seed: options.seed,
        suffix: options.suffix.as_ref().unwrap_or(&template.suffix),
        is_override: options.suffix.is_some(),
    };
    let branches = branches::compile(&context)?;
    let counts = counts(&context, options)?;
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

/// Returns a checksum of the debug form of the template. Two files with the same meaning have the same checksum.
fn fingerprint(template: &Template) -> String {
    let content = (&template.lists, &template.branches, &template.kinds, template.operational, &template.learned);
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(format!("{content:?}").as_bytes()))
}

/// The data that all parts of the compiler share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    template: &'a Template,
    seed: i64,
    suffix: &'a str,
    /// Whether the suffix came from the caller instead of the template.
    is_override: bool,
}

impl Context<'_> {
    fn wrong(&self, spot: Location, message: impl Into<String>) -> Problem {
        Problem::new(&self.template.path, spot, message)
    }

    fn stream(&self, names: &[&str]) -> Stream {
        Stream::new(self.seed, names)
    }
}

/// Returns the number of entries of each kind.
fn counts(context: &Context<'_>, options: &Options) -> Result<Vec<u64>, Problem> {
    let kinds = &context.template.kinds;
    let open: Vec<&Kind> = kinds.iter().filter(|kind| kind.count == Count::Asked).collect();
    if let [_, second, ..] = open[..] {
        let reason = format!("kind {:?} has no count, like another one before it", second.name);
        return Err(context.wrong(second.spot, reason));
    }
    let usage = |message: String| Err(Problem::asked(&context.template.path, message));
    let requested = match (open.first(), options.entries) {
        (Some(kind), None) if options.otherwise.is_none() => {
            return usage(format!("say how many entries of kind {:?}: -n N", kind.name));
        }
        (Some(_), requested) => requested.or(options.otherwise),
        (None, Some(_)) if !kinds.iter().any(|kind| matches!(kind.count, Count::Share { .. })) => {
            return usage("all its kinds have counts, so -n has no effect".to_owned());
        }
        (None, _) => None,
    };
    let mut counts = Vec::new();
    for kind in kinds {
        counts.push(count(context, kind, requested, &counts)?);
    }
    let total = counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
    if total.is_none_or(|total| total > ENTRIES) {
        return usage(format!("more than {ENTRIES} entries"));
    }
    Ok(counts)
}

/// Returns the number of entries of a kind. `before` are the numbers of the kinds before it.
fn count(context: &Context<'_>, kind: &Kind, requested: Option<u64>, before: &[u64]) -> Result<u64, Problem> {
    let wrong = |reason: String| context.wrong(kind.spot, format!("kind {:?}: {reason}", kind.name));
    let too_many = || wrong(format!("more than {ENTRIES} entries"));
    let entries = match (kind.count, requested) {
        (Count::Fixed(count), _) => count,
        (Count::Asked, requested) => requested.unwrap_or(0),
        (Count::Share { ones, of }, Some(requested)) if of > 0 => {
            let wide = (u128::from(requested) * u128::from(ones)).div_ceil(u128::from(of));
            u64::try_from(wide).map_err(|_| too_many())?
        }
        (Count::Share { .. }, _) => {
            return Err(wrong("a share needs another kind without a count".to_owned()));
        }
        (Count::Each(each), _) => {
            let above = match &kind.parent {
                Parent::Kind { name, .. } => {
                    let parent = context.template.kinds.iter().position(|other| other.name == *name);
                    parent.and_then(|parent| before.get(parent)).copied().unwrap_or(0)
                }
                Parent::Branch(_) | Parent::Itself { .. } => 1,
            };
            each.checked_mul(above).ok_or_else(too_many)?
        }
    };
    if entries > ENTRIES { Err(too_many()) } else { Ok(entries) }
}
