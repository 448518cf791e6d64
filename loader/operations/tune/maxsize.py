"""maxsize: how much a database may grow to, how much it holds, and what would be a good value."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loader import units
from loader.backmdb import PAGE_SIZE
from loader.config import Config, Database
from loader.defaults import MAXSIZE_FACTOR
from loader.errors import LoaderError, MaxsizeTooSmall, UsageProblem
from loader.mdb import meta
from loader.operations.tune.target import Offline, Outcome, Plan, Target, carry_out, changed, lines_to_change
from loader.storage import files

if TYPE_CHECKING:
    from loader.server.searches import MapPages

log = logging.getLogger(__name__)

GIB = 1 << 30
_UNTOLD = "slapd's monitor does not tell us what is used"
SHORT = 1.5  # below this times the used bytes a long reader (slapcat, a backup) can fill the map


@dataclass(frozen=True)
class MapUsage:
    """All in bytes; None where nobody tells: the files are on another host or not there yet, the server keeps it to
    itself."""

    suffix: str
    directory: str
    maxsize: int
    map_size: int | None = None  # as slapd last wrote it into the file, or has it in memory
    used: int | None = None  # pages ever used, free ones among them
    apparent: int | None = None
    allocated: int | None = None
    free: int | None = None  # on the file system
    recommended: int | None = None
    notes: tuple[str, ...] = ()


def standings(target: Target, suffix: str | None) -> list[MapUsage]:
    """Of every mdb database, or the one of `suffix`."""
    config = target.config
    chosen = [config.database(suffix)] if suffix is not None else config.mdb_databases
    return [standing(one, target) for one in chosen]


def standing(database: Database, target: Target) -> MapUsage:
    """By its files, or of another host by the monitor of its slapd."""
    known = MapUsage(database.suffix, str(database.directory), database.maxsize)
    if database.directory is None:
        return known
    if not target.local:
        return _as_monitored(known, target)
    try:
        facts = meta.read_meta(database.directory)
    except LoaderError as error:
        return replace(known, notes=(str(error),))
    file = meta.data_file(database.directory)
    apparent, allocated = file.stat().st_size, files.allocated_bytes(file)
    free = files.free_bytes(database.directory)
    return replace(
        _with_used(known, facts.used),
        map_size=facts.map_size,
        free=free,
        apparent=apparent,
        allocated=allocated,
        notes=tuple(_notes(database, facts, allocated, free)),
    )


def _as_monitored(known: MapUsage, target: Target) -> MapUsage:
    pages = target.map_pages(known.suffix)
    if pages is None:
        return known
    size = _page_size(known.maxsize, pages)
    used = pages.used * size
    found = replace(_with_used(known, used), map_size=pages.most * size)
    return replace(found, notes=tuple(_headroom(known.maxsize, used)))


def _page_size(maxsize: int, pages: MapPages) -> int:
    """The monitor counts pages and does not tell their size: slapd maps `maxsize`, or more where the file is longer."""
    at_most = maxsize // max(1, pages.most)
    return max(PAGE_SIZE, 1 << max(0, at_most - 1).bit_length())


def _with_used(known: MapUsage, used: int) -> MapUsage:
    return replace(known, used=used, recommended=recommended(used, known.maxsize))


def _notes(database: Database, facts: meta.MetaPage, allocated: int, free: int) -> Iterable[str]:
    yield from _headroom(database.maxsize, facts.used)
    if free < min(database.maxsize, round(facts.used * SHORT)) - allocated:
        yield "the file system is full before that headroom is"


def _headroom(maxsize: int, used: int) -> Iterable[str]:
    if maxsize < used * SHORT:
        yield (
            f"copy-on-write headroom is short: {units.size(max(0, maxsize - used))} left; a slapcat or backup during "
            "writes can fill the map"
        )


def recommended(used: int, configured: int = 0) -> int:
    """MAXSIZE_FACTOR times what is used, in whole GiB, at least one; never less than what is configured.

    Address space costs nothing, so there is no reason to go down.
    """
    return max(recommended_size(used), configured)


def recommended_size(used: int) -> int:
    """A maxsize with room for copy-on-write, growth and long readers, in whole GiB."""
    return max(1, -(-round(used * MAXSIZE_FACTOR) // GIB)) * GIB


def change_maxsize(target: Target, suffix: str | None, size: int | str | None, apply: bool) -> Outcome:
    """`size`: bytes, or "auto" (also None) for the recommended one. Raises MaxsizeTooSmall, UsageProblem."""
    database = target.config.database(suffix)
    return carry_out(target, plan(target.config, database, _chosen(database, target, size)), apply)


def _chosen(database: Database, target: Target, size: int | str | None) -> int:
    known = standing(database, target)
    if isinstance(size, str) or size is None:
        if known.recommended is None:
            reason = "; ".join(known.notes) or f"{known.directory} is not on this host, and {_UNTOLD}"
            raise UsageProblem(reason=f"cannot work out a maxsize ({reason}); give --maxsize")
        return known.recommended
    if size < (known.used or 1):
        raise MaxsizeTooSmall(maxsize=units.size(size), suffix=database.suffix, needed=units.size(known.used or 1))
    return size


def plan(config: Config, database: Database, size: int) -> Plan:
    """maxsize of `database` set to `size` bytes."""
    return Plan(
        database=database,
        changes=changed(config, database, {"olcDbMaxSize": (str(size),)}),
        holds=lambda now: now.maxsize == size,
        words=("maxsize", "--maxsize", str(size)),
        undo=("maxsize", "--maxsize", str(database.maxsize)),
    )


def apply_maxsize(config: Config, database: Database, size: int) -> None:
    """Set maxsize in the slapd.d that `config` was read from; nothing is written when it is so. For a slapd.conf the
    line to change is logged.

    Raises ServerRunning, NotPermitted, ConfigNotEditable, ConfigRefused; then nothing was changed.
    """
    wanted = plan(config, database, size)
    if config.is_directory:
        carry_out(Offline(config), wanted, apply=True)
    elif not wanted.holds(database):
        log.warning(
            "%s: maxsize of %s is %s, and the new database was made for %s. Change this before slapd starts: %s",
            *(config.path, database.suffix, units.size(database.maxsize), units.size(size)),
            " ".join(lines_to_change(config, wanted)),
        )
