"""Adds LDIF to a running server, in transactions and over several connections. An interrupted run can be resumed.

Steps: start, scan, load. If the server is on this host, its map is checked for room before the first entry is sent.
After a finished load, the same command does nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import xxhash

from loader import csn, defaults, dn, ldif, overlays, units
from loader.defaults import state_dir
from loader.errors import AddLost, AddRefused, EmptyInput, LoaderError, UsageProblem
from loader.ldif import Rejected
from loader.mdb import readers
from loader.operations import sizing
from loader.operations.add import lending
from loader.operations.build import native
from loader.operations.build.steps import LdifInputs
from loader.operations.options import ON_EXISTS, DeclaredAdd
from loader.progress import Meter, Progress
from loader.run.log import Counted, Report, killpoint, recorded
from loader.run.steps import Run, RunStatus, open_run, status_of
from loader.server import configuration, questions, visibility
from loader.server.options import Connection
from loader.server.questions import SubschemaInfo
from loader.server.session import Session, first_value, session
from loader.sinks import ldap as sink
from loader.sinks.ldap import Loaded as Counts
from loader.sources.dit import Synthetic
from loader.sources.ldap import with_retries
from loader.sources.location import is_stream
from loader.storage import files

log = logging.getLogger(__name__)

LOOSER = 1.5  # factor for the forecast, which assumes the full pages of `build`: slapd leaves pages half full
# A record of the journal (journal.rs in loader/native/load/src): kind, first position, position after the last, XXH3 of
# these three numbers.
_RECORD = struct.Struct("<4Q")
_SETTLED = (2, 3, 4)  # kinds of records: added, present, replaced
JOURNAL = "journal"
STEPS = ("start", "scan", "load")
# slapd accepts these protected attributes with the relax control (draft-zeilenga-ldap-relax). schema_prep.c and
# overlays/ppolicy.c of OpenLDAP 2.5 mark them "manageable".
KEPT = ("entryuuid", "creatorsname", "createtimestamp", "modifiersname", "modifytimestamp", "entryttl")
KEPT_PREFIX = "pwd"
# If the server's schema cannot be read, these attributes are taken to have DNs as values.
NAMING = (
    *("aliasedobjectname", "distinguishedname", "manager", "member", "owner", "roleoccupant"),
    *("secretary", "seealso", "uniquemember"),
)


@dataclass(frozen=True)
class AddOptions(DeclaredAdd, LdifInputs):
    """The options for adding LDIF files, directories of LDIF files, or a generated `tree` to a running server.

    `batch`: entries per transaction; 0: automatic, 1: no transactions. `max_rate`: entries per second; 0: no limit.
    `as_replication`: send every attribute except contextCSN unchanged (lending.py)."""

    as_replication: bool = False
    tree: Synthetic | None = None  # replaces `inputs`

    @property
    def directory(self) -> Path:
        """The run directory. Without --run-dir, its name is derived from the server's URI and the input."""
        if self.run_dir is not None:
            return self.run_dir.absolute()
        options = self.identity()
        text = json.dumps([options["uri"], options["inputs"] or options["tree"]])
        return state_dir() / "add" / hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def reject_file(self) -> Path:
        return self.rejects.absolute() if self.rejects else self.directory / "rejects.ldif"

    def identity(self) -> dict[str, object]:
        """Returns the options of a run. A run with other options is not resumed; one with other "files" is replaced."""
        return {
            "uri": self.connection.uri,
            "inputs": [str(path if is_stream(path) else path.absolute()) for path in self.files.paths()],
            "files": self.files.fingerprints(),
            "tree": self.tree.identity() if self.tree else None,
            "keep_operational": self.keep_operational,
            "as_replication": self.as_replication,
        }


def loads_of(uri: str) -> list[RunStatus]:
    """Returns the loads into the server `uri` that have a run directory on this host, newest first."""
    loads = (status_of(path) for path in (state_dir() / "add").glob("*"))
    loads_of_server = [load for load in loads if load is not None and load.options.get("uri") == uri]
    return sorted(loads_of_server, key=lambda load: -load.heard)


