"""Verifies, drills and extracts backups.

A drill restores a backup into a temporary directory, starts a slapd on it, and searches it. It measures how long a
restore takes, and checks that the restored database is the one that was backed up. This host's slapd is not touched.
The drill's slapd listens on a socket that only its account can reach. It has one database and no syncrepl. An extract
writes entries of a backup (a subtree, or the matches of a filter) as LDIF for ldapadd, or the changes that bring a
server's entries back to these as LDIF for ldapmodify.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import structs

from loader import backmdb, csn, defaults, ldif, overlays, standard, units
from loader.child import Child
from loader.config import Config, Database
from loader.errors import (
    BackupDamaged,
    ConnectionLost,
    LoaderError,
    MdbDamaged,
    NoEntry,
    NoSuchBase,
    NoSuchPath,
    ServerDown,
    ToolFailed,
    UsageProblem,
)
from loader.mdb import meta
from loader.mdb.contents import indexes, summarise
from loader.operations.backup import changes, pack, repository
from loader.operations.backup.changes import Changes
from loader.operations.backup.manifest import Backup, Drill, Verification
from loader.operations.backup.options import EVERY, DrillOptions, ExtractOptions, VerifyOptions
from loader.operations.backup.pack import Compared
from loader.operations.backup.restore import Contents
from loader.operations.publish import require_readable_format
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.server import configuration, private, tools
from loader.server.options import Connection, Search
from loader.server.session import Session
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files, held

log = logging.getLogger(__name__)
_SETTINGS = {"olcSizeLimit": [b"unlimited"], "olcTimeLimit": [b"unlimited"], "olcReadOnly": [b"TRUE"]}
_UUID = "entryUUID"
_PAGE = 1000  # entries per page of a search for all DNs
_LOOKUPS = 200  # entries that a drill looks up


# --- verify ---------------------------------------------------------------------------------------


def verify(options: VerifyOptions, progress: Progress) -> list[Verification]:
    """Compares the stored files with their checksums. Returns the records, and stores them in the repository. With
    "all", an unreadable manifest yields a record, too. Else it raises ManifestBroken. Raises NoSuchBackup."""
    repo, compared, chance = repository.of(options.repo), Compared(), random.Random()

    def is_chosen(number: int) -> bool:
        return number == 0 or chance.random() < options.sample

    def verified(backup: Backup) -> Verification:
        problem, read = "", 0
        try:
            repo.bring(backup)
            repo.require_whole(backup, read=False)
            with progress.step(f"verify {backup.id}") as meter:
                read = pack.verify(repo.path, backup, is_chosen, compared, meter)
        except (BackupDamaged, NoSuchPath) as error:
            problem = str(error)
        record = Verification(backup=backup.id, problem=problem, read=read, stored=backup.needed_bytes)
        return repository.keep(repo, record)

    with files.explained(repo.path):
        if EVERY in options.names:
            listing = repository.listing(repo, options.suffix)
            backups, broken = listing.every, listing.broken
        else:
            backups, broken = tuple(repository.find(repo, name, options.suffix) for name in options.names), ()
        unreadable = (Verification(backup=repository.name_of(error), problem=str(error)) for error in broken)
        return [*map(verified, backups), *unreadable]


# --- drill ----------------------------------------------------------------------------------------


def drill(options: DrillOptions, progress: Progress) -> list[Drill]:
    """Drills a backup. If neither a suffix nor an ID is given, drills every backup of the set. Stores and returns the
    records. Raises LoaderError if a drill could not be tried."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        records = list[Drill]()
        for backup in repository.chosen(repo, options.which, options.suffix):
            contents = Contents.of(repo.path, backup, options.identities, options.config_path)
            problem = repository.problem(repo, backup, False, repository.is_id(options.which))
            if problem is None:
                try:
                    repo.bring(backup)
                    record = _drilled(options, contents, progress)
                except BackupDamaged as error:
                    problem = error
            if problem is not None:
                record = Drill(backup=backup.id, problem=str(problem))
            records.append(repository.keep(repo, record))
        return records


