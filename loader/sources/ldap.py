"""Source: a live server, read by paged searches in partitions, each a restartable piece.

A paged-results cookie dies with its connection, so a piece is the unit of resuming. Pieces are ranges of entryCSN,
an attribute every syncprov provider indexes in order; what changes while we read gets a later CSN and is syncrepl's.
Where entries have no entryCSN, the subtrees below the base are the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from loader import defaults, ldif
from loader.child import Child
from loader.errors import LdifTruncated, LoaderError
from loader.ldif import Shard, Survey
from loader.progress import Meter
from loader.server import search
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import Session
from loader.storage import files

SURVEY_PAGE = (
    10_000  # only one short attribute comes back, so large pages cost little and spare round trips
)
Result = TypeVar("Result")
DROPPED = (
    *defaults.DYNAMIC_ATTRIBUTES,
    "contextCSN",
)  # contextCSN of the start is put in when shards are arranged


@dataclass(frozen=True)
class Partition:
    """A piece of the tree: one search."""

    name: str
    search: Search


@dataclass(frozen=True)
class Plan:
    """How the tree is cut."""

    partitions: tuple[Partition, ...]
    how: str  # for people, and the manifest


def survey(connection: Connection, base: str, meter: Meter) -> Survey:
    """Read every entry's entryCSN: how many entries there are, and where to cut. Raises LimitTooLow and its kin."""
    asked = Search(base, attributes=("entryCSN",), page=SURVEY_PAGE)

    def attempt() -> Survey:
        with search.running(connection, asked) as child, meter.cancelling(child.kill):
            found = ldif.survey(_stdout(child), "entryCSN", meter, child.tool)
            search.finish(child, connection, asked)
            return found

    return patiently(attempt, meter)


def plan_by_csn(base: str, found: Survey, jobs: int, page: int) -> Plan:
    """Ranges with about as many entries each: many more than jobs, so that a cut connection costs little."""
    pieces = (
        max(found.entries // defaults.PARTITION_ENTRIES, min(8 * jobs, found.entries // page)) + 1
    )
    filters = list(_ranges(found.cuts(pieces)))
    if found.without:
        filters.append("(!(entryCSN=*))")
    partitions = [
        Partition(f"csn-{number:05}", Search(base, where, page=page))
        for number, where in enumerate(filters)
    ]
    return Plan(tuple(partitions), f"{len(partitions)} ranges of entryCSN")


def _ranges(cuts: Sequence[str]) -> Iterator[str]:
    """Both ends belong to a range: an entry that stands on a cut is read twice and kept once."""
    if not cuts:
        yield "(objectClass=*)"
        return
    yield f"(entryCSN<={cuts[0]})"
    for low, high in pairwise(cuts):
        yield f"(&(entryCSN>={low})(entryCSN<={high}))"
    yield f"(entryCSN>={cuts[-1]})"


def plan_by_subtree(session: Session, base: str, page: int) -> Plan:
    """The base, its children that are leaves, and one piece for each child that has entries below it."""
    inner = session.children_with_children(base)
    pieces = [Partition("base", Search(base, scope="base", page=0))]
    if inner:
        pieces.append(
            Partition("leaves", Search(base, "(!(hasSubordinates=TRUE))", scope="one", page=page))
        )
        pieces += [
            Partition(f"subtree-{n:05}", Search(dn, page=page)) for n, dn in enumerate(inner)
        ]
    else:
        pieces.append(Partition("children", Search(base, scope="children", page=page)))
    return Plan(
        tuple(pieces),
        f"{len(inner)} subtrees" if inner else "one stream (no entryCSN, no subtrees)",
    )


def read(connection: Connection, asked: Search, target: Path, meter: Meter) -> Shard:
    """One search into one file, once. Either all of it came, or an error is raised and the file means nothing."""
    with search.running(connection, asked) as child, meter.cancelling(child.kill):
        try:
            found = ldif.shard(_stdout(child), target, DROPPED, meter, child.tool)
        except LdifTruncated:
            search.finish(
                child, connection, asked
            )  # the connection broke inside a record: say that instead
            raise
        try:
            search.finish(child, connection, asked)
        except LoaderError:
            meter.add(-found.entries, -found.bytes)
            raise
        return found


def fetch(connection: Connection, asked: Search, target: Path, meter: Meter) -> Shard:
    """One search into `target`, which is there once it is whole, however often the connection breaks."""
    partial = target.with_name("partial-" + target.name)
    found = patiently(lambda: read(connection, asked, partial, meter), meter)
    files.publish(partial, target)
    return found


def patiently(attempt: Callable[[], Result], meter: Meter) -> Result:
    """Try again after a broken connection, waiting longer each time."""
    for failures in range(defaults.RETRIES):
        try:
            return attempt()
        except LoaderError as error:
            if not error.retryable or meter.cancelled.is_set():
                raise
            meter.note = f"{error}; trying again"
            meter.cancelled.wait(min(30.0, 0.5 * 2**failures))
    return attempt()


def _stdout(child: Child) -> int:
    assert child.process.stdout is not None
    return child.process.stdout.fileno()
