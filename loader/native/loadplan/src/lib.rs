//! Load plans: sequences of operations that clients send to a server with a synthetic tree. Like an entry, an operation
//! follows from the seed and its number alone. Each operation has an expected result.
//!
//! The expected results hold if updates of the same entry keep their order, whatever the order of the other operations:
//! no search is for a deleted or renamed entry, and no modify changes an attribute that filters use.

mod form;
mod planner;
mod searches;
mod subject;
mod targets;
mod unique;

use synth::Tree;
use synth::draw::{Stream, below};
use synth::model::Template;
use synth::{Items, MakeItem};

pub use form::Operation;
pub use planner::Planner;
pub use searches::{FilterForm, SearchWeight};
pub use targets::Action;

use subject::{TargetKind, subjects};
use targets::{Schedule, Shares, Targets};

#[derive(Debug, Clone)]
pub struct PlanOptions {
    pub operations: u64,
    /// The weight of each kind of operation.
    pub mix: Vec<(Action, u64)>,
    /// Share of searches whose target does not exist, and of binds with a wrong password, from 0 to 1.
    pub miss: f64,
    /// Exponent of the Zipf distribution of the entries that are read.
    pub skew: f64,
    pub seed: i64,
    /// The searches to use. If the list is empty, the searches are derived from the attributes of the template.
    pub looks: Vec<SearchWeight>,
}

const MOST_OPERATIONS: u64 = 1 << 40;
/// Weight of base searches if the other searches are derived from the template.
const BASE_WEIGHT: u64 = 20;
/// Maximum number of entries that adds copy. More originals would not make the new entries more varied.
const MOST_COPIED: u64 = 1000;

/// A plan, from which a [`Planner`] generates any operation by its number.
#[derive(Debug)]
pub struct Plan<'t> {
    tree: &'t Tree,
    operations: u64,
    miss: f64,
    base_weight: u64,
    schedule: Schedule,
    stream: Stream,
    subjects: Vec<TargetKind>,
    /// For each element of `subjects`, its entries to read and its entries to delete, rename or copy.
    targets: Vec<Targets>,
    /// Distributes the deletes, then the renames, then the copies among `subjects`.
    once: Shares,
    deletes: u64,
    renames: u64,
    copies: u64,
}

/// A plan as lines of JSON, or as LDIF change records.
#[derive(Debug)]
pub struct Lines<'p> {
    pub plan: &'p Plan<'p>,
    pub ldif: bool,
}

impl Items for Lines<'_> {
    fn count(&self) -> u64 {
        self.plan.operations
    }

    fn maker(&self) -> MakeItem<'_> {
        let mut planner = Planner::new(self.plan);
        Box::new(move |number, out| {
            let operation = planner.operation(number)?;
            if self.ldif {
                operation.ldif(out);
            } else {
                operation.json(out);
            }
            Ok(())
        })
    }
}

impl<'t> Plan<'t> {
    /// Prepares a plan. Fails if an option is out of range, or if the tree has too few entries for the operations.
    pub fn new(template: &Template, tree: &'t Tree, options: &PlanOptions) -> Result<Self, String> {
        if options.operations > MOST_OPERATIONS {
            return Err(format!("{} operations: {MOST_OPERATIONS} at most", options.operations));
        }
        if !(0.0..=1.0).contains(&options.miss) {
            return Err(format!("the share of misses must be from 0 to 1, not {}", options.miss));
        }
        let stream = Stream::new(options.seed, &["operations"]);
        let schedule = Schedule::new(&options.mix, stream.part(0))?;
        let most = |action| schedule.most(action, options.operations);
        let (deletes, renames) = (most(Action::Delete), most(Action::Rename));
        let copies = most(Action::Add).min(MOST_COPIED);
        let subjects = subjects(template, tree, &options.looks, most(Action::Modify) > 0);
        require(&subjects, &schedule, options)?;
        // Two entries of each kind remain to be read.
        let removable = |subject: &TargetKind| if subject.removable { subject.count.saturating_sub(2) } else { 0 };
        let removable: Vec<u64> = subjects.iter().map(removable).collect();
        let (needed, available) = (deletes + renames + copies, removable.iter().sum::<u64>());
        if needed > available {
            return Err(format!(
                "{needed} entries are to be deleted, renamed or copied, and {available} can be: those with nothing \
                 below them, but two of a kind"
            ));
        }
        let once = Shares::new(needed, &removable, stream.part(1));
        let mut targets = Vec::new();
        for (index, subject) in subjects.iter().enumerate() {
            let part = stream.part(2).part(index as u64);
            targets.push(Targets::new(subject.count, once.of(index), options.skew, part)?);
        }
        Ok(Self {
            tree,
            operations: options.operations,
            miss: options.miss,
            base_weight: if options.looks.is_empty() { BASE_WEIGHT } else { 0 },
            schedule,
            stream: stream.part(3),
            subjects,
            targets,
            once,
            deletes,
            renames,
            copies,
        })
    }

    /// Chooses one of the subjects that `fits` accepts, weighted by their numbers of entries. Returns its index.
    fn subject(&self, bits: u64, fits: impl Fn(&TargetKind) -> bool) -> Option<usize> {
        let count = |subject: &TargetKind| if fits(subject) { subject.count } else { 0 };
        let mut rest = below(bits, self.subjects.iter().map(count).sum());
        self.subjects.iter().position(|subject| {
            let count = count(subject);
            let is_chosen = rest < count;
            rest = rest.saturating_sub(count);
            is_chosen
        })
    }
}

/// Returns an error if the tree has no suitable entries for a requested kind of operation.
fn require(subjects: &[TargetKind], schedule: &Schedule, options: &PlanOptions) -> Result<(), String> {
    let requested = |action| schedule.most(action, options.operations) > 0;
    if subjects.is_empty() {
        return Err("the tree has no entries but its branches".to_owned());
    }
    if requested(Action::Bind) && !subjects.iter().any(|subject| subject.password.is_some()) {
        return Err(
            "nobody can bind: no kind of the template has a password that is known before it is hashed".to_owned()
        );
    }
    if requested(Action::Modify) && !subjects.iter().any(|subject| !subject.modifiable.is_empty()) {
        return Err("nothing can be modified: searches use all attributes of the template".to_owned());
    }
    if !options.looks.is_empty() && subjects.iter().all(|subject| subject.filters.is_empty()) {
        return Err("no kind of the template has an attribute of the requested searches".to_owned());
    }
    Ok(())
}
