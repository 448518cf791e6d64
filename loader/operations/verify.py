"""Verify a database: is every page, entry and index as it must be?"""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from loader import backmdb, syncrepl, units
from loader import config as glue
from loader.config import Config, Database
from loader.defaults import LADDER
from loader.errors import IndexesUnknown, MdbDamaged, NoSuchPath, NotProven, SyncreplUnreadable, UsageProblem
from loader.mdb import contents, meta, verify
from loader.mdb.verify import Problem
from loader.operations.options import VerifyOptions
from loader.progress import Progress
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import Table, definitions_of
from loader.sources.location import Kind, locate
from loader.storage import files

INDEXES = LADDER[-1]
# Problems of indexes alone.
_DRIFT = {"indexes.table", "indexes.damaged", "indexes.missing", "indexes.too_much", "indexes.too_long"}
_EACH_ENTRY = ("tree", INDEXES)
_NAMING = "indexes.naming"  # an entry without the value of its RDN
# Bytes up to which a level takes minutes.
_UP_TO = {"indexes": 32 << 30, "tree": 128 << 30, "pages": 512 << 30}
_TABLES: tuple[Table, ...] = ("id2v", "ixck")  # what the file has goes before what a slapd would have


class VerifyReport(Struct, frozen=True):
    """entries: as the file tells; 0 where it cannot. seconds: of looking. mending: what makes damaged indexes again,
    once slapd is stopped; None where that would not help."""

    place: str
    level: str
    sound: bool
    entries: int
    txnid: int
    seconds: float
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    mending: str | None


def verify_database(options: VerifyOptions, progress: Progress) -> VerifyReport:
    """Damage is in the report. Raises NotLmdb, NoSuchPath, UsageProblem, IndexesUnknown."""
    place, configured = _subject(options)
    level = options.level or _level(place, options.config_path is not None)
    core_database = None
    if level == INDEXES:
        if configured is None:
            reason = f"--verify {INDEXES} needs --config: slapd's configuration says which indexes there are"
            raise UsageProblem(reason=reason)
        core_database = known_to_core(*configured, place)
    begun = time.monotonic()
    with progress.step("verify") as meter:
        verdict = verify.audit(place, level, options, meter, core_database)
        shared = verify.shared_uuids(place, options, meter) if level in _EACH_ENTRY and verdict.sound else []
    seconds = time.monotonic() - begun
    # slapadd accepts entries that share an entryUUID, so they are no damage, but syncrepl goes wrong with them.
    notes = [
        f"{first} and {other} share the entryUUID {uuid}: replication cannot tell them apart. "
        "Delete one of them and add it again, which gives it an entryUUID of its own"
        for uuid, first, other in shared
    ]
    problems, mending = verdict.problems, None
    if configured is not None:
        problems, unnamed = _as_replica(problems, *configured)
        notes += unnamed
        if options.place is None:
            notes += (
                f"{one.suffix} is glued to this database, and is to be verified by itself (-b {one.suffix})"
                for one in glue.subordinates(*configured)
                if one.backend == "mdb"
            )
        if not problems:
            from loader.operations.build.steps import member_of_notes  # with what a build needs: not for --help

            notes += member_of_notes(*configured, place)
        if core_database is not None:
            mending = _mending(problems, *configured)
    return VerifyReport(
        place=str(place),
        level=level,
        sound=not problems,
        entries=verdict.entries,
        txnid=verdict.txn,
        seconds=seconds,
        problems=problems,
        notes=(*verdict.notes, *notes),
        mending=mending,
    )


def _as_replica(
    problems: tuple[Problem, ...], config: Config, database: Database
) -> tuple[tuple[Problem, ...], list[str]]:
    """Returns the problems that remain, and a note instead of the others: slapd's consumer stores entries without what
    its syncrepl leaves out, be it the attribute of the RDN."""
    try:
        replications = [
            syncrepl.parse(value, config.where) for value in config.values(database.entry_dn, "olcSyncrepl")
        ]
    except SyncreplUnreadable:
        return problems, []
    narrow = any({"attrs", "exattrs"} & {*one.narrowing(database.suffix)} for one in replications)
    unnamed = [problem for problem in problems if problem.kind == _NAMING]
    if not unnamed or not narrow:
        return problems, []
    note = f"{units.number(unnamed[0].count)} entries lack the value of their RDN, which syncrepl leaves out"
    return tuple(problem for problem in problems if problem.kind != _NAMING), [note]


