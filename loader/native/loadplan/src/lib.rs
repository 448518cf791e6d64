//! Load plans: sequences of operations that clients send to a synthetic tree. Like an entry, an operation follows from
//! the seed and its number alone. It has an expected result.
//!
//! The expected results hold if the operations are executed in any order that keeps the order of updates of the same
//! entry: deleted or renamed entries are never searched for, and attributes in filters are never modified.

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

/// The options of a plan.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    pub operations: u64,
    /// The weight of each kind of operation, relative to the sum of all weights.
    pub mix: Vec<(Action, u64)>,
    /// Share of searches that find nothing, and of binds that are refused; from 0 to 1.
    pub miss: f64,
    /// Exponent of the Zipf distribution by which entries are chosen.
    pub skew: f64,
    pub seed: i64,
    /// The searches to use; if there are none, they are derived from the attributes of the template.
    pub looks: Vec<SearchWeight>,
}

const MOST_OPERATIONS: u64 = 1 << 40;
/// Weight of base searches, if the other searches are derived from the template.
const BASE_WEIGHT: u64 = 20;
/// Number of entries that are copied by adds; more would not make the new entries more varied.
const MOST_COPIED: u64 = 1000;

/// A prepared plan, which generates any operation by its number.
#[derive(Debug)]
pub struct Plan<'t> {
    tree: &'t Tree,
    operations: u64,
    miss: f64,
    /// Weight of base searches.
    reading: u64,
    schedule: Schedule,
    stream: Stream,
    subjects: Vec<TargetKind>,
    /// The entries of each subject, in the order of `subjects`.
    targets: Vec<Targets>,
    /// Distributes the entries to delete, rename and copy among the subjects, in this order.
    once: Shares,
    deletes: u64,
    renames: u64,
    spares: u64,
}

/// A plan in its output format: lines of JSON, or LDIF change records.
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
    /// Prepares a plan. The error says why the template does not allow it.
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
        let spares = most(Action::Add).min(MOST_COPIED);
        let subjects = subjects(template, tree, &options.looks, most(Action::Modify) > 0);
        let loose: Vec<u64> = subjects.iter().map(room).collect();
        require(&subjects, &schedule, options)?;
        let (things, there) = (deletes + renames + spares, loose.iter().sum::<u64>());
        if things > there {
            return Err(format!(
                "{things} entries are to be deleted, renamed or copied, and {there} can be: those with nothing below \
                 them, but two of a kind"
            ));
        }
        let once = Shares::new(things, &loose, stream.part(1));
        let mut targets = Vec::new();
        for (place, subject) in subjects.iter().enumerate() {
            let part = stream.part(2).part(place as u64);
            targets.push(Targets::new(subject.count, once.of(place), options.skew, part)?);
        }
        let (operations, miss) = (options.operations, options.miss);
        let stream = stream.part(3);
        let reading = if options.looks.is_empty() { BASE_WEIGHT } else { 0 };
        Ok(Self {
            tree,
            operations,
            miss,
            reading,
            schedule,
            stream,
            subjects,
            targets,
            once,
            deletes,
            renames,
            spares,
        })
    }

    /// Chooses one of the subjects that `fits` accepts; the weight of each is its number of entries.
    fn subject(&self, bits: u64, fits: impl Fn(&TargetKind) -> bool) -> Option<usize> {
        let fitting = |(_, subject): &(usize, &TargetKind)| fits(subject);
        let all: u64 = self.subjects.iter().enumerate().filter(fitting).map(|(_, one)| one.count).sum();
        let mut place = below(bits, all);
        for (number, subject) in self.subjects.iter().enumerate().filter(fitting) {
            if place < subject.count {
                return Some(number);
            }
            place -= subject.count;
        }
        None
    }
}

/// Returns how many entries may be deleted, renamed or copied; some must remain to be read.
const fn room(subject: &TargetKind) -> u64 {
    if subject.loose { subject.count.saturating_sub(2) } else { 0 }
}

/// Checks that the tree has suitable entries for each requested kind of operation.
fn require(subjects: &[TargetKind], schedule: &Schedule, options: &PlanOptions) -> Result<(), String> {
    let requested = |action| schedule.most(action, options.operations) > 0;
    if subjects.is_empty() {
        return Err("the tree has no entries but its branches".to_owned());
    }
    if requested(Action::Bind) && !subjects.iter().any(|one| one.password.is_some()) {
        return Err(
            "nobody can bind: no kind of the template has a password that is known before it is hashed".to_owned()
        );
    }
    if requested(Action::Modify) && !subjects.iter().any(|one| !one.changing.is_empty()) {
        return Err("nothing can be modified: searches use all attributes of the template".to_owned());
    }
    if !options.looks.is_empty() && subjects.iter().all(|one| one.looks.is_empty()) {
        return Err("no kind of the template has an attribute of the requested searches".to_owned());
    }
    Ok(())
}