def settled(load: RunStatus) -> int:
    """Returns how many entries of the input are on the server; after a finished load, includes rejected entries."""
    loaded = load.catalogue.facts_of("load", Added)
    if loaded is not None:
        return loaded.counts.read
    try:
        content = (load.directory / JOURNAL).read_bytes()
    except FileNotFoundError:
        return 0
    entries, end = 0, len(content) // _RECORD.size * _RECORD.size  # the last record may be incomplete
    for at in range(0, end, _RECORD.size):
        kind, first, end, check = _RECORD.unpack_from(content, at)
        if kind in _SETTLED and xxhash.xxh3_64_intdigest(content[at : at + 24]) == check:
            entries += end - first
    return entries


def expected(load: RunStatus) -> int | None:
    """Returns the number of entries in the input, or None before the scan."""
    scan = load.catalogue.facts_of("scan", Counted)
    return scan.entries if scan else None


class LoadedDatabase(msgspec.Struct, frozen=True):
    """Identifies the database of a server. `first`: DN of the first entry of the LDIF, or "". `uuids`: entryUUIDs of
    the suffix entry and of the entry `first`; "" if unreadable. `entries`: the server's count, or None."""

    suffix: str
    first: str
    uuids: list[str]
    context_csns: list[str]
    entries: int | None


class _Scan(msgspec.Struct, frozen=True):
    """Facts of the step `scan`. `attributes`: None for a tree or a stream, which is not scanned."""

    entries: int | None = None
    first_dn: str | None = None
    attributes: list[str] | None = None


class AddCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The report. `present`: entries that existed already. `before`: entries that an interrupted run added or found."""

    read: int
    added: int
    present: int
    replaced: int
    rejected: int
    rejects: str | None
    rejections: list[Rejected]
    before: int
    values_left_out: int
    waited_for_parents: int
    waited_for_named_entries: int
    transactions: int
    largest_transaction: int
    reconnects: int
    seconds: float
    done_before: str = ""


class Added(msgspec.Struct, frozen=True):
    """Facts of the step `load`. `bound`: the loaded database; None if the first entry is unknown or missing."""

    counts: AddCounts
    bound: LoadedDatabase | None


def loaded_database(connection: Connection, name: str, first: str = "") -> LoadedDatabase | None:
    """Returns the database to which the DN `name` belongs; None if the suffix entry or the entry `first` is missing."""
    with session(connection) as server:
        suffix = server.context_of(name)
        names = [name for name in (suffix, first) if name]
        if not all(map(server.exists, names)):
            return None
        uuids = [first_value(server.read(name, ["entryUUID"]), "entryuuid") for name in names]
        return LoadedDatabase(suffix, first, uuids, list(server.visible_csns(suffix)), server.entry_count(suffix))


def is_still_loaded(connection: Connection, before: LoadedDatabase | None) -> bool:
    """Returns whether the server still has the database of a finished load, with or without later writes by other
    clients. The same URI may now lead to another server or database."""
    if before is None:
        return True  # the load has recorded no database
    now = loaded_database(connection, before.suffix, before.first)
    if now is None or (now.suffix, now.uuids) != (before.suffix, before.uuids):
        return False
    then, today = csn.by_server(before.context_csns), csn.by_server(now.context_csns)
    if not csn.is_covered_by(then, today):
        return False  # the database was reset to an older state, for instance from a backup
    counts = {before.entries, now.entries}
    return not then or then != today or None in counts or len(counts) == 1


def add(options: AddOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False) -> AddCounts:
    """Runs or resumes a load. Raises AddRefused if more entries are rejected than `max_rejects`."""
    options.files.require_fitting(options.rejects)
    directory, identity = options.directory, options.identity()
    with session(options.connection) as server:
        offer = questions.subschema(server)
    lending.release(options.connection)
    anew = restart or options.files.streamed or _begins_anew(options, directory, identity)
    with open_run(directory, "add", identity, progress, timeouts, anew) as run:
        work = _AddSteps(options, run, offer)
        uncertain = run.do("start", work.start, bool)
        scan = _Scan() if options.files.streamed else run.do("scan", work.scan, _Scan)
        work.require_room(scan)
        with work.lease():
            added = run.do("load", lambda meter: work.load(meter, uncertain, scan), Added, scan.entries)
        work.journal.unlink(missing_ok=True)
        return msgspec.structs.replace(added.counts, **run.done_before())


def plan(options: AddOptions, progress: Progress) -> Report:
    if options.files.streamed:
        raise UsageProblem(reason="a stream can be read only once, so --dry-run cannot read it")
    options.files.require_fitting(options.rejects)
    with session(options.connection) as server:
        offer = questions.subschema(server)
    transactions = _takes_transactions(offer, _configured_overlays(options.connection, offer))
    with progress.step("scan") as meter:
        scan = options.scanned(meter)
    if scan.first_dn:
        with session(options.connection) as server:
            _require_access(server, scan.first_dn)
    return {
        "entries": scan.entries,
        "transactions": transactions,
        "left_out": sorted(set(scan.attributes) & set(left_out(options, offer))),
        "first_dn": scan.first_dn,
    }


def _configured_overlays(connection: Connection, offer: SubschemaInfo) -> tuple[str, ...] | None:
    """Returns the overlays in slapd's configuration; None if cn=config is unreadable or the server is not slapd."""
    if offer.openldap:
        with suppress(LoaderError), session(connection) as server:
            return configuration.read_online(server).overlays
    return None