def _drilled(options: DrillOptions, contents: Contents, progress: Progress) -> Drill:
    config, backup = contents.config(), contents.backup
    database = config.database(backup.suffix)
    # The account is never root.
    owner = tools.slapd_account(options.user, [database.directory] if database.directory else [])
    if not backup.is_ldif:
        require_readable_format(contents.file, backup.lmdb_format)
    top = options.scratch or Path(configuration.tools_tmpdir() or "/tmp")
    with _scratch("drill", top, backup) as directory:
        data = directory / "data"
        try:
            seconds = contents.put(data / meta.DATA, progress, "restore")
            files.make_durable(data / meta.DATA)
            killpoint("drill.restored")
            csns, is_indexed = summarise(data, backup.suffix, newest=False).context_csns, _UUID in indexes(data)
            settings = {**_SETTINGS, "olcDbDirectory": [bytes(data)]}
            with private.configured(config, database, directory, settings) as config_dir:
                tools.change_owner(owner, directory)
                if owner is not None and not tools.may_read(owner, [config_dir]):
                    reason = f"the drill runs slapd as uid {owner.uid}, which cannot enter the directory of --tmp"
                    raise UsageProblem(reason=f"{reason}: give another directory, or --run-as")
                with private.running(config_dir, owner, configuration.tools_tmpdir()) as session:
                    killpoint("drill.started")
                    with progress.step("search", backup.entries) as meter:
                        result = _searched(session, backup, database, is_indexed, meter)
        except (MdbDamaged, ToolFailed, ServerDown, ConnectionLost) as error:
            return Drill(backup=backup.id, problem=str(error))
    # slapd shows no contextCSN if the database has no suffix entry.
    csns = result.context_csns or tuple(csns)
    newest, manifest_csns = csn.by_server(csns), csn.by_server(backup.context_csns)
    lost_csn = next((value for server, value in manifest_csns.items() if newest.get(server, "") < value), "")
    problems = [result.problem, f"contextCSN {lost_csn} of the manifest is missing" if lost_csn else ""]
    return structs.replace(
        result, restore_seconds=round(seconds, 3), context_csns=csns, problem="; ".join(filter(None, problems))
    )


def _searched(session: Session, backup: Backup, database: Database, is_indexed: bool, meter: Meter) -> Drill:
    """Counts all entries. Looks up some of them by DN and, if entryUUID is indexed, by entryUUID."""

    def names() -> Iterator[str]:
        for suffix in database.suffixes:
            with suppress(NoSuchBase):
                yield from session.dns(Search(suffix, page=_PAGE))
                if session.offers_subentries(suffix):
                    yield from session.dns(Search(suffix, page=_PAGE, subentries=True))

    count, sample, problems, chance = 0, list[str](), list[str](), random.Random()
    for count, name in enumerate(names(), 1):  # reservoir sampling: all names are equally likely
        if len(sample) < _LOOKUPS:
            sample.append(name)
        elif (slot := chance.randrange(count)) < _LOOKUPS:
            sample[slot] = name
        meter.add(1)
    for name in sample:
        try:
            value = next(iter(session.read(name, [_UUID]).get(_UUID.lower(), [])), b"").decode()
            if is_indexed and value:
                matches = session.find(backup.suffix, f"({_UUID}={value})")
                if [match for match, _ in matches] != [name]:
                    problems.append(f"the index of entryUUID does not lead to {name}")
        except LoaderError as error:
            problems.append(f"{name} cannot be read: {error}")
    if count != backup.entries:
        slapd_count, manifest_count = units.number(count), units.number(backup.entries)
        problems.append(f"slapd shows {slapd_count} entries, the manifest says {manifest_count}")
    return Drill(
        backup=backup.id,
        problem="; ".join(problems[:3]),
        entries=count,
        lookups=len(sample),
        context_csns=tuple(session.visible_csns(backup.suffix)) if count else (),
    )


@contextmanager
def _scratch(kind: str, top: Path, backup: Backup) -> Iterator[Path]:
    """Yields a temporary directory with a subdirectory `data` for a backup's database. Raises NoSpace."""
    files.require_space(top, backup.room)
    with files.temporary_directory(kind, top) as directory, files.explained(top):
        (directory / "data").mkdir(mode=0o700)
        yield directory