def _mending(problems: tuple[Problem, ...], config: Config, database: Database) -> str | None:
    """The slapindex command for the damaged indexes, if nothing else is wrong."""
    if not problems or any(problem.kind not in _DRIFT for problem in problems):
        return None
    attributes = dict.fromkeys(one.attribute or one.table or "" for problem in problems for one in problem.told)
    where = ["-F" if config.is_directory else "-f", str(config.path)]
    alone = ["-g"] if glue.subordinates(config, database) else []
    named = attributes if len(attributes) == 1 else ()  # of several, slapindex may leave some out
    return shlex.join(["slapindex", "-t", *alone, *where, "-b", database.suffix, *named])


def _subject(options: VerifyOptions) -> tuple[Path, tuple[Config, Database] | None]:
    """Returns the file or directory to verify, and the configuration of its database. Raises NoSuchPath, NotPermitted,
    NotLmdb, MdbProtected; OtherFormat if the slapd of the configuration cannot open the file."""
    config = configuration.read(options.config_path) if options.config_path else None
    place, database = options.place, None
    if place is not None:
        place = locate(str(place), Kind.DATABASE, Kind.DATA_FILE).path
    elif config is None:
        raise UsageProblem(reason="say what to verify: a directory, or --config")
    else:
        database = config.database(options.suffix)
        place = database.directory
        if place is None:
            raise NoSuchPath(path=f"{options.config_path}: the directory of its database")
    files.require_readable(meta.data_file(place))
    with suppress(MdbDamaged):  # the core tells all that is wrong with it
        facts = meta.read_meta(place)
        if config is not None:
            from loader.operations.publish import require_readable_format

            require_readable_format(place, facts.format)
    if config is None:
        return place, None
    return place, (config, database or _database_of(place, config, options.suffix))


def _database_of(place: Path, config: Config, suffix: str | None) -> Database:
    """The one of -b; else the one that has this directory, or the suffix that the file has; else the only one. A file
    in its own place may have another suffix, which is a damage to tell of."""
    directory = place if place.is_dir() else place.parent
    here = [one for one in config.mdb_databases if files.same(one.directory, directory)]
    wanted = config.database(suffix) if suffix is not None else next(iter(here), None)
    if wanted in here:
        return wanted
    suffixes: tuple[str, ...] = ()
    with suppress(MdbDamaged):  # the core tells all that is wrong with it
        suffixes = contents.summarise(place, newest=False).suffixes
    return config.database_of(suffixes, "the file", suffix)


def _level(place: Path, has_config: bool) -> str:
    """Returns the highest level that takes minutes."""
    used = 0
    with suppress(MdbDamaged):
        used = meta.read_meta(place).used
    levels = [*_UP_TO][0 if has_config else 1 :]
    return next((level for level in levels if used <= _UP_TO[level]), LADDER[0])


def known_to_core(config: Config, database: Database, place: Path) -> mdb.Database:
    """What the core must know to make the indexes of the file at `place` again. Raises IndexesUnknown."""
    try:
        return mdb.Database(given_to_core(config, database, place))
    except NotProven as error:
        raise IndexesUnknown(reason=error.facts["reason"]) from error


def given_to_core(config: Config, database: Database, place: Path) -> mdb.Target:
    """The database as the configuration describes it. Raises NotProven if the core does not know how its index keys are
    made, ConfigUnreadable, SettingRefused."""
    from loader.operations.build import native

    spec = target_spec(config, database, place)
    native.require_keys(spec.settings)
    return spec


def target_spec(config: Config, database: Database, place: Path) -> mdb.Target:
    """The same, whether or not the core can make its index keys. Raises NotProven for words that no slapd up to 2.7
    knows, ConfigUnreadable, SettingRefused."""
    of_2_7 = False  # of the slapd that opens the file: only that of 2.7 opens format 3
    with suppress(MdbDamaged):
        of_2_7 = meta.read_meta(place).format == 3
    backmdb.require(config, database)
    return mdb.Target(
        backmdb.settings(config, database, of_2_7=of_2_7),
        tuple(definitions_of(config)),
        backmdb.schema_effects(config, database),
        _TABLES,
        database.maxsize,
        config.server_id or 0,
    )