def _takes_transactions(offer: SubschemaInfo, configured: Sequence[str] | None) -> bool:
    """Returns whether entries may be added in transactions: not with slapo-accesslog, with which slapd may deadlock.

    The overlay's mutex is locked during each write (accesslog_op_mod and accesslog_response in accesslog.c), and LMDB's
    during a whole transaction (txn_end_extop in txn.c). Between two adds of a transaction, another client's write locks
    the mutex, and waits for LMDB. Seen with 2.5.13; the sources of 2.6.14 and 2.7.0 are the same in this."""
    logged = offer.accesslog if configured is None else "accesslog" in map(str.lower, configured)
    return offer.transactions and not logged


def _require_access(server: Session, name: str) -> None:
    """Raises NoWriteAccess if the account, as far as can be checked, may not add the first entry `name`."""
    existing = next((each for each in (dn.parent(name), name) if each and server.exists(each)), None)
    if existing is not None:
        visibility.require_below(server, existing)
        return
    try:
        config = configuration.read_online(server)
        database = config.database(name)
    except LoaderError:
        return
    visibility.require_may_add_first_entry(server, config, database)


def _begins_anew(options: AddOptions, directory: Path, identity: Report) -> bool:
    """Returns whether a new run replaces the run in `directory`: if that run has finished with other options, if only
    the input files have changed, or if the database that the run has loaded is no longer on the server."""
    with recorded(directory) as catalogue:
        if catalogue is None:
            return False
        differ = catalogue.differences("add", identity)
        facts = catalogue.facts_of("load", Added)
        if differ or facts is None:
            return bool(differ) and (differ == ["files"] or facts is not None)
    return not is_still_loaded(options.connection, facts.bound)


def left_out(options: AddOptions, offer: SubschemaInfo) -> list[str]:
    """Returns the attributes that are not sent, because the server does not accept them from clients."""
    if options.as_replication:
        return sorted({*map(str.lower, overlays.COMPUTED), "contextcsn"})
    protected = offer.unwritable()
    if options.keep_operational:
        protected = {
            attribute for attribute in protected if attribute not in KEPT and not attribute.startswith(KEPT_PREFIX)
        }
    return sorted(protected)


