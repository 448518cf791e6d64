//! Replays the changes of a cn=accesslog on the entries of a database, up to a moment.
//!
//! The database file is only read. The results are files for the crate `refresh`: LDIF of the changed entries, and the
//! entryUUIDs of the deleted entries. Operations are applied in the order of their CSNs. Later operations are applied
//! only after the results are written, to show whether the log lacks an earlier change.

mod entry;
mod model;
mod operation;
pub mod query;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use backmdb::Settings;
use backmdb::changes::locate;
use common::{Code, Counters, Error, InFile, Result};
use extsort::RecordSorter;
use ldif::{Input, Record};
use lmdbfile::Reader;
use rustc_hash::{FxHashMap, FxHashSet};
use schema::Schema;
use tree::claim::Claim;
use tree::csn::{pack, sid};

use entry::Entry;
use model::{Model, Place, uuid_of};
use operation::{Change, Operation, Type};

/// Maximum number of gaps, and of dependent operations, in the report. Further ones are left out.
const MOST_REPORTED: usize = 100;
/// Attributes that every modify operation replaces, so they make no operation depend on another.
const ALWAYS: [&[u8]; 3] = [b"entrycsn", b"modifiersname", b"modifytimestamp"];

/// What to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The database's values of contextCSN. The database has all changes up to these CSNs.
    pub reached: Vec<String>,
    /// The database has no change after this CSN. It may have changes between contextCSN and this CSN.
    pub window: String,
    /// The last CSN to replay.
    pub until: String,
    /// If a log entry has this reqStart, its CSN replaces `until`.
    pub until_start: String,
    /// The reqStart of operations to leave out.
    pub skip: Vec<String>,
    /// Whether the log lacks failed operations (`logsuccess TRUE`). Then aborted transactions look like committed ones.
    pub log_success: bool,
    /// Output file: LDIF of the changed entries.
    pub changed: PathBuf,
    /// Output file: the entryUUIDs of the deleted entries, 16 bytes each.
    pub deleted: PathBuf,
    pub scratch: PathBuf,
    /// Bytes of memory for sorting.
    pub memory: usize,
}

/// An operation that does not fit the entries, which shows that the log lacks a change or has a wrong change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    pub dn: String,
    pub csn: String,
    pub start: String,
    pub reason: String,
    /// The CSN up to which the log is complete, as far as this operation shows; empty if not beyond the database.
    pub proven: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Number of operations that were applied up to `until`.
    pub applied: u64,
    pub changed: u64,
    pub deleted: u64,
    /// The CSN of the last operation that was applied, and the newest CSN for each server ID.
    pub last: String,
    pub context_csns: Vec<String>,
    pub until: String,
    /// The oldest and the newest CSN in the log.
    pub log_start: String,
    pub log_end: String,
    /// minCSN and createTimestamp of the log's suffix entry.
    pub min_csns: Vec<String>,
    pub created: String,
    /// Server IDs with an operation that is both in the log and in the database.
    pub overlaps: BTreeSet<String>,
    pub gaps: Vec<Gap>,
    /// reqStart and DN of operations that depend on an operation that was left out.
    pub dependent: Vec<(String, String)>,
    pub skipped: u64,
}

impl Gap {
    fn new(operation: &Operation, reason: String) -> Self {
        let (csn, start) = (operation.csn.clone(), operation.start.clone());
        Self { dn: lossy(&operation.dn), csn, start, reason, proven: String::new() }
    }
}

impl Replayed {
    /// Adds a gap if the log is not complete up to `until`. `proven` is the packed CSN up to which the log is complete,
    /// or 0 if the log is not known to be complete beyond the database.
    fn report(&mut self, gap: Gap, proven: u128, until: u128) {
        if proven < until && self.gaps.len() < MOST_REPORTED {
            let proven = if proven == 0 { String::new() } else { tree::csn::unpack(proven) };
            self.gaps.push(Gap { proven, ..gap });
        }
    }
}

