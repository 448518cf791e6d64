"""Verify a database: is every page, entry and index as it must be?"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from click import Choice

from loader import backmdb, schema, syncrepl, units
from loader import config as glue
from loader.common_options import OptionalConfig, Suffix
from loader.config import Config, Database
from loader.declared import Argument
from loader.defaults import LADDER
from loader.errors import IndexesUnknown, MdbDamaged, NoSuchPath, NotProven, SyncreplUnreadable, UsageProblem
from loader.mdb import contents, meta, verify
from loader.mdb.verify import AuditReport, Problem, Resources
from loader.progress import Meter, Progress
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import Table, definitions_of
from loader.sources.location import Kind, locate
from loader.storage import files

INDEXES = LADDER[-1]
# Problems of indexes alone.
_DRIFT = {f"indexes.{kind}" for kind in ("table", "damaged", "missing", "too_much", "too_long")}
_EACH_ENTRY = ("tree", INDEXES)
_NAMING = "indexes.naming"  # an entry without the value of its RDN
# Bytes up to which a level takes minutes.
_UP_TO = {"indexes": 32 << 30, "tree": 128 << 30, "pages": 512 << 30}
_TABLES: tuple[Table, ...] = ("id2v", "ixck")  # what the file has goes before what a slapd would have


@dataclass(frozen=True)
class VerifyOptions(Resources):
    """`place`: an environment directory or data file; None: that of the configuration. `level`: one of
    loader.defaults.LADDER; None picks the highest that takes minutes."""

    place: Annotated[Path | None, Argument("[DIR]")] = None
    config_path: Annotated[
        OptionalConfig,
        "The server's slapd.d or slapd.conf, for schema and indexes, and for the directory if DIR is not given.",
    ] = None
    suffix: Suffix = None
    level: Annotated[
        str | None,
        "--verify",
        Choice(LADDER),
        "How thoroughly to check (default: the highest level that takes a few minutes; indexes needs --config).",
    ] = None


@dataclass(frozen=True)
class VerifyReport:
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


@dataclass(frozen=True)
class _Subject:
    """A file, and the configuration of the database that it is held against."""

    place: Path
    configured: tuple[Config, Database] | None = None

    def required(self) -> tuple[Config, Database]:
        if self.configured is None:
            reason = f"--verify {INDEXES} needs --config: slapd's configuration says which indexes there are"
            raise UsageProblem(reason=reason)
        return self.configured


def verify_database(options: VerifyOptions, progress: Progress) -> VerifyReport:
    """Damage is in the report. Raises NotLmdb, NoSuchPath, UsageProblem, IndexesUnknown."""
    subject = _subject(options)
    place, level = subject.place, _level(options, subject.place)
    known = known_to_core(*subject.required(), place) if level == INDEXES else None
    begun = time.monotonic()
    with progress.step("verify") as meter:
        verdict = verify.audit(place, level, options, meter, known)
        if level in _EACH_ENTRY and verdict.sound:
            verdict = _with_shared_uuids(verdict, place, options, meter)
    seconds = time.monotonic() - begun
    if subject.configured is not None:
        verdict = _as_replica(verdict, *subject.configured)
    return VerifyReport(
        place=str(place),
        level=level,
        sound=verdict.sound,
        entries=verdict.entries,
        txnid=verdict.txn,
        seconds=seconds,
        problems=verdict.problems,
        notes=(*verdict.notes, *_others(options, subject), *_without_member_of(subject, verdict)),
        mending=_mending(subject, verdict) if known is not None else None,
    )


def _as_replica(verdict: AuditReport, config: Config, database: Database) -> AuditReport:
    """slapd's consumer stores entries without what its syncrepl leaves out, be it the attribute of the RDN."""
    values = config.values(database.entry_dn, "olcSyncrepl")
    try:
        found = [syncrepl.parse(value, config.where) for value in values]
    except SyncreplUnreadable:
        return verdict
    narrow = any({"attrs", "exattrs"} & {*one.narrowing(database.suffix)} for one in found)
    unnamed = [one for one in verdict.problems if one.kind == _NAMING]
    if not unnamed or not narrow:
        return verdict
    note = f"{units.number(unnamed[0].count)} entries lack the value of their RDN, which syncrepl leaves out"
    rest = tuple(one for one in verdict.problems if one.kind != _NAMING)
    return replace(verdict, problems=rest, notes=(*verdict.notes, note))


