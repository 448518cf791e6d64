"""Is a database sound? A ladder of looks, each dearer than the one before; the native core does them.

quick    meta pages, tables and their flags, as many entries in id2e as nodes in dn2i (the core's level meta)
pages    also every page: reachable once or free, keys in order
tree     also every entry: it decodes, has its node, each node stands in its parent's list, subtree counts are right
indexes  also every index, made again from the entries; needs to know schema and configuration
none     nothing is looked at

`mdb_stat` is no check: it succeeds on a database that slapd cannot read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import IntRange

from loader import _native, resources, units
from loader.common_options import Limit, Sorting, TemporaryDirectory
from loader.defaults import LEVELS
from loader.errors import MdbDamaged, SharedUuid, UsageProblem
from loader.ldif import with_counters
from loader.mdb import meta, snapshot
from loader.mdb.environment import LOCK
from loader.progress import Meter
from loader.storage.held import checked_file

DEEPER = ("pages", "tree")  # than quick
PAGES_UP_TO = 16 << 30  # bytes; above it the walk over all pages is asked for by name
NOTED = 8  # times the memory: a page that is noted takes a thirtieth of itself
LIMIT = 10  # problems told of each kind
_NATIVE = {"quick": "meta"}
# What slapd lives with: a copy of such a database is as good as the original.
_HARMLESS = {"pages.lost", "tree.scattered", "tree.hole"}


@dataclass(frozen=True)
class Verified:
    """What was looked at; entries as counted, None at level none."""

    level: str
    entries: int | None = None


@dataclass(frozen=True)
class Finding:
    """One problem, and where it is as far as that is known. id: the entry's; table: of the file; page: its number."""

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


@dataclass(frozen=True)
class Problem:
    """All problems of a kind: how many, and the first of them."""

    kind: str
    count: int
    told: tuple[Finding, ...]


@dataclass(frozen=True)
class AuditReport:
    """entries, txn: 0 where the file tells none. notes: what was not looked at, or is strange without being wrong.

    drifted: index tables by which searches do not find what they should. left_out: those that were not looked at."""

    entries: int
    txn: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True, kw_only=True)
class Resources(Sorting):
    """What an audit may use. `limit`: how many problems of each kind are named."""

    limit: Annotated[Limit, IntRange(1), "Number of problems of each kind to show; all are counted."] = LIMIT
    scratch: TemporaryDirectory = None


def default_level(place: Path) -> str:
    """pages where that takes seconds, and little of the memory, else quick."""
    used = meta.read_meta(place).used
    return "pages" if used < min(PAGES_UP_TO, resources.memory() * NOTED) else "quick"


def verify(place: Path, level: str, meter: Meter, seen: _native.Seen | None = None) -> Verified:
    """Check a copy or a new database. `seen`: what was noted of its pages when it was written; none of these is read
    again. Raises MdbDamaged, NotLmdb, UsageProblem."""
    if level not in LEVELS:
        raise UsageProblem(reason=f"verify {level}: must be one of {', '.join(LEVELS)}")
    if level == "none":
        return Verified(level)
    path, facts = meta.data_file(place), meta.read_meta(place)
    if path.stat().st_size < facts.used and level == "quick":
        # A page freed in the transaction that took it is never written, so the end may rightly be missing;
        # only the walk over all pages tells that from a file that was cut.
        level = "pages"
    found = audit(place, level, Resources(limit=1), meter, seen=seen)
    damage = tuple(one for one in found.problems if one.kind not in _HARMLESS)
    if damage:
        raise MdbDamaged(path=path, reason=_summary(damage))
    return Verified(level, found.entries)


def require_end(place: Path, meter: Meter) -> None:
    """A file may rightly end before the last page in use, where that is free: else it was cut. Raises MdbDamaged."""
    if meta.data_file(place).stat().st_size < meta.read_meta(place).used:
        verify(place, "pages", meter)


def _summary(problems: tuple[Problem, ...]) -> str:
    count = sum(problem.count for problem in problems)
    more = f" (and {units.number(count - 1)} more)" if count > 1 else ""
    return f"{problems[0].told[0]}{more}"


def audit(
    place: Path,
    level: str,
    means: Resources,
    meter: Meter,
    database: _native.Database | None = None,
    seen: _native.Seen | None = None,
    sample: int = 0,
) -> AuditReport:
    """Look at an environment directory, beside a running slapd if need be, or at a data file that nobody writes to.

    `database`: schema and configuration, from level indexes on. `sample`: there, so many entries are looked at, and
    nothing else; 0: all. Damage is in the verdict; what is raised
    (NotPermitted, SystemFailed ...) keeps from looking.
    """
    with _reading(place, meter) as (pin, txn, counters), meter.following(counters):
        found = _native.audit(
            pin,
            counters,
            level=_NATIVE.get(level, level),
            sample=sample,
            txn=txn,
            database=database,
            seen=seen,
            limit=means.limit,
            memory=means.memory or resources.sorting_memory(),
            jobs=means.jobs or resources.processors(),
            scratch=means.scratch or tempfile.gettempdir(),
        )
        problems = tuple(Problem(one.kind, one.count, tuple(map(_finding, one.told))) for one in found.problems)
        notes, drifted, left_out = tuple(found.notes), tuple(found.drifted), tuple(found.left_out)
        return AuditReport(found.entries, found.txn, problems, notes, drifted, left_out)


def _finding(found: _native.Finding) -> Finding:
    return Finding(found.message, found.id, found.dn, found.attribute, found.table, found.page)


def shared_uuids(place: Path, means: Resources, meter: Meter, limit: int = LIMIT) -> list[tuple[str, str, str]]:
    """The first `limit` entryUUIDs that several entries of an environment have, each with the DNs of two of them.

    Raises MdbDamaged, NotLmdb, NotPermitted, ReadersFull.
    """
    with _reading(place, meter) as (pin, txn, counters):
        return _native.shared_uuids(
            pin,
            counters,
            txn=txn,
            limit=limit,
            memory=means.memory or resources.sorting_memory(),
            jobs=means.jobs or resources.processors(),
            scratch=means.scratch or tempfile.gettempdir(),
        )


def require_unique_uuids(place: Path, meter: Meter, scratch: Path | None = None) -> None:
    """A replica must not hold two entries with one entryUUID: syncrepl would change or delete either.

    Raises SharedUuid, and what `shared_uuids` raises.
    """
    for uuid, first, other in shared_uuids(place, Resources(scratch=scratch), meter, limit=1):
        raise SharedUuid(uuid=uuid, first=first, dn=other)


@contextmanager
def _reading(place: Path, meter: Meter) -> Iterator[tuple[Path, int | None, _native.Counters]]:
    """The data file, held open, the transaction of the reader slot, and the counters of a call of the core."""
    path = meta.data_file(place)
    with (
        _held(place) as txn,
        checked_file(path) as pin,
        with_counters(meter, str(path)) as counters,
        meta.explained(path, pin),
    ):
        yield pin, txn, counters


@contextmanager
def _held(place: Path) -> Iterator[int | None]:
    """Holds a reader slot of an environment that others may write to; yields its transaction. None where nobody can
    write, and for a damaged meta page, of which the core tells what is wrong."""
    try:
        is_readable = place.is_dir() and bool(meta.read_meta(place))
    except MdbDamaged:
        is_readable = False
    if not is_readable:
        yield None
    elif (place / LOCK).exists():
        with snapshot.held(place) as held:
            yield held.txn
    else:
        with snapshot.unlocked(place):
            yield None