/// Replays `log` on the database file at `path`. The log is given as LDIF files in the order of the log's entry IDs.
pub fn replay(
    path: &Path,
    known: (&Schema, &Settings),
    log: &[PathBuf],
    options: &Options,
    counters: &Counters,
) -> Result<Replayed> {
    let reader = codec::tables::with_orders(Reader::open_scattered(path)?);
    let mut model = Model::new(&reader, known.0, &known.1.suffixes)?;
    counters.begin("log", 0);
    let (mut selected, sorter) = Selected::read(log, &model, options, counters)?;
    let mut operations = sorter.finish()?;
    let (memory, scratch) = (options.memory, options.scratch.clone());
    let resources = backmdb::Options { memory, scratch, ..backmdb::Options::default() };
    let uuids = std::mem::take(&mut selected.uuids);
    for (uuid, id) in locate(path, known, &resources, uuids, counters)? {
        model.identify(id, Some(uuid));
    }
    selected.find_end(&mut model)?;
    counters.begin("replay", 0);
    let schema = known.0;
    let done = std::mem::take(&mut selected.done);
    let mut replay = Replay { schema, options, model, selected, done, touched: FxHashMap::default(), written: false };
    while let Some((_, bytes)) = operations.next()? {
        counters.check()?;
        if !replay.step(bytes)? {
            break;
        }
    }
    if !replay.written {
        replay.write()?;
    }
    Ok(replay.done)
}

/// Returns the server ID in a CSN, or an empty string if the CSN is invalid.
fn server(csn: &str) -> String {
    sid(csn.as_bytes()).map_or_else(String::new, |sid| format!("{sid:03x}"))
}

/// The result of the first pass over the log: the operations to replay, and facts that depend on the whole log.
#[derive(Default)]
struct Selected {
    done: Replayed,
    reached: Claim,
    until: u128,
    transactions: Vec<Step>,
    /// Positions in the log of operations in transactions.
    in_transaction: FxHashSet<u64>,
    /// Positions in the log of operations that were rolled back.
    rolled_back: FxHashSet<u64>,
    /// CSNs of all selected operations, with their positions in the log.
    seen: BTreeMap<u128, u64>,
    /// entryUUIDs of the entries that the operations concern.
    uuids: FxHashSet<u128>,
    /// Operations that the database may have already, in the order of the log.
    in_window: Vec<WindowOperation>,
    /// For each server ID, the CSN of its last operation that the database has.
    contained: FxHashMap<String, u128>,
    /// entryUUIDs that no entry has since an operation which the database has (a deletion, or a new entryUUID).
    ended: FxHashSet<u128>,
    /// Whether the log and contextCSN together have several server IDs.
    several: bool,
}

/// An operation that the database may have already.
struct WindowOperation {
    position: u64,
    csn: u128,
    server: String,
    uuid: u128,
    is_add: bool,
    /// Whether no entry has this entryUUID after the operation.
    ends: bool,
}

