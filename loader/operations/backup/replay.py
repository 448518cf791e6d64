"""Replays the accesslog of a database on its restored backup, up to a moment (`backup restore --until`).

The native core computes the entries that result from the logged operations (`native/replay`). The engine of `replica
refresh` then changes the restored database in one transaction. A log that is not proven to be complete is refused.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from loader import backmdb, config, csn, defaults, dn, overlays, units
from loader.config import Config, Database, Values
from loader.errors import LogIncomplete, LogUnsuitable, MdbDamaged, OtherFormat, UsageProblem
from loader.mdb import contents
from loader.operations.backup.manifest import Backup
from loader.operations.backup.options import END, END_OF_TIME, Moment, RestoreOptions
from loader.operations.verify import core_target_of
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.server import tools
from loader.sinks import changing, mdb
from loader.sinks.changing import Replayed, ReplayTask, SyncResult
from loader.sources import Inputs, names
from loader.sources import mdb as databases
from loader.sources.location import Kind, LdifFiles, locate
from loader.sources.mdb import Part
from loader.storage import files, holders

log = logging.getLogger(__name__)
GIVE_LOG = (
    "Give --log: the directory of the accesslog's database, or an export of it (`ditseed export -b cn=accesslog`)."
)
_WRITES = {"add", "delete", "modify", "modrdn"}
# Overlays that search before a change. If searches are logged, the log entries of the search and the change have the
# same reqStart, and thus the same DN. So slapd cannot add the log entry of the change (error 68).
_SEARCHING = ("unique", "constraint")
_NAMED = 3  # maximum number of gaps that an error message names
_CLOCKS = datetime.timedelta(minutes=5)  # tolerated difference between the clocks of providers


class Log(Struct, frozen=True):
    """An accesslog. `text` names the directory of its database, or LDIF such as an export. `segments` has the LDIF
    files of its segments in order. `until`: time up to which all operations are certain to be in the log, or None if
    unknown. `follows`: CSNs after which the log is complete; if None, the suffix entry's minCSN shows them.
    `before_gap`: see `segments.chain`."""

    text: str
    until: datetime.datetime | None = None
    segments: tuple[Path, ...] = ()
    follows: tuple[str, ...] | None = None
    before_gap: str = ""

    @classmethod
    def of_option(cls, text: str) -> Log:
        """Returns the log that --log names. If slapd has the log's database open, the log is complete up to now. Raises
        NoSuchPath, NotPermitted, LogUnsuitable."""
        try:
            location = locate(text, Kind.DATABASE, Kind.LDIF)
        except UsageProblem as error:
            raise LogUnsuitable(suffix="the database", reason=str(error.facts["reason"]), advice=GIVE_LOG) from error
        if location.kind is Kind.DATABASE and holders.holder(location.path) is not None:
            return cls(text, datetime.datetime.now(datetime.timezone.utc))
        return cls(text)


class Logged(Struct, frozen=True):
    """A change in the log. `start`: its reqStart. `author`: reqAuthzID, empty for anonymous. `session`: number of the
    connection. `kind`: add, modify, modrdn or delete. `before`: the CSN of the change before it."""

    csn: str
    start: str
    author: str
    session: str
    kind: str
    dn: str
    new_dn: str
    attributes: tuple[str, ...]
    before: str = ""


class Replay(Struct, frozen=True):
    """The result of a replay. `last` is the CSN of the last operation. `changed`, `deleted`: numbers of entries.
    `gaps`: the gaps of the log that --accept-gaps accepted. `notes` has warnings."""

    until: str
    last: str
    operations: int
    changed: int
    deleted: int
    context_csns: tuple[str, ...]
    gaps: tuple[str, ...]
    notes: tuple[str, ...]


def end_of(backup: Backup) -> datetime.datetime:
    """Returns a time by which the snapshot of the backup was certainly taken."""
    return backup.when + datetime.timedelta(seconds=backup.seconds + 1)


LASTMOD, REQMOD = "lastmod is off, so changes have no CSN", "multival reqMod of {} destroys the order of the changes"


def require_replayable(configured: Config, database: Database) -> None:
    """Raises LogUnsuitable if changes of this database cannot be replayed."""
    for reason in unreplayable(configured, database):
        raise LogUnsuitable(suffix=database.suffix, reason=reason, advice=changing.NOT_REPLAYED)


def require_changeable(stored: Path, backup: Backup) -> None:
    """Raises OtherFormat if the restored database will not have the format of LMDB 0.9: the core changes no other."""
    data_format = tools.lmdb_format() if backup.is_ldif else backup.lmdb_format
    if data_format not in (None, 1):
        raise OtherFormat(path=stored, found=data_format, who="a replay", needed=1)


def unreplayable(configured: Config, database: Database) -> list[str]:
    """Returns the reasons why changes of this database cannot be replayed. Raises NotProven, see `backmdb.settings`."""
    settings = backmdb.settings(configured, database)
    reasons = {
        LASTMOD: not settings.last_mod,
        "multival keeps values in a table of their own": bool(settings.multival),
        "its suffix is empty": "" in settings.suffixes,
        "sync_use_subentry keeps contextCSN in another entry": settings.subentry,
        "another database is glued to it": bool(config.subordinates(configured, database)),
        "it is glued to another database": config.is_subordinate(configured, database),
    }
    for suffix, name in logs_of(configured, database):
        lacking, has_searches = unlogged(configured.reader(name), database.suffix)
        reasons[lacking] = bool(lacking)
        for overlay in _SEARCHING:
            reason = f"logops logs searches, so those of slapo-{overlay} are logged instead of changes"
            reasons[reason] = has_searches and overlay in database.overlays
        multival = {dn.key(name) for name, _ in backmdb.settings(configured, configured.database(suffix)).multival}
        reasons[REQMOD.format(suffix)] = bool(multival & {"reqmod", "default"})
    return [reason for reason, holds in reasons.items() if holds]


def unlogged(overlay: Values, suffix: str) -> tuple[str, bool]:
    """Returns which writes to the tree `suffix` an accesslog overlay does not log, in words, or "" if it logs all; and
    whether it logs searches in any part of the tree."""
    logged = every = {operation.lower() for words in overlay.words("olcAccessLogOps") for operation in words}
    for operations, base in overlay.pairs("olcAccessLogBase"):
        every = every | {*operations.lower().split("|")}
        logged = logged | {*operations.lower().split("|")} if dn.is_below(suffix, base) else logged
    lacking = [] if logged & {"all", "writes"} else sorted(_WRITES - logged)
    return f"logops leaves out {', '.join(lacking)}" if lacking else "", bool(every & {"all", "reads", "search"})


def logs_of(configured: Config, database: Database) -> list[tuple[str, str]]:
    """Returns, for each accesslog overlay of `database`, the suffix of the log and the DN of the overlay's entry."""
    return [(suffix, name) for logged, suffix, name in configured.logs if logged.entry_dn == database.entry_dn]