class _AddSteps(msgspec.Struct, frozen=True):
    """The bodies of the steps. Each can be repeated from its beginning."""

    options: AddOptions
    run: Run
    offer: SubschemaInfo

    @property
    def journal(self) -> Path:
        return self.run.directory / JOURNAL

    def require_room(self, scan: _Scan) -> None:
        """Raises MaxsizeTooSmall if the server's map has no room for a new load of LDIF with --on-exists error. Does
        nothing if the server is on another host, hides its configuration, or has an unsupported configuration."""
        options, inputs, first = self.options, self.options.files, scan.first_dn
        resumes = self.journal.exists() or self.run.catalogue.is_done("load")
        if resumes or options.tree is not None or options.on_exists != ON_EXISTS[0] or first is None or inputs.streamed:
            return
        try:
            with session(options.connection) as server:
                if not server.uri.lower().startswith("ldapi:"):
                    return
                config = configuration.read_online(server)
            holding = (each for each in config.mdb_databases if dn.is_below(first, each.suffix))
            database = max(holding, key=lambda each: len(each.suffix), default=None)
            if database is None:
                return
            room, _ = readers.measure(database)

            def forecast(is_rough: bool) -> int:
                return sizing.of_files(native.sample_target(config, database), inputs, Meter("sample"), is_rough).bytes

            fitting = sizing.first_fitting(
                room.available / LOOSER,
                lambda: sizing.at_most(inputs),
                lambda: sizing.ROUGHLY * forecast(is_rough=True),
                lambda: forecast(is_rough=False),
            )
        except (LoaderError, OSError) as error:
            log.info("the room in the map was not checked: %s", error)
            return
        needed = math.ceil(fitting)
        sizing.require_map(database.suffix, room.maxsize, room.maxsize - room.available + needed)
        if needed * LOOSER > room.available:
            message = "%s: the load takes %s or more, and %s of maxsize are available: it may fill the map"
            log.warning(message, database.suffix, units.size(needed), units.size(room.available))

    def lease(self) -> AbstractContextManager[None]:
        """Returns a context that switches nosync on, if the options request this and the load is not finished yet."""
        if not self.options.nosync or self.run.catalogue.is_done("load"):
            return nullcontext()
        return lending.nosync_on(self.options.connection)

    def start(self, meter: Meter) -> bool:
        """Discards the journal of an earlier run with other files or a stream. Returns whether there was a journal:
        if so, the earlier run may have added entries that this load finds on the server."""
        uncertain = self.journal.exists()
        self.journal.unlink(missing_ok=True)
        return uncertain

    def scan(self, meter: Meter) -> _Scan:
        """Checks that every file is complete, and counts the entries, before an entry is sent. Raises EmptyInput."""
        if self.options.tree is not None:
            tree = self.options.tree.compiled
            return _Scan(tree.entries, tree.suffix)
        scan = self.options.scanned(meter)
        if not scan.entries:
            raise EmptyInput(path=", ".join(map(str, self.options.inputs)))
        return _Scan(scan.entries, scan.first_dn, sorted(scan.attributes))

    def load(self, meter: Meter, uncertain: bool, scan: _Scan) -> Added:
        options = self.options
        with files.explained(options.reject_file):
            options.reject_file.unlink(missing_ok=True)
        with options.source.reading(meter) as read:
            loaded = sink.add(options.connection, read, self._load_options(uncertain, scan), meter)
            # Inside the `with`, because AddRefused takes precedence over an error of the input, which is closed early.
            counts = self._counts(loaded, round(meter.seconds, 3))
        killpoint("load.middle")
        server, first = options.connection, scan.first_dn
        if first is None:
            return Added(counts, None)
        # If the first entry was refused, the suffix alone identifies the database.
        bound = with_retries(lambda: loaded_database(server, first, first) or loaded_database(server, first), meter)
        return Added(counts, bound)

    def _load_options(self, uncertain: bool, scan: _Scan) -> sink.LoadOptions:
        options, offer = self.options, self.offer
        without, naming = left_out(options, offer), offer.naming or NAMING
        if scan.attributes is not None:
            without = sorted(set(without).intersection(scan.attributes))
            naming = tuple(sorted(set(naming).intersection(scan.attributes)))
        # The values of the attributes `naming` are DNs. `must_exist`: the server may refuse an entry if the entries
        # with these DNs do not exist yet. `singly`: entries with these attributes must be added outside of
        # transactions. Both are assumed if slapd's overlays are unknown.
        must_exist, singly = True, bool(naming) and offer.openldap and offer.memberof
        configured = _configured_overlays(options.connection, offer)
        if naming and configured is not None:
            must_exist, singly = overlays.require_named_entries(configured), overlays.change_named_entries(configured)
        return sink.LoadOptions(
            exists=options.on_exists,
            leave_out=without,
            relax=options.keep_operational,
            jobs=options.jobs,
            batch=options.batch,
            max_rejects=options.max_rejects,
            max_rate=options.max_rate,
            transactions=_takes_transactions(offer, configured),
            contexts=offer.contexts,
            aliases=offer.aliases,
            references=sorted(naming) if must_exist else [],
            singly=singly and offer.of_2_7,
            window=sink.WINDOW_SLAPD if offer.openldap else sink.WINDOW,
            journal=self.journal,
            rejects=options.reject_file,
            scratch=self.run.directory,
            memory=sink.MEMORY,
            all_uncertain=uncertain,
            patience=defaults.SERVER_PATIENCE,
        )

    def _counts(self, loaded: Counts, seconds: float) -> AddCounts:
        """Returns the report. Raises AddRefused if the load was stopped, AddLost if the counts do not add up."""
        if loaded.stopped:
            first = loaded.rejections[0]
            where = f"{first.path or 'standard input'}, line {first.line}; also in {self.options.reject_file}"
            advice = next(text for pattern, text in _ADVICE.items() if re.match(pattern, first.reason)).format(
                where=where
            )
            counts = {"rejected": loaded.rejected, "added": loaded.added}
            raise AddRefused(dn=first.dn, reason=first.reason, advice=advice, **counts)
        settled = loaded.added + loaded.present + loaded.replaced + loaded.rejected
        if loaded.read != settled:
            raise AddLost(read=loaded.read, settled=settled, where=self.run.directory)
        return AddCounts(
            read=loaded.read,
            added=loaded.added,
            present=loaded.present,
            replaced=loaded.replaced,
            rejected=loaded.rejected,
            rejects=str(self.options.reject_file) if loaded.rejected else None,
            rejections=list(map(ldif.rejected, loaded.rejections)),
            before=loaded.before,
            values_left_out=loaded.left_out,
            waited_for_parents=loaded.deferred,
            waited_for_named_entries=loaded.named,
            transactions=loaded.transactions,
            largest_transaction=loaded.largest,
            reconnects=loaded.reconnects,
            seconds=seconds,
        )