impl Selected {
    fn read(
        log: &[PathBuf],
        model: &Model<'_>,
        options: &Options,
        counters: &Counters,
    ) -> Result<(Self, RecordSorter)> {
        let mut all = Self { reached: Claim::new(&options.reached), ..Self::default() };
        let window = pack(options.window.as_bytes());
        let mut sorter = RecordSorter::new(options.memory, 1, &options.scratch, counters.flag());
        let mut servers: FxHashSet<String> = options.reached.iter().map(|csn| server(csn)).collect();
        let (mut position, mut buffer) = (0_u64, Vec::new());
        // entryUUIDs of the log entries so far. Segments of a log may overlap, so an entry may come twice.
        let mut logged = FxHashSet::default();
        let mut deletes = FxHashMap::default();
        all.done.until.clone_from(&options.until);
        let mut select = |record: &Record<'_>| {
            let operation = Operation::read(record, false)?;
            position += 1;
            let is_read = operation.kind.is_none() && !operation.start.is_empty();
            if is_read || operation.own_uuid.is_some_and(|uuid| !logged.insert(uuid)) {
                return Ok(());
            }
            if operation.start.is_empty() {
                all.done.min_csns.extend(operation.min_csns);
                all.done.created = operation.created;
                return Ok(());
            }
            all.track_transaction(&operation, position);
            all.track_refresh(&operation, &mut deletes);
            let csn = pack(operation.csn.as_bytes());
            if csn == 0 {
                if operation.only_context == Some(true) {
                    return Ok(()); // a refresh writes contextCSN without a CSN of its own
                }
                return Err(Error::new(Code::Unproven, "an operation in the log has no CSN"));
            }
            if operation.start == options.until_start {
                all.done.until.clone_from(&operation.csn);
            }
            if all.done.log_start.is_empty() || csn < pack(all.done.log_start.as_bytes()) {
                all.done.log_start.clone_from(&operation.csn);
            }
            if csn > pack(all.done.log_end.as_bytes()) {
                all.done.log_end.clone_from(&operation.csn);
            }
            if operation.failed {
                return Ok(());
            }
            if all.reached.covers(csn) && !operation.is_set_back() {
                let own = server(&operation.csn);
                if !all.done.overlaps.contains(&own) && model.place(&operation.dn)?.is_some() {
                    all.done.overlaps.insert(own);
                }
                return Ok(());
            }
            servers.insert(server(&operation.csn));
            all.seen.insert(csn, position);
            all.uuids.extend(operation.uuid.into_iter().chain(operation.new_uuid));
            if let Some(uuid) = operation.uuid.filter(|_| csn <= window) {
                let ends = operation.kind == Some(Type::Delete) || operation.new_uuid.is_some();
                let own = (uuid, operation.kind == Some(Type::Add), ends);
                for (uuid, is_add, ends) in operation.new_uuid.map(|new| (new, true, false)).into_iter().chain([own]) {
                    let server = server(&operation.csn);
                    all.in_window.push(WindowOperation { position, csn, server, uuid, is_add, ends });
                }
            }
            buffer.clear();
            buffer.extend_from_slice(&position.to_be_bytes());
            buffer.extend_from_slice(record.bytes);
            sorter.push(csn, &buffer)
        };
        for path in log {
            ldif::walk::each_record(Input::from_path(path, counters)?, counters, &mut select)?;
        }
        all.settle_transactions();
        all.until = pack(all.done.until.as_bytes());
        for gap in std::mem::take(&mut all.done.gaps) {
            let proven = all.before(pack(gap.csn.as_bytes()));
            all.done.report(gap, proven, all.until);
        }
        all.several = servers.len() > 1;
        Ok((all, sorter))
    }

    /// Finds for each server its last operation that the database has. A running slapd writes contextCSN to the
    /// database only now and then, so the entries decide: an entry has all operations up to its entryCSN, and a missing
    /// entry that existed was deleted. The operations of a server reach the database in the order of their CSNs.
    fn find_end(&mut self, model: &mut Model<'_>) -> Result<()> {
        self.in_window.retain(|operation| !self.rolled_back.contains(&operation.position));
        self.in_window.sort_unstable_by_key(|operation| operation.csn);
        let mut ends = FxHashMap::default();
        let mut missing: FxHashMap<u128, Option<(u128, &str)>> = FxHashMap::default();
        for operation in &self.in_window {
            if let Some(id) = model.find_uuid(operation.uuid) {
                let own = model.entry_csn(id)?;
                if server(&own) == operation.server && operation.csn <= pack(own.as_bytes()) {
                    ends.insert(operation.server.clone(), operation.csn);
                }
                continue;
            }
            // A missing entry existed before the window if its first operation in the window is not an add.
            let added = operation.is_add.then_some((operation.csn, operation.server.as_str()));
            missing.entry(operation.uuid).or_insert(added);
        }
        let is_contained = |ends: &FxHashMap<String, u128>, (csn, server): (u128, &str)| {
            ends.get(server).is_some_and(|end| csn <= *end)
        };
        let proven = ends.clone();
        // If the database has a deletion, it also has the operations before that, which may include further deletions.
        loop {
            let mut more = false;
            for operation in self.in_window.iter().filter(|operation| operation.ends) {
                let Some(added) = missing.get(&operation.uuid) else { continue };
                let existed = added.is_none_or(|added| is_contained(&ends, added));
                if existed && !is_contained(&ends, (operation.csn, &operation.server)) {
                    ends.insert(operation.server.clone(), operation.csn);
                    more = true;
                }
            }
            if !more {
                break;
            }
        }
        let deleted_by = |ends: &FxHashMap<String, u128>| -> FxHashSet<u128> {
            let all = self.in_window.iter().filter(|operation| operation.ends);
            all.filter(|operation| is_contained(ends, (operation.csn, &operation.server)))
                .map(|operation| operation.uuid)
                .collect()
        };
        self.ended = deleted_by(&ends);
        // If the log lacks an entry's add, the entry may only seem deleted. Then the entryCSNs decide (`proven`).
        let is_wrong = |operation: &WindowOperation| {
            let named = (operation.csn, operation.server.as_str());
            let is_late = is_contained(&ends, named) && !is_contained(&proven, named);
            is_late && !self.ended.contains(&operation.uuid)
        };
        if self.in_window.iter().any(is_wrong) {
            self.ended = deleted_by(&proven);
            ends = proven;
        }
        self.contained = ends;
        self.in_window.clear();
        Ok(())
    }

    fn is_contained(&self, csn: &str) -> bool {
        self.contained.get(&server(csn)).is_some_and(|end| pack(csn.as_bytes()) <= *end)
    }

    /// Returns the CSN of the last selected operation before `csn`, or 0 if there is none.
    fn before(&self, csn: u128) -> u128 {
        self.seen.range(..csn).next_back().map_or(0, |(seen, _)| *seen)
    }

    /// Reports the delete of a refresh (syncrepl) as a gap, because slapd before 2.7 logs only the first delete. A
    /// refresh ends with a change of only contextCSN. `deletes` has the latest delete of each session.
    fn track_refresh(&mut self, operation: &Operation, deletes: &mut FxHashMap<Vec<u8>, Gap>) {
        if operation.failed {
            return;
        }
        if operation.kind == Some(Type::Delete) {
            let gap = Gap::new(operation, "a refresh may have deleted more than this".into());
            deletes.insert(operation.session.clone(), gap);
        } else if operation.only_context == Some(true) {
            let Some(gap) = deletes.remove(&operation.session) else { return };
            let csn = if operation.csn.is_empty() { &gap.csn } else { &operation.csn };
            if !self.reached.covers(pack(csn.as_bytes())) && is_recent(&gap.start, &operation.start) {
                self.done.gaps.push(gap);
            }
        }
    }

    fn track_transaction(&mut self, operation: &Operation, position: u64) {
        if operation.transaction {
            self.in_transaction.insert(position);
            self.transactions.push(Step {
                session: operation.session.clone(),
                csn: pack(operation.csn.as_bytes()),
                position,
                start: operation.start.clone(),
                end: operation.end.clone(),
                failed: operation.failed,
            });
        }
    }

    /// Finds the operations that were rolled back. slapd logs the operations of a transaction when the transaction
    /// ends, as successful up to the operation that failed. Operations of a connection's next transaction start after
    /// that end. The operations are sorted by CSN, because an export may have the log entries in another order.
    fn settle_transactions(&mut self) {
        let mut steps = std::mem::take(&mut self.transactions);
        steps.sort_unstable();
        for connection in steps.chunk_by(|left, right| left.session == right.session) {
            let (mut end, mut positions) = ("", Vec::new());
            for step in connection {
                if step.start.as_str() > end {
                    positions.clear();
                }
                end = &step.end;
                positions.push(step.position);
                if step.failed {
                    self.rolled_back.extend(positions.drain(..));
                }
            }
        }
    }
}