def _with_shared_uuids(verdict: AuditReport, place: Path, means: Resources, meter: Meter) -> AuditReport:
    """slapadd takes entries that share an entryUUID, so that they are no damage, but syncrepl goes wrong with them."""
    shared = (
        f"{first} and {other} share the entryUUID {uuid}: replication cannot tell them apart. "
        "Delete one of them and add it again, which gives it an entryUUID of its own"
        for uuid, first, other in verify.shared_uuids(place, means, meter)
    )
    return replace(verdict, notes=(*verdict.notes, *shared))


def _others(options: VerifyOptions, subject: _Subject) -> Iterator[str]:
    """Databases that hold other parts of the same tree."""
    if subject.configured is None or options.place is not None:
        return
    for one in glue.subordinates(*subject.configured):
        if one.backend == "mdb":
            yield f"{one.suffix} is glued to this database, and is to be verified by itself (-b {one.suffix})"


def _without_member_of(subject: _Subject, verdict: AuditReport) -> list[str]:
    if subject.configured is None or not verdict.sound:
        return []
    from loader.operations.build.steps import member_of_notes  # with what a build needs: not for `verify --help`

    return member_of_notes(*subject.configured, subject.place)


def _mending(subject: _Subject, verdict: AuditReport) -> str | None:
    """slapindex, for the indexes of which problems are told, if nothing else is wrong."""
    config, database = subject.required()
    if not verdict.problems or any(one.kind not in _DRIFT for one in verdict.problems):
        return None
    told = (finding for problem in verdict.problems for finding in problem.told)
    attributes = dict.fromkeys(one.attribute or one.table or "" for one in told)
    where = ["-F" if config.is_directory else "-f", str(config.path)]
    alone = ["-g"] if glue.subordinates(config, database) else []
    named = attributes if len(attributes) == 1 else ()  # of several, slapindex may leave some out
    return shlex.join(["slapindex", "-t", *alone, *where, "-b", database.suffix, *named])


def _subject(options: VerifyOptions) -> _Subject:
    config = configuration.read(options.config_path) if options.config_path else None
    if options.place is not None:
        place = _there(locate(str(options.place), Kind.DATABASE, Kind.DATA_FILE).path, config)
        return _Subject(place, (config, _database_of(place, config, options.suffix)) if config else None)
    if config is None:
        raise UsageProblem(reason="say what to verify: a directory, or --config")
    database = config.database(options.suffix)
    if database.directory is None:
        raise NoSuchPath(path=f"{options.config_path}: the directory of its database")
    return _Subject(_there(database.directory, config), (config, database))


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


def _there(place: Path, config: Config | None = None) -> Path:
    """Raises NoSuchPath, NotPermitted, NotLmdb, MdbProtected; OtherFormat where the slapd of the configuration cannot
    open the file."""
    files.require_readable(meta.data_file(place))
    with suppress(MdbDamaged):  # the core tells all that is wrong with it
        facts = meta.read_meta(place)
        if config is not None:
            from loader.operations.publish import require_readable_format

            require_readable_format(place, facts.format)
    return place


def _level(options: VerifyOptions, place: Path) -> str:
    if options.level is not None:
        return options.level
    used = 0
    with suppress(MdbDamaged):
        used = meta.read_meta(place).used
    levels = _UP_TO if options.config_path is not None else [*_UP_TO][1:]
    return next((level for level in levels if used <= _UP_TO[level]), LADDER[0])


def known_to_core(config: Config, database: Database, place: Path) -> mdb.Database:
    """What the core must know to make the indexes of the file at `place` again. Raises IndexesUnknown."""
    try:
        return mdb.database(given_to_core(config, database, place))
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
        schema.effects(config, database),
        _TABLES,
        database.maxsize,
        config.server_id or 0,
    )
