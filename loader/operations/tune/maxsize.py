"""maxsize: how much a database may grow to, how much it holds, and what would be a good value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loader import units
from loader.config import Config, Database
from loader.defaults import MAXSIZE_FACTOR
from loader.errors import LoaderError, MaxsizeTooSmall, UsageProblem
from loader.mdb import meta
from loader.operations.tune.change import carry_out
from loader.operations.tune.plan import Outcome, Plan, changed
from loader.operations.tune.target import Offline, Target
from loader.storage import files

GIB = 1 << 30
SHORT = 1.5  # below this times the used bytes a long reader (slapcat, a backup) can fill the map


@dataclass(frozen=True)
class MapUsage:
    """All in bytes; None where the database's files are not on this host, or not there yet."""

    suffix: str
    directory: str
    maxsize: int
    map_size: int | None = None  # as slapd last wrote it into the file
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
    return [standing(one, target.local) for one in chosen]


def standing(database: Database, local: bool) -> MapUsage:
    known = MapUsage(database.suffix, str(database.directory), database.maxsize)
    if not local or database.directory is None:
        return known
    try:
        facts = meta.read_meta(database.directory)
    except LoaderError as error:
        return MapUsage(**{**known.__dict__, "notes": (str(error),)})
    file = meta.data_file(database.directory)
    apparent, allocated = file.stat().st_size, files.allocated_bytes(file)
    free = files.free_bytes(database.directory)
    return MapUsage(
        **{
            **known.__dict__,
            "map_size": facts.map_size,
            "used": facts.used,
            "free": free,
            "apparent": apparent,
            "allocated": allocated,
            "recommended": recommended(facts.used, database.maxsize),
            "notes": tuple(_notes(database, facts, allocated, free)),
        }
    )


def _notes(database: Database, facts: meta.MetaPage, allocated: int, free: int) -> Iterable[str]:
    if database.maxsize < facts.used * SHORT:
        yield (
            f"copy-on-write headroom is short: {units.size(max(0, database.maxsize - facts.used))} left; a slapcat "
            "or backup during writes can fill the map"
        )
    if free < min(database.maxsize, round(facts.used * SHORT)) - allocated:
        yield "the file system is full before that headroom is"


def recommended(used: int, configured: int = 0) -> int:
    """MAXSIZE_FACTOR times what is used, in whole GiB, at least one; never less than what is configured.

    Address space costs nothing, so there is no reason to go down.
    """
    return max(recommended_size(used), configured)


def recommended_size(used: int) -> int:
    """A maxsize with room for copy-on-write, growth and long readers, in whole GiB."""
    return max(1, -(-round(used * MAXSIZE_FACTOR) // GIB)) * GIB


def change_maxsize(
    target: Target, suffix: str | None, size: int | str | None, apply: bool
) -> Outcome:
    """`size`: bytes, or "auto" (also None) for the recommended one. Raises MaxsizeTooSmall, UsageProblem."""
    database = target.config.database(suffix)
    return carry_out(target, plan(target.config, database, _chosen(database, target, size)), apply)


def _chosen(database: Database, target: Target, size: int | str | None) -> int:
    known = standing(database, target.local)
    if isinstance(size, str) or size is None:
        if known.recommended is None:
            reason = "; ".join(known.notes) or f"{known.directory} is not on this host"
            raise UsageProblem(reason=f"cannot work out a maxsize ({reason}); give --maxsize")
        return known.recommended
    if size < (known.used or 1):
        raise MaxsizeTooSmall(
            maxsize=units.size(size),
            suffix=database.suffix,
            needed=units.size(known.used or 1),
        )
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
    """Set maxsize in the slapd.d or slapd.conf that `config` was read from; nothing is written when it is so.

    Raises ServerRunning, NotPermitted, ConfigNotEditable, ConfigRefused; then nothing was changed.
    """
    carry_out(Offline(config), plan(config, database, size), apply=True)