/// An operation of a transaction. Steps are ordered by connection, then by CSN.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    session: Vec<u8>,
    csn: u128,
    position: u64,
    start: String,
    end: String,
    failed: bool,
}

/// The result of one operation.
enum Outcome {
    Applied,
    /// The database has the operation already.
    Contained,
    Gap {
        reason: String,
        /// The CSN up to which the log is complete; 0 if it is not known to be complete beyond the database.
        proven: u128,
        applied: bool,
    },
}

/// Returns the outcome of an operation that does not fit. The log is complete up to `proven`.
fn misfit(reason: impl Into<String>, proven: u128) -> Outcome {
    Outcome::Gap { reason: reason.into(), proven, applied: false }
}

struct Replay<'r, 'o> {
    schema: &'r Schema,
    options: &'o Options,
    model: Model<'r>,
    selected: Selected,
    done: Replayed,
    /// Maps the entryUUID of an entry with left-out operations to the attributes that these change; `None` means all.
    touched: FxHashMap<u128, Option<Vec<Vec<u8>>>>,
    /// Whether the results are written. From then on, operations are only checked.
    written: bool,
}

impl Replay<'_, '_> {
    /// Replays one operation. Returns false if no later operation has to be replayed.
    fn step(&mut self, bytes: &[u8]) -> Result<bool> {
        let (position, bytes) = bytes.split_first_chunk().unwrap_or((&[0; 8], bytes));
        let position = u64::from_be_bytes(*position);
        let record = Record { bytes, line: 1, closed: true, last: false };
        let mut operation = Operation::read(&record, true)?;
        let csn = pack(operation.csn.as_bytes());
        if csn > self.selected.until && !self.written {
            self.write()?;
        }
        if self.written && !self.options.skip.is_empty() {
            return Ok(false); // later operations may not fit, because a change was left out on purpose
        }
        if self.selected.rolled_back.contains(&position) {
            return Ok(true);
        }
        // A consumer stores contextCSN by an operation that often changes nothing else.
        let place = self.model.place(&operation.dn)?;
        let (context, changes): (Vec<_>, Vec<_>) = operation.changes.into_iter().partition(is_context);
        operation.changes = changes;
        let Some(place) = place else {
            return Ok(true);
        };
        for csn in context.iter().flat_map(|change| &change.values) {
            self.reach(&lossy(csn));
        }
        if !context.is_empty() && operation.changes.is_empty() {
            return Ok(true);
        }
        if self.options.skip.contains(&operation.start) && !self.selected.is_contained(&operation.csn) {
            self.leave_out(&operation, &place)?;
            return Ok(true);
        }
        self.note_dependence(&operation);
        let outcome = self.apply(&operation, &place, csn, position)?;
        let undecided = self.options.log_success && self.selected.in_transaction.contains(&position);
        let outcome = match outcome {
            Outcome::Contained if self.written => misfit("the backup has this later change already", 0),
            Outcome::Applied if undecided => {
                let reason = "logsuccess hides whether its transaction was rolled back".into();
                Outcome::Gap { reason, proven: self.selected.before(csn), applied: true }
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Contained => {
                self.done.overlaps.insert(server(&operation.csn));
                self.reach(&operation.csn);
            }
            Outcome::Applied => self.count(&operation),
            Outcome::Gap { reason, proven, applied } => {
                if applied {
                    self.count(&operation);
                }
                let csn = tree::csn::unpack(proven);
                let is_in_database = self.selected.reached.covers(proven) || self.selected.is_contained(&csn);
                let proven = if is_in_database { 0 } else { proven };
                self.done.report(Gap::new(&operation, reason), proven, self.selected.until);
            }
        }
        Ok(true)
    }

    fn count(&mut self, operation: &Operation) {
        if self.written {
            return;
        }
        self.done.applied += 1;
        self.done.last.clone_from(&operation.csn);
        self.reach(&operation.csn);
    }

    /// Replaces the CSN of the same server ID in `context_csns` if `csn` is newer.
    fn reach(&mut self, csn: &str) {
        let (own, newest) = (server(csn), &mut self.done.context_csns);
        if self.written || newest.iter().any(|known| server(known) == own && known.as_str() >= csn) {
            return;
        }
        newest.retain(|known| server(known) != own);
        newest.push(csn.to_owned());
    }

    fn apply(&mut self, operation: &Operation, place: &Place, csn: u128, position: u64) -> Result<Outcome> {
        let contained = self.selected.is_contained(&operation.csn);
        if operation.kind == Some(Type::Add) {
            return if contained {
                Ok(self.contained_add(operation, csn, position))
            } else {
                self.add(operation, place, csn)
            };
        }
        let own = operation.uuid.and_then(|uuid| self.model.find_uuid(uuid));
        let named = match own {
            Some(id) if self.model.is_at(id, place)? => own,
            _ => self.model.find(place)?,
        };
        let id = if operation.uuid.is_none() { named } else { own };
        let Some(id) = id else {
            if contained {
                return Ok(Outcome::Contained);
            }
            let lost = self.lost(operation);
            let what = if named.is_some() { "another entry has this DN" } else { "there is no such entry" };
            let reason = match &operation.previous {
                Some(csn) if lost > 0 => format!("{what}: the log lacks the change {csn}"),
                _ => what.into(),
            };
            return Ok(misfit(reason, lost));
        };
        let own = self.model.entry_csn(id)?;
        let is_older = server(&own) == server(&operation.csn) && pack(own.as_bytes()) < csn;
        if operation.is_set_back() && self.selected.reached.covers(csn) {
            return Ok(if operation.previous.as_deref() == Some(&own) {
                misfit("the clock was set back before this change", 0)
            } else {
                Outcome::Contained
            });
        }
        if contained && !is_older {
            return Ok(Outcome::Contained);
        }
        if server(&own) == server(&operation.csn) && csn <= pack(own.as_bytes()) {
            return Ok(misfit("the entry has this change already", self.selected.before(csn)));
        }
        if csn < pack(own.as_bytes()) {
            // If the log has this change before the newer change, this server applied both in that order.
            let newer = self.selected.seen.get(&pack(own.as_bytes()));
            return Ok(if newer.is_some_and(|newer| position < *newer) {
                Outcome::Contained
            } else {
                let reason = format!("the backup has the newer change {own} of another server");
                misfit(reason, self.selected.before(csn))
            });
        }
        let lost = self.chain(operation, &own);
        if named != Some(id) {
            let (reason, proven) = lost.unwrap_or_else(|| ("the entry has another DN".into(), pack(own.as_bytes())));
            return Ok(misfit(reason, proven));
        }
        let has_csn = |change: &Change| change.description.eq_ignore_ascii_case(b"entryCSN");
        if operation.kind != Some(Type::Delete) && !operation.changes.iter().any(has_csn) {
            // syncrepl splits a message that renames and modifies an entry into two operations with the same reqStart.
            let reason = "the log lacks what else this change did";
            return Ok(misfit(reason, self.selected.before(csn)));
        }
        let soft = operation.permissive || self.selected.several || lost.is_some();
        let fits = match operation.kind {
            Some(Type::Modify) => self.modify(id, operation, soft)?,
            Some(Type::Rename) => self.rename(id, operation, soft)?,
            _ => self.model.delete(id).map(Ok)?,
        };
        Ok(match (fits, lost) {
            (_, Some((reason, proven))) => Outcome::Gap { reason, proven, applied: true },
            (Err(reason), None) => misfit(reason, pack(own.as_bytes())),
            (Ok(()), None) => Outcome::Applied,
        })
    }

    /// Checks that the database has an entry whose add it contains, unless the add may have been rolled back.
    fn contained_add(&self, operation: &Operation, csn: u128, position: u64) -> Outcome {
        let is_sure = !self.selected.in_transaction.contains(&position);
        let uuid = operation.uuid.filter(|uuid| is_sure && !self.selected.ended.contains(uuid));
        if uuid.is_some_and(|uuid| self.model.find_uuid(uuid).is_none()) {
            let reason = "the backup lacks this entry, and has later changes";
            return misfit(reason, self.selected.before(csn));
        }
        Outcome::Contained
    }

    /// If `reqOld` has the CSN of a change that the log lacks, returns the logged CSN before that change; otherwise 0.
    fn lost(&self, operation: &Operation) -> u128 {
        let previous = operation.previous.as_ref().map(|csn| pack(csn.as_bytes()));
        let lost = previous.filter(|csn| !self.selected.seen.contains_key(csn));
        lost.map_or(0, |csn| self.selected.before(csn))
    }

    /// Compares the entry's previous entryCSN (`reqOld`) with `own`, its entryCSN in the model. If the log lacks a
    /// change between them, returns the reason and the CSN up to which the log is complete.
    fn chain(&self, operation: &Operation, own: &str) -> Option<(String, u128)> {
        let previous = operation.previous.as_deref().filter(|previous| *previous != own)?;
        let (packed, servers) = (pack(previous.as_bytes()), [previous, own].map(server));
        let is_skipped = !self.touched.is_empty() && self.selected.seen.contains_key(&packed);
        let of_others = servers.iter().any(|other| *other != server(&operation.csn));
        let is_known = self.selected.seen.contains_key(&packed) || self.selected.reached.covers(packed);
        // A provider logs changes of other providers in the order of their arrival, not of their CSNs.
        if is_skipped || of_others && is_known {
            return None;
        }
        let proven = self.selected.before(packed.min(pack(operation.csn.as_bytes())));
        Some((format!("the log lacks the change {previous} of this entry"), proven))
    }

    fn add(&mut self, operation: &Operation, place: &Place, csn: u128) -> Result<Outcome> {
        let named = self.model.find(place)?;
        let mut entry = Entry::default();
        for change in &operation.changes {
            if let Err(reason) = entry.apply(self.schema, change, true, true) {
                return Ok(misfit(reason, self.selected.before(csn)));
            }
        }
        let uuid = uuid_of(&entry);
        if let Some(id) = uuid.and_then(|uuid| self.model.find_uuid(uuid)).or(named) {
            let own = self.model.entry_csn(id)?;
            let is_same = uuid_of(&self.model.node(id)?.entry) == uuid;
            let reason = if is_same { "the entry exists" } else { "another entry has this DN" };
            return Ok(misfit(reason, pack(own.as_bytes())));
        }
        Ok(match self.model.add(place, entry)? {
            Ok(()) => Outcome::Applied,
            Err(reason) => misfit(reason, 0),
        })
    }

    fn modify(&mut self, id: u64, operation: &Operation, soft: bool) -> Result<std::result::Result<(), String>> {
        let entry = self.model.touch(id)?;
        let before = uuid_of(entry);
        for change in &operation.changes {
            if let Err(reason) = entry.apply(self.schema, change, soft, false) {
                return Ok(Err(reason));
            }
        }
        let uuid = uuid_of(entry);
        if uuid != before {
            self.model.identify(id, uuid);
        }
        Ok(Ok(()))
    }

    fn rename(&mut self, id: u64, operation: &Operation, soft: bool) -> Result<std::result::Result<(), String>> {
        let Operation { new_rdn, new_superior, delete_old_rdn, .. } = operation;
        let moved = self.model.rename(id, new_rdn, new_superior.as_deref(), *delete_old_rdn)?;
        if moved.is_err() { Ok(moved) } else { self.modify(id, operation, soft) }
    }

    // --- operations that are left out ---

    fn leave_out(&mut self, operation: &Operation, place: &Place) -> Result<()> {
        self.done.skipped += 1;
        let named = self.model.find(place)?;
        let uuid = match (operation.uuid, named) {
            (None, Some(id)) => uuid_of(&self.model.node(id)?.entry),
            (uuid, _) => uuid,
        };
        let attributes = (operation.kind == Some(Type::Modify)).then(|| attributes_of(operation));
        if let Some(uuid) = uuid {
            let touched = self.touched.entry(uuid).or_insert_with(|| Some(Vec::new()));
            match (touched.as_mut(), attributes) {
                (Some(all), Some(more)) => all.extend(more),
                _ => *touched = None,
            }
        }
        Ok(())
    }

    fn note_dependence(&mut self, operation: &Operation) {
        let Some(touched) = operation.uuid.and_then(|uuid| self.touched.get(&uuid)) else { return };
        let own = attributes_of(operation);
        let is_independent = operation.kind == Some(Type::Modify)
            && touched.as_ref().is_some_and(|all| own.iter().all(|name| !all.contains(name)));
        if !is_independent && self.done.dependent.len() < MOST_REPORTED {
            self.done.dependent.push((operation.start.clone(), lossy(&operation.dn)));
        }
    }

    // --- the results ---

    /// Writes the changed and deleted entries.
    fn write(&mut self) -> Result<()> {
        self.written = true;
        let Options { changed, deleted, .. } = self.options;
        let create = |path: &Path| File::create(path).map(BufWriter::new).in_file(Some(path));
        let (mut entries, mut uuids) = (create(changed)?, create(deleted)?);
        let done = &mut self.done;
        self.model.results(
            |text| {
                done.changed += 1;
                entries.write_all(text).in_file(Some(changed))
            },
            |uuid| {
                done.deleted += 1;
                uuids.write_all(&uuid.to_be_bytes()).in_file(Some(deleted))
            },
        )?;
        entries.flush().in_file(Some(changed))?;
        uuids.flush().in_file(Some(deleted))
    }
}

/// Whether the reqStart `end` is less than an hour after `start`, or one of them is invalid.
fn is_recent(start: &str, end: &str) -> bool {
    seconds(start).zip(seconds(end)).is_none_or(|(start, end)| end - start < 3600)
}

/// Returns the seconds from the year 0 (Gregorian) to a reqStart, `YYYYmmddHHMMSS...`.
fn seconds(time: &str) -> Option<i64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    // A year from March to February ends with its leap day; its months have 30.6 days on average.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(((days * 24 + number(8, 10)?) * 60 + number(10, 12)?) * 60 + number(12, 14)?)
}