# --- extract --------------------------------------------------------------------------------------


def extract(options: ExtractOptions, progress: Progress, running: Connection | None = None) -> int | Changes:
    """Writes the entries to standard output and returns their number; with `running`, a server, writes the changes that
    bring its entries back to these. Raises NoEntry, NoSuchBackup, BackupDamaged."""
    if (options.dn is None) == (options.where is None):
        raise UsageProblem(reason="say which entries: --dn DN, or --filter FILTER")
    output, repo = standard.output("LDIF", readable=True), repository.of(options.repo)
    with files.explained(repo.path):
        backup = repository.find(repo, options.which, options.suffix)
        contents = Contents.of(repo.path, backup, options.identities, options.config_path)
        repo.bring(backup)
    # The error names the repository, because the directory of the unpacked database is temporary.
    missing = NoEntry(path=contents.directory, dn=options.where or options.dn)
    top = options.scratch or Path(configuration.tools_tmpdir() or tempfile.gettempdir())
    with _scratch("extract", top, backup) as directory, tempfile.TemporaryFile(dir=top) as extracted:
        contents.put(directory / "data" / meta.DATA, progress)
        with progress.step("extract") as meter, tempfile.TemporaryFile(dir=top) as source:
            if options.where is not None:
                _filter(options.where, contents, directory, source.fileno(), meter)
            else:
                part = Part(directory / "data", options.dn)
                try:
                    mdb.stream(part, source.fileno(), defaults.processors(), meter)
                except NoEntry as error:
                    raise missing from error
            if not source.seek(0, os.SEEK_END):
                raise missing
            source.seek(0)
            result: int | Changes
            # A second meter, because the first has already counted these entries.
            if running is not None:
                result = changes.write(source, extracted, running, backup.suffix, options.dn, Meter("compare"))
            else:
                config = contents.config if contents.has_config else None
                dropped, copy = [] if options.keep_operational else left_out(config), held.through(extracted.fileno())
                result = ldif.shard(source.fileno(), copy, dropped, Meter("copy"), backup.id).entries
        extracted.seek(0)
        with os.fdopen(output, "wb", closefd=False) as out:
            shutil.copyfileobj(extracted, out)
    return result


def _filter(where: str, contents: Contents, directory: Path, target: int, meter: Meter) -> None:
    """Writes the matches with slapcat, which supports all of slapd's filters. Searches the whole tree, because slapcat
    2.5.13 crashes with -s. slapcat writes entries in the order of their IDs. An entry that was moved below a newer
    parent thus precedes its parent, so the output is sorted."""
    config, suffix, top = contents.config(), contents.backup.suffix, directory.parent
    database = config.database(suffix)
    owner = tools.of_directories([database.directory] if database.directory else [])
    settings = {"olcDbDirectory": [bytes(directory / "data")]}
    with private.configured(config, database, directory, settings) as config_dir:
        tools.change_owner(owner, directory)
        options = ("-o", "ldif-wrap=no", "-b", suffix, "-a", where)
        command = tools.server_tool_as(owner, "slapcat", "-F", str(config_dir), *options)
        with tempfile.TemporaryFile(dir=top) as matches:
            with Child(command, stdout=matches) as child:
                child.check()
            matches.seek(0)
            ldif.parents_first(matches.fileno(), held.through(target), top, meter, contents.backup.id)


def left_out(read_config: Callable[[], Config] | None) -> list[str]:
    """Returns the attributes that clients may not write. Attributes of the configured modules are included, such as
    memberOf of slapo-memberof. If the configuration cannot be read, those of well-known modules are included."""
    names = {*overlays.PROTECTED, *map(str.lower, overlays.COMPUTED)}
    if read_config is not None:
        try:
            config = read_config()
            names.update(backmdb.protected(backmdb.definitions(config, configuration.of_modules(config))))
        except LoaderError as error:
            log.warning("attributes of modules are written even if clients may not set them: %s", error)
    return sorted(names)
