"""Which indexes the searches of a log use, which searches have none, and what the indexes that they lack would take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loader import backmdb, indexes, units
from loader.backmdb import Settings
from loader.config import Database
from loader.errors import EmptyInput, NotProven
from loader.mdb import meta
from loader.operations.tune import forecast
from loader.operations.tune.target import Target
from loader.progress import Progress
from loader.sources import selection
from loader.sources.location import Kind, locate
from loader.sources.sampling import SampleSize
from loader.sources.selection import SearchesFound, SearchGroup
from loader.storage import files

_SYNC = frozenset(name.lower() for name in indexes.SYNC)


@dataclass(frozen=True)
class Asked:
    """Where the searches come from: `logs` of slapd, and files of `filters`."""

    logs: tuple[Path, ...] = ()
    filters: tuple[Path, ...] = ()


@dataclass(frozen=True)
class IndexUse:
    """How many of the searches use one kind of one index."""

    attribute: str
    kind: str
    searches: int
    needed_for_sync: bool


@dataclass(frozen=True)
class Unindexed:
    """Searches that look at every entry in their scope. `entries` and `seconds`: of each, on average; None where the
    log does not tell."""

    filter: str
    searches: int
    lacking: tuple[str, ...]
    entries: float | None
    seconds: float | None


@dataclass(frozen=True)
class Proposal:
    """An index, the searches that lack it, the seconds they took, and what its table would take (bytes; None where that
    is not known)."""

    index: str
    searches: int
    seconds: float
    bytes: int | None


@dataclass(frozen=True)
class Usage:
    """`searches`: all that are of this database but for those of a single entry by its DN (`of_base`)."""

    suffix: str
    searches: int
    of_base: int
    indexes: tuple[IndexUse, ...]
    unindexed: tuple[Unindexed, ...]
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]


def usage(target: Target, database: Database, asked: Asked, progress: Progress) -> Usage:
    """Raises NotProven, NoSuchPath, NotPermitted, ConfigUnreadable."""
    for path in (*asked.logs, *asked.filters):
        files.require_readable(path)
    with progress.step("searches") as meter:
        found = selection.read(target.config, database, asked.logs, asked.filters, meter)
    groups = [one for part in found for one in part.groups]
    proposed = dict(_proposed(groups))
    prices, unpriced = _prices(target, database, list(proposed), progress)
    by_searches = sorted(proposed.items(), key=lambda one: (-one[1][0], one[0]))
    return Usage(
        suffix=database.suffix,
        searches=sum(one.searches for one in groups),
        of_base=sum(part.of_base for part in found),
        indexes=tuple(_uses(backmdb.settings(target.config, database), groups)),
        unindexed=tuple(_unindexed(groups)),
        proposals=tuple(
            Proposal(" ".join(index), count, seconds, prices.get(index[0].lower()))
            for index, (count, seconds) in by_searches
        ),
        notes=(*_notes(found, groups), *unpriced),
    )


def _uses(settings: Settings, groups: Sequence[SearchGroup]) -> Iterator[IndexUse]:
    """Every kind that is configured, those that no search uses among them."""
    used = Counter[tuple[str, str]]()
    for group in groups:
        for attribute, kind in group.used:
            used[attribute.lower(), kind] += group.searches
    for attribute, kinds in settings.indexes:
        key = attribute.lower()
        for kind in kinds:
            yield IndexUse(attribute, kind, used[key, kind], kind == "eq" and key in _SYNC)


def _unindexed(groups: Sequence[SearchGroup]) -> Iterator[Unindexed]:
    """Those that cost most come first."""
    without = (one for one in groups if not one.indexed)
    for one in sorted(without, key=lambda one: (-one.seconds, -one.searches, one.filter)):
        yield Unindexed(
            one.filter,
            one.searches,
            tuple(map(" ".join, one.lacking)),
            one.entries / one.answered if one.answered else None,
            one.seconds / one.answered if one.seconds else None,
        )


def _proposed(groups: Sequence[SearchGroup]) -> Iterator[tuple[tuple[str, str], tuple[int, float]]]:
    lacking: dict[tuple[str, str], list[SearchGroup]] = {}
    for group in groups:
        if not group.indexed:
            for index in group.lacking:
                lacking.setdefault(index, []).append(group)
    for index, of_it in lacking.items():
        yield index, (sum(one.searches for one in of_it), sum(one.seconds for one in of_it))


def _prices(
    target: Target, database: Database, wanted: Sequence[tuple[str, str]], progress: Progress
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Bytes of each attribute's table, by a build of a sample with these indexes: where the database is on this host.
    And a note, where the core does not build such a one."""
    directory = database.directory
    is_here = target.local and directory is not None and (directory / meta.DATA).exists()
    if not wanted or not is_here:
        return {}, ()
    present = indexes.parse(database.indexes)
    lines = map(str, indexes.added(present, map(" ".join, wanted)).values())
    asked = replace(database, indexes=tuple(lines))
    try:
        place = locate(str(directory), Kind.DATABASE)
        found = forecast.of_location(target.config, asked, place, SampleSize(), progress)
    except (NotProven, EmptyInput) as error:
        return {}, (f"what their tables would take is not known: {error}",)
    return {one.name.lower(): one.bytes for one in found.tables}, ()


def _notes(found: Sequence[SearchesFound], groups: Sequence[SearchGroup]) -> Iterator[str]:
    if sum(one.lines for one in found) and not groups:
        yield "no search of this database is among them: does slapd log with loglevel stats?"
    for count, words in (
        (sum(one.elsewhere for one in found), "are of other databases"),
        (sum(one.unreadable for one in found), "have filters that cannot be read"),
        (sum(one.others for one in found), "are left out: too many different filters"),
    ):
        if count:
            yield f"{units.number(count)} of the searches {words}"
    short = [one.filter for one in groups if not one.indexed and not one.lacking]
    if short:
        yield (
            f"no index serves {short[0]}"
            + (f" and {len(short) - 1} more" if len(short) > 1 else "")
            + ": a NOT, a substring too short for index_substr_if_minlen or index_substr_any_len, or objectClass=*"
        )