# Pattern of the reason of the first rejection -> advice. A reason begins with the name of the LDAP result code.
_ADVICE = {
    "entryAlreadyExists": "To keep existing entries, give the same command with --on-exists skip; to "
    "bring them up to the LDIF, with --on-exists replace or newer ({where}).",
    "insufficientAccessRights": "Give the same command as an account that may add entries there (`ditseed add "
    "--dry-run` asks beforehand); EXTERNAL on ldapi:/// may only if a rule of olcAccess of that database allows it.",
    "referral": "The server is a replica, or does not hold that part of the tree: give the same command with -H and "
    "the provider's URI, which the message names.",
    "(?s)unwillingToPerform.*shadow context": "The server is a replica, which only syncrepl may change: give the "
    "same command with -H and the URI of its provider (see olcSyncrepl).",
    # back-mdb sends these messages after an LMDB error (servers/slapd/back-mdb/add.c, modify.c). The error itself is
    # only in slapd's log.
    r"(?s)other \(80\).*(txn_commit failed|index generation failed|entry store failed|DN index add)": "slapd could not "
    "write to its database. Most often its maxsize is reached (slapd's log then has MDB_MAP_FULL): `ditseed tune "
    "maxsize` shows how much of it is left, and sets a larger one. Otherwise the disk is full, or has failed (dmesg). "
    "Then give the same command again: no entry is added twice.",
    "": "Fix the cause ({where}) and give the same command again: no entry is added twice. Or accept some rejects with "
    "--max-rejects.",
}
