"""Checks a database at one of several levels. Each level includes the checks of the levels above it in this list.

none     no check
quick    meta pages, tables and their flags; id2e has as many entries as dn2i has nodes (the core's level meta)
pages    every page is either free or reachable exactly once, and keys are in order
tree     every entry can be decoded and has its node, every node is in its parent's list, subtree counts are right
indexes  every index equals one rebuilt from the entries; needs schema and configuration

`mdb_stat` is no substitute: it succeeds on a database that slapd cannot read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from loader import _native, defaults, units
from loader.declared import AuditResources
from loader.defaults import LEVELS, PROBLEMS
from loader.errors import MdbDamaged, SharedUuid, UsageProblem
from loader.ldif import with_counters
from loader.mdb import meta, snapshot
from loader.mdb.environment import LOCK
from loader.progress import Meter
from loader.storage.held import checked_file

DEEPER = ("pages", "tree")  # levels deeper than quick
PAGES_UP_TO = 16 << 30  # bytes in use; the default level of larger databases is quick
MEMORIES = 8  # the default level is quick above this multiple of the memory, because level pages needs 1/30
# Kinds of problems that `verify` accepts, because slapd tolerates them.
_HARMLESS = {"pages.lost", "tree.scattered", "tree.hole"}


class Verified(Struct, frozen=True):
    """`level`: the level of the check. `entries`: number of entries; None at level none."""

    level: str
    entries: int | None = None


class Finding(Struct, frozen=True):
    """A problem and its location, as far as it is known. `id`: an entry ID. `page`: a page number."""

    message: str
    id: int | None = None
    dn: str | None = None
    attribute: str | None = None
    table: str | None = None
    page: int | None = None

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("table", self.table), ("page", self.page), ("ID", self.id))
            if value is not None
        ]
        named = [text for text in (self.dn, self.attribute) if text]
        return ": ".join([*filter(None, [", ".join(where)]), *named, self.message])


class Problem(Struct, frozen=True):
    """All problems of one kind. `count`: number of problems. `examples`: the first problems."""

    kind: str
    count: int
    examples: tuple[Finding, ...]


class AuditReport(Struct, frozen=True):
    """`entries`, `txn`: 0 if they cannot be read. `notes`: on parts that were not checked, and on harmless problems.
    `drifted`: index tables that make searches miss entries. `left_out`: unchecked index tables."""

    entries: int
    txn: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems


def default_level(env: Path) -> str:
    """Returns "pages" if that level takes only seconds and little memory, otherwise "quick"."""
    size = meta.read_meta(env).used
    return "pages" if size < min(PAGES_UP_TO, defaults.memory() * MEMORIES) else "quick"


def verify(env: Path, level: str, meter: Meter, seen: _native.Seen | None = None) -> Verified:
    """Checks a copy or a new database. `seen`: record of the pages from the time when the file was written; these pages
    are not read again. Raises MdbDamaged, NotLmdb, and UsageProblem for an unknown level."""
    if level not in LEVELS:
        raise UsageProblem(reason=f"verify {level}: must be one of {', '.join(LEVELS)}")
    if level == "none":
        return Verified(level)
    path, facts = meta.data_file(env), meta.read_meta(env)
    if path.stat().st_size < facts.used and level == "quick":
        # LMDB never writes a page that was freed in the transaction that allocated it, so a sound file may lack the
        # last pages. Only level pages can tell such a file from a truncated one.
        level = "pages"
    report = audit(env, level, AuditResources(limit=1), meter, seen=seen)
    damage = [problem for problem in report.problems if problem.kind not in _HARMLESS]
    if damage:
        count = sum(problem.count for problem in damage)
        rest = f" (and {units.number(count - 1)} more)" if count > 1 else ""
        raise MdbDamaged(path=path, reason=f"{damage[0].examples[0]}{rest}")
    return Verified(level, report.entries)


def require_end(env: Path, meter: Meter) -> None:
    """Raises MdbDamaged if the file was truncated. A sound file may lack its last pages if they are free."""
    if meta.data_file(env).stat().st_size < meta.read_meta(env).used:
        verify(env, "pages", meter)


def audit(
    env: Path,
    level: str,
    resources: AuditResources,
    meter: Meter,
    database: _native.Database | None = None,
    seen: _native.Seen | None = None,
    sample: int = 0,
) -> AuditReport:
    """Checks an environment directory, even under a running slapd, or a data file that no process writes.

    `database`: schema and configuration, which level indexes needs. `sample`: level indexes checks only this many
    entries and nothing else; 0: all. Damage is in the result; only other errors (NotPermitted ...) are raised."""
    with _reading(env, meter) as (pin, txn, counters), meter.following(counters):
        result = _native.audit(
            pin,
            counters,
            _core_resources(resources),
            level="meta" if level == "quick" else level,
            sample=sample,
            txn=txn,
            database=database,
            seen=seen,
            limit=resources.limit,
        )
        problems = tuple(
            Problem(kind, count, tuple(Finding(*fields) for fields in examples))
            for kind, count, examples in result.problems
        )
        notes, drifted, left_out = tuple(result.notes), tuple(result.drifted), tuple(result.left_out)
        return AuditReport(result.entries, result.txn, problems, notes, drifted, left_out)


def _core_resources(bounds: AuditResources) -> defaults.Resources:
    memory, jobs = bounds.memory or defaults.sorting_memory(), bounds.jobs or defaults.processors()
    return defaults.Resources(memory, jobs, bounds.scratch or Path(tempfile.gettempdir()))


def shared_uuids(path: Path, bounds: AuditResources, meter: Meter, limit: int = PROBLEMS) -> list[tuple[str, str, str]]:
    """Returns the first `limit` entryUUIDs that several entries share, each with the DNs of two such entries. Raises
    MdbDamaged, NotLmdb, NotPermitted, ReadersFull."""
    with _reading(path, meter) as (pin, txn, counters):
        return _native.shared_uuids(pin, counters, _core_resources(bounds), txn=txn, limit=limit)


def require_unique_uuids(env: Path, meter: Meter, scratch: Path | None = None) -> None:
    """Raises SharedUuid if two entries share an entryUUID: on a replica, syncrepl could change or delete the wrong
    entry. Also raises the errors of `shared_uuids`."""
    for uuid, first, other in shared_uuids(env, AuditResources(scratch=scratch), meter, limit=1):
        raise SharedUuid(uuid=uuid, first=first, dn=other)


@contextmanager
def _reading(env: Path, meter: Meter) -> Iterator[tuple[Path, int | None, _native.Counters]]:
    """Yields a path to the open data file, the transaction of the reader slot, and counters for a call of the core.
    Takes a reader slot if `env` is a directory with lock.mdb and sound meta pages. The core reports damaged pages."""
    path, txn, is_readable = meta.data_file(env), None, False
    with suppress(MdbDamaged):
        is_readable = env.is_dir() and bool(meta.read_meta(env))
    with ExitStack() as stack:
        if is_readable and (env / LOCK).exists():
            txn = stack.enter_context(snapshot.protected(env)).txn
        elif is_readable:
            stack.enter_context(snapshot.unlocked(env))
        pin = stack.enter_context(checked_file(path))
        counters = stack.enter_context(with_counters(meter, str(path)))
        stack.enter_context(meta.explained(path, pin))
        yield pin, txn, counters
