"""Verifies the pages, entries and indexes of a database."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from loader import backmdb, dn, syncrepl, units
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
# Kinds of problems that slapindex repairs.
_INDEX_PROBLEMS = {"indexes.table", "indexes.damaged", "indexes.missing", "indexes.too_much", "indexes.too_long"}
_EACH_ENTRY = ("tree", INDEXES)  # levels that read every entry
_NAMING = "indexes.naming"  # kind of problem: an entry lacks the value of its RDN
# Level -> bytes of the largest database that can be verified at this level within minutes.
_UP_TO = {"indexes": 32 << 30, "tree": 128 << 30, "pages": 512 << 30}
_TABLES: tuple[Table, ...] = ("id2v", "ixck")  # optional tables; which ones a file has depends on its slapd's release


class VerifyReport(Struct, frozen=True):
    """`place`: the verified path. `entries`: 0 if no entry can be read. `mending`: command that rebuilds the damaged
    indexes while slapd is stopped; None if anything else is damaged, too."""

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
    """Verifies a database. Damage is in the report. Raises NotLmdb, NoSuchPath, UsageProblem, IndexesUnknown."""
    path, configured = _subject(options)
    level = options.level or _level(path, options.config_path is not None)
    core_database = None
    if level == INDEXES:
        if configured is None:
            reason = f"--verify {INDEXES} needs --config: slapd's configuration says which indexes there are"
            raise UsageProblem(reason=reason)
        core_database = core_database_of(*configured, path)
    start = time.monotonic()
    with progress.step("verify") as meter:
        verdict = verify.audit(path, level, options, meter, core_database)
        shared = verify.shared_uuids(path, options, meter) if level in _EACH_ENTRY and verdict.sound else []
    seconds = time.monotonic() - start
    # slapadd accepts entries that share an entryUUID, so they are not damage. But syncrepl confuses them.
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
                f"{glued.suffix} is glued to this database, and must be verified by itself (-b {glued.suffix})"
                for glued in glue.subordinates(*configured)
                if glued.backend == "mdb"
            )
        if not problems:
            from loader.operations.build.steps import member_of_notes  # imported here: slow to load

            notes += member_of_notes(*configured, path)
        if core_database is not None:
            mending = _mending(problems, *configured)
    return VerifyReport(
        place=str(path),
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
    """Returns the problems that syncrepl does not cause, and a note on the others. If syncrepl leaves out an attribute,
    the consumer lacks even values of RDNs. With suffixmassage, the renamed top entry keeps its old values."""
    try:
        replications = [
            syncrepl.parse(value, config.where) for value in config.values(database.entry_dn, "olcSyncrepl")
        ]
    except SyncreplUnreadable:
        return problems, []
    unnamed = next((problem for problem in problems if problem.kind == _NAMING), None)
    if unnamed is None:
        return problems, []
    names = [dn.key(each.dn or "") for each in unnamed.examples]
    renamed = {dn.key(each.suffixmassage or "") for each in replications if each.massages}
    if any({"attrs", "exattrs"} & {*each.narrowing(database.suffix)} for each in replications):
        note = f"{units.number(unnamed.count)} entries lack the value of their RDN, which syncrepl leaves out"
    elif unnamed.count == len(names) and renamed.issuperset(names):
        note = f"{unnamed.examples[0].dn} lacks the value of its RDN, because syncrepl's suffixmassage renames it"
    else:
        return problems, []
    return tuple(problem for problem in problems if problem is not unnamed), [note]


def _mending(problems: tuple[Problem, ...], config: Config, database: Database) -> str | None:
    """Returns the slapindex command that rebuilds the damaged indexes, or None if anything else is damaged."""
    if not problems or any(problem.kind not in _INDEX_PROBLEMS for problem in problems):
        return None
    attributes = dict.fromkeys(each.attribute or each.table or "" for problem in problems for each in problem.examples)
    where = ["-F" if config.is_directory else "-f", str(config.path)]
    alone = ["-g"] if glue.subordinates(config, database) else []
    arguments = attributes if len(attributes) == 1 else ()  # given several attributes, slapindex may skip some
    return shlex.join(["slapindex", "-t", *alone, *where, "-b", database.suffix, *arguments])


def _subject(options: VerifyOptions) -> tuple[Path, tuple[Config, Database] | None]:
    """Returns the file or directory to verify, and the configuration of its database. Raises NoSuchPath, NotPermitted,
    NotLmdb, MdbProtected, or OtherFormat if the slapd of the configuration cannot open the file."""
    config = configuration.read(options.config_path) if options.config_path else None
    path, database = options.place, None
    if path is not None:
        path = locate(str(path), Kind.DATABASE, Kind.DATA_FILE).path
    elif config is None:
        raise UsageProblem(reason="say what to verify: a directory, or --config")
    else:
        database = config.database(options.suffix)
        path = database.directory
        if path is None:
            raise NoSuchPath(path=f"{options.config_path}: the directory of its database")
    files.require_readable(meta.data_file(path))
    with suppress(MdbDamaged):  # the core reports all damage
        facts = meta.read_meta(path)
        if config is not None:
            from loader.operations.publish import require_readable_format

            require_readable_format(path, facts.format)
    if config is None:
        return path, None
    return path, (config, database or _database_of(path, config, options.suffix))


def _database_of(path: Path, config: Config, suffix: str | None) -> Database:
    """Returns the configured database to which `path` belongs: the database with the option -b (`suffix`), with this
    directory, or with the suffix in the file; otherwise the only database. If a file in a configured directory has
    another suffix, the check reports this as damage."""
    directory = path if path.is_dir() else path.parent
    matches = [database for database in config.mdb_databases if files.same(database.directory, directory)]
    database = config.database(suffix) if suffix is not None else next(iter(matches), None)
    if database in matches:
        return database
    suffixes: tuple[str, ...] = ()
    with suppress(MdbDamaged):  # the core reports all damage
        suffixes = contents.summarise(path, newest=False).suffixes
    return config.database_of(suffixes, "the file", suffix)


def _level(path: Path, has_config: bool) -> str:
    """Returns the most thorough level that takes only minutes."""
    used = 0
    with suppress(MdbDamaged):
        used = meta.read_meta(path).used
    levels = [*_UP_TO][0 if has_config else 1 :]
    return next((level for level in levels if used <= _UP_TO[level]), LADDER[0])


def core_database_of(config: Config, database: Database, path: Path) -> mdb.Database:
    """Returns the configured database for a check of its indexes by the core. Raises IndexesUnknown."""
    try:
        return mdb.Database(core_target_of(config, database, path))
    except NotProven as error:
        raise IndexesUnknown(reason=error.facts["reason"]) from error


def core_target_of(config: Config, database: Database, path: Path) -> mdb.Target:
    """Returns the configured database in the form that the Rust core takes. Raises ConfigUnreadable, SettingRefused, or
    NotProven if the core cannot compute the index keys of the database."""
    from loader.operations.build import native

    spec = target_spec(config, database, path)
    native.require_keys(spec.settings)
    return spec


def target_spec(config: Config, database: Database, path: Path) -> mdb.Target:
    """Like `core_target_of`, but accepts indexes whose keys the core cannot compute. Raises ConfigUnreadable,
    SettingRefused, or NotProven for settings that no slapd up to 2.7 has."""
    of_2_7 = False  # only slapd 2.7 opens format 3
    with suppress(MdbDamaged):
        of_2_7 = meta.read_meta(path).format == 3
    backmdb.require_supported(config, database)
    return mdb.Target(
        backmdb.settings(config, database, of_2_7=of_2_7),
        tuple(definitions_of(config)),
        backmdb.schema_effects(config, database),
        _TABLES,
        database.maxsize,
        config.server_id or 0,
    )