def log_suffix(configured: Config, database: Database) -> str:
    """Returns the suffix of the accesslog of `database`. Raises LogUnsuitable."""
    for suffix, _ in logs_of(configured, database):
        return suffix
    raise LogUnsuitable(suffix=database.suffix, reason="its configuration has no accesslog overlay", advice=GIVE_LOG)


@contextmanager
def reading(source: Log, meter: Meter) -> Iterator[Inputs]:
    """Yields the log as LDIF."""
    location = None if source.segments else locate(source.text, Kind.DATABASE, Kind.LDIF)
    if location is None or location.kind is Kind.LDIF:
        with LdifFiles(source.segments if location is None else location.paths).reading(meter) as inputs:
            yield inputs
        return

    def write(descriptor: int) -> None:
        databases.stream(Part(location.path), descriptor, defaults.processors(), Meter("log"))

    with piped(write, "log") as (descriptor, _):
        yield [descriptor]


class Origin(Struct, frozen=True):
    """A backup, and the configuration of the restored database."""

    backup: Backup
    config: Config
    database: Database


def replay(origin: Origin, environment: Path, source: Log, options: RestoreOptions, progress: Progress) -> Replay:
    """Changes the restored database in `environment` to its state at the moment `options.until`. Raises LogIncomplete,
    LogUnsuitable, MapFull, NoSpace."""
    database, moment = origin.database, options.until
    assert moment is not None
    target = core_target_of(origin.config, database, environment)
    readers = [origin.config.reader(name) for _, name in logs_of(origin.config, database)]
    with files.workspace(environment.with_name("sort")) as scratch:
        reached = contents.context_csns(environment, database.suffix)
        window = end_of(origin.backup) + _CLOCKS
        task = ReplayTask(
            reached=reached,
            window=f"{window:%Y%m%d%H%M%S.%fZ}{END_OF_TIME}",
            until=moment.csn,
            until_start=moment.text,
            skip=options.skip,
            # With logsuccess, slapd does not log failed operations.
            log_success=any(overlay.flag("olcAccessLogSuccess", False) for overlay in readers),
            changed=scratch / "changed.ldif",
            deleted=scratch / "deleted.uuids",
            scratch=scratch,
            memory=defaults.sorting_memory(),
        )
        with progress.step("replay") as meter, reading(source, meter) as inputs:
            replayed = changing.replay(environment, target, names(inputs), task, meter)
        killpoint("restore.replayed")
        gaps = tuple(_gaps(replayed, origin.backup, reached, source, moment))
        if replayed.skipped < len(set(options.skip)):
            reason = "the log lacks a change of --skip between the backup and the moment"
            raise LogUnsuitable(suffix=database.suffix, reason=reason, advice="Give --skip the reqStart of a change.")
        if replayed.dependent or (gaps and not options.accept_gaps):
            raise _incomplete(replayed, moment, gaps, source.before_gap)
        stores_csns = reached or "syncprov" in database.overlays or database.consumer
        csns = csn.by_server([*reached, *replayed.context_csns]) if stores_csns else {}
        claimed = contents.ordered(csns.values())
        with progress.step("apply") as meter:
            _apply(environment, target, task, claimed, scratch, meter)
    return Replay(
        until=replayed.until,
        last=replayed.last,
        operations=replayed.applied,
        changed=replayed.changed,
        deleted=replayed.deleted,
        context_csns=tuple(claimed),
        gaps=gaps,
        notes=tuple(_notes(replayed, origin.config, database)),
    )