fn is_context(change: &Change) -> bool {
    change.description.eq_ignore_ascii_case(b"contextCSN")
}

/// Returns the attributes that an operation changes, in lower case and without options, except [`ALWAYS`].
fn attributes_of(operation: &Operation) -> Vec<Vec<u8>> {
    let base = |change: &Change| {
        let description = change.description.split(|byte| *byte == b';').next().unwrap_or_default();
        description.to_ascii_lowercase()
    };
    operation.changes.iter().map(base).filter(|name| !ALWAYS.contains(&name.as_slice())).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_may_cross_the_end_of_a_day_a_month_and_a_year() {
        for (start, end) in [
            ("20261130130000.000001Z", "20261130135959.000000Z"),
            ("20261130233000.000001Z", "20261201000000.000000Z"),
            ("20261231233000.000001Z", "20270101002959.000000Z"),
            ("20280229233000.000001Z", "20280301002959.000000Z"),
            ("20270228233000.000001Z", "20270301002959.000000Z"),
        ] {
            assert!(is_recent(start, end), "{start} {end}");
        }
        assert!(!is_recent("20280228233000.000001Z", "20280301002959.000000Z"), "2028 is a leap year");
        assert!(!is_recent("20261130130000.000001Z", "20261130140000.000001Z"));
    }
}