def _apply(
    environment: Path, target: mdb.Target, task: ReplayTask, claimed: Sequence[str], scratch: Path, meter: Meter
) -> None:
    """Applies the changes in one transaction. Raises MdbDamaged if they do not fit: a correct replay rules that out."""
    result = SyncResult([task.changed], None, [task.deleted], [], claimed, claimed)
    limits = mdb.Resources(defaults.sorting_memory(), defaults.processors(), scratch)
    now = time.strftime("%Y%m%d%H%M%SZ", time.gmtime())
    counts, unsettled = changing.refresh(environment, target, result, now, limits, lambda: None, meter)
    if unsettled or counts["kept"]:
        misfits = f"{len(unsettled)} entries lack a parent or a free DN, {counts['kept']} have children"
        raise MdbDamaged(path=environment, reason=f"the replayed changes do not fit: {misfits}")


def _gaps(replayed: Replayed, backup: Backup, reached: Sequence[str], source: Log, moment: Moment) -> Iterator[str]:
    of_backup = csn.by_server([*reached, *backup.newest_csns])
    is_first = source.follows is None
    for server, purged in csn.by_server(replayed.min_csns if is_first else source.follows or ()).items():
        if purged > of_backup.get(server, "") and server not in replayed.overlaps:
            yield f"changes of server ID {server} up to {purged} were removed from the log (logpurge)"
    if (
        is_first
        and not replayed.overlaps
        and not (replayed.created and Moment.parse(replayed.created).time <= backup.when)
    ):
        start = replayed.log_start or "nothing"
        yield f"the log begins with {start}, and nothing shows that it has all changes between the backup and this one"
    for gap in sorted(replayed.gaps, key=lambda gap: ("lacks" not in gap.reason, gap.csn)):  # lost changes first
        yield f"{gap.dn}: {gap.reason} (change {gap.start}, CSN {gap.csn})"
    is_short = replayed.log_end < replayed.until and (source.until is None or source.until < moment.time)
    if is_short and moment is not END:
        yield f"the log ends with {replayed.log_end or 'nothing'}, and later changes may be missing"


def _incomplete(replayed: Replayed, moment: Moment, gaps: Sequence[str], before_gap: str) -> LogIncomplete:
    if replayed.dependent:
        start, name = replayed.dependent[0]
        more = f" and {len(replayed.dependent) - 1} more" if replayed.dependent[1:] else ""
        reason = f"{start} ({name}){more} depends on a change that --skip leaves out"
        advice = "Leave out these changes, too, or give --until a moment before them."
        return LogIncomplete(until=moment.text, reason=reason, advice=advice)
    reason = "; ".join(gaps[:_NAMED]) + (f"; and {len(gaps) - _NAMED} more" if gaps[_NAMED:] else "")
    ends = gaps[-1].startswith("the log ends")
    proven = min([gap.proven for gap in replayed.gaps] + [replayed.log_end] * ends, default="")
    if len(gaps) > len(replayed.gaps) + ends or not proven:
        proven = before_gap
    advice = f"The log is complete up to `--until {proven}`."
    if not proven:
        advice = "No later moment can be reached: restore the backup alone, or try the log of another server."
    return LogIncomplete(until=moment.text, reason=reason, advice=advice)


def _notes(replayed: Replayed, configured: Config, database: Database) -> Iterator[str]:
    for name in overlays.UNLOGGED:
        if name in database.overlays:
            yield f"slapo-{name} writes without logging: its changes after the backup are missing"
    for name in overlays.LOSING:
        if name in database.overlays:
            yield f"slapd does not log all changes of slapo-{name}: some may be missing"
    if "ppolicy" in database.overlays and configured.reader(database.entry_dn).flag("olcLastBind", False):
        yield "slapd before 2.6.11 does not log all changes by binds (lastbind, ppolicy): some may be missing"
    if not any(configured.reader(name).all("olcAccessLogOld") for _, name in logs_of(configured, database)):
        yield "the log has no old values (logold), so a change that is missing from the log is not noticed"
    if replayed.log_end > replayed.until:
        yield "the log has later changes: move it away before slapd is started, or slapd mixes them with new changes"
    if replayed.skipped:
        yield f"{units.number(replayed.skipped)} changes were left out (--skip)"
