"""Verifies, drills and extracts backups.

A drill restores a backup into a temporary directory, starts a slapd on it, and searches it. It measures the duration of
the restore, and checks that the restored database is the one that was backed up. The slapd of this host is not touched.
The slapd of the drill listens on a socket that only its account can reach, and has one database and no syncrepl. With
--replay, the accesslog is replayed before slapd starts, and a second slapd follows the first as a consumer.

An extract writes entries of a backup (a subtree, or the matches of a filter) as LDIF for ldapadd. Or it writes LDIF for
ldapmodify, which brings a server's entries back to those of the backup.
"""

from __future__ import annotations

import datetime
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import structs

from loader import backmdb, csn, defaults, dn, ldif, overlays, standard, units
from loader.child import Child
from loader.config import Config, Database
from loader.errors import (
    BackupDamaged,
    ConnectionLost,
    LoaderError,
    LogIncomplete,
    LogUnsuitable,
    MdbDamaged,
    NoEntry,
    NoSuchBase,
    NoSuchPath,
    NotPermitted,
    ServerDown,
    ToolFailed,
    UsageProblem,
)
from loader.mdb import copy, meta
from loader.mdb.contents import indexes, summarise
from loader.operations.backup import changes, pack, replay, repository
from loader.operations.backup.changes import Changes
from loader.operations.backup.manifest import Backup, Drill, Replayed, Verification
from loader.operations.backup.options import END, EVERY, DrillOptions, ExtractOptions, RestoreOptions, VerifyOptions
from loader.operations.backup.pack import Compared
from loader.operations.backup.replay import Origin
from loader.operations.backup.repository import Repository
from loader.operations.backup.restore import Contents, replay_log
from loader.operations.publish import require_readable_format
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.server import configuration, private, tools
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files, held, holders
from loader.storage.files import Owner

log = logging.getLogger(__name__)
_SETTINGS = {"olcSizeLimit": [b"unlimited"], "olcTimeLimit": [b"unlimited"], "olcReadOnly": [b"TRUE"]}
_UUID = "entryUUID"
_PAGE = 1000  # entries per page of a search for all DNs
_LOOKUPS = 200  # maximum number of entries that a drill looks up
_PATIENCE = 300.0  # seconds to wait for a change to reach the consumer


def verify(options: VerifyOptions, progress: Progress) -> list[Verification]:
    """Compares the stored files with their checksums. Stores and returns a record for each backup. For "all", also
    returns one for each unreadable manifest. Raises NoSuchBackup, or ManifestBroken for a named backup."""
    repo, compared, chance = repository.of(options.repo), Compared(), random.Random()

    def is_chosen(number: int) -> bool:
        return number == 0 or chance.random() < options.sample

    def verified(backup: Backup) -> Verification:
        problem, read = "", 0
        try:
            repo.bring(backup.stored())
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


def drill(options: DrillOptions, progress: Progress) -> list[Drill]:
    """Drills a backup or, if neither a suffix nor an ID is given, all backups of its set. Stores and returns the
    records. Raises LoaderError if a drill could not be started."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        records = list[Drill]()
        for backup in repository.chosen(repo, options.which, options.suffix):
            contents = Contents.of(repo.path, backup, options.identities, options.config_path)
            problem = repository.problem(repo, backup, False, repository.is_id(options.which))
            if problem is None:
                try:
                    repo.bring(backup.stored())
                    record = _drilled(options, repo, contents, progress)
                except BackupDamaged as error:
                    problem = error
            if problem is not None:
                record = Drill(backup=backup.id, problem=str(problem))
            records.append(repository.keep(repo, record))
        return records


def _drilled(options: DrillOptions, repo: Repository, contents: Contents, progress: Progress) -> Drill:
    config, backup, replayed = contents.config(), contents.backup, None
    database = config.database(backup.suffix)
    owner = tools.slapd_account(options.user, [database.directory] if database.directory else [])
    if not backup.is_ldif:
        require_readable_format(contents.file, backup.lmdb_format)
    if options.replay:
        replay.require_changeable(contents.file, backup)
    top = options.scratch or Path(configuration.tools_tmpdir() or "/tmp")
    room = backup.room + backup.data_bytes * options.replay
    with _scratch("drill", top, room) as directory, ExitStack() as stack:
        data = directory / "data"
        try:
            seconds = contents.put(data / meta.DATA, progress, "restore")
            files.make_durable(data / meta.DATA)
            killpoint("drill.restored")
            if options.replay and dn.key(database.suffix) not in {dn.key(suffix) for _, suffix, _ in config.logs}:
                replayed = _replayed(options, repo, Origin(backup, config, database), data, progress)
            summary, is_indexed = summarise(data, backup.suffix, newest=False), _UUID in indexes(data)
            csns, entries = summary.context_csns, summary.entries if replayed else backup.entries
            settings = {**_SETTINGS, "olcDbDirectory": [bytes(data)]}
            provides = replayed is not None and not replayed.problem and "syncprov" in database.overlays
            if provides:  # a second directory: root gives `directory` to the account of the first slapd
                consumer_directory = stack.enter_context(files.temporary_directory("drill", top))
                settings |= {"olcReadOnly": [b"FALSE"], "olcAccess": [b"{0}to * by * write"]}
                with progress.step("copy") as meter:
                    copied = copy.hot_copy(data, consumer_directory, meter, copy.CopyMode(reflink="try"))
                files.publish(copied.path, consumer_directory / meta.DATA)
            with private.configured(config, database, directory, settings, provides=provides) as config_dir:
                tools.change_owner(owner, directory)
                if owner is not None and not tools.may_read(owner, [config_dir]):
                    reason = f"the drill runs slapd as uid {owner.uid}, which cannot enter the directory of --tmp"
                    raise UsageProblem(reason=f"{reason}: give another directory, or --run-as")
                with private.running(config_dir, owner, configuration.tools_tmpdir()) as session:
                    killpoint("drill.started")
                    with progress.step("search", backup.entries) as meter:
                        result = _searched(session, backup, database, (entries, is_indexed), meter)
                    if provides and replayed is not None:
                        with progress.step("consumer"):
                            try:
                                problem = _followed(session, config, database, consumer_directory, owner, entries)
                            except LoaderError as error:
                                problem = f"no consumer can follow it: {error}"
                        replayed = structs.replace(replayed, problem=problem, has_consumer=not problem)
        except (MdbDamaged, ToolFailed, ServerDown, ConnectionLost) as error:
            return Drill(backup=backup.id, problem=str(error), replay=replayed)
    # If the database has no suffix entry, slapd returns no contextCSN.
    csns = result.context_csns or tuple(csns)
    newest, manifest_csns = csn.by_server(csns), csn.by_server(backup.context_csns)
    lost_csn = next((value for server, value in manifest_csns.items() if newest.get(server, "") < value), "")
    problems = [result.problem, f"contextCSN {lost_csn} of the manifest is missing" if lost_csn else ""]
    problem, seconds = "; ".join(filter(None, problems)), round(seconds, 3)
    return structs.replace(result, restore_seconds=seconds, context_csns=csns, problem=problem, replay=replayed)


def _replayed(options: DrillOptions, repo: Repository, origin: Origin, data: Path, progress: Progress) -> Replayed:
    """Replays the whole log on the restored database. If the log is refused, the database stays unchanged."""
    # The time and the live CSNs are read first, so that changes made during the drill do not count as lost.
    now = datetime.datetime.now(datetime.timezone.utc)
    live, live_csns = _live_csns(options, origin.config, origin.database)
    csns, operations, problem = origin.backup.newest_csns, 0, ""
    restoring = RestoreOptions(repo, until=END, log=options.log, identities=options.identities)
    try:
        replay.require_replayable(origin.config, origin.database)
        done = replay_log(restoring, repo, origin, data, progress)
        csns, operations = (*csns, *done.context_csns, done.last), done.operations
    except (LogIncomplete, LogUnsuitable) as error:
        problem = f"{error}. {error.facts['advice']}"
    newest = csn.by_server(csns)
    seconds = _lost(newest, live_csns if live else {"": f"{now:%Y%m%d%H%M%S.%fZ}"})
    return Replayed(operations, tuple(sorted(newest.values())), seconds, live, problem=problem)


def _live_csns(options: DrillOptions, config: Config, database: Database) -> tuple[str, dict[str, str]]:
    """Returns the URI or database directory of the live server ("" if there is none), and its newest CSNs, also from
    the log: slapd writes contextCSN only at checkpoints, and a deletion leaves no entryCSN in the database."""
    if options.live is not None:
        with session(options.live) as server:
            return server.uri, csn.by_server(server.context_csns(database.suffix))
    try:
        if database.directory is None or holders.holder(database.directory) is None:
            return "", {}
        logs = [config.database(suffix) for suffix, _ in replay.logs_of(config, database)]
        summaries = [summarise(each.directory, each.suffix) for each in (database, *logs) if each.directory]
    except NotPermitted as error:
        log.warning("the live server is not compared: %s", error)
        return "", {}
    return str(database.directory), csn.by_server(text for summary in summaries for text in summary.newest_csns)


def _lost(reached: Mapping[str, str], live: Mapping[str, str]) -> float:
    """Returns the seconds by which `live` is ahead of `reached`: the maximum over all server IDs. A server ID that
    `reached` lacks, such as "", is compared with the newest CSN in `reached`."""
    newest, seconds = max(reached.values(), default=""), 0.0
    for server, text in live.items():
        with suppress(ValueError):  # the time in a CSN may be invalid
            seconds = max(seconds, (csn.time(text) - csn.time(reached.get(server, newest))).total_seconds())
    return seconds


def _followed(
    provider: Session, config: Config, database: Database, directory: Path, owner: Owner | None, entries: int
) -> str:
    """Starts a consumer on the copy of the database in `directory`. Changes an entry on `provider`, the slapd of the
    drill, and waits until the consumer has the change. Returns a problem, or ""."""
    suffix = database.suffix
    base = suffix.replace("\\", "\\\\").replace('"', '\\"')
    syncrepl = f'{{0}}rid=001 provider={provider.uri} searchbase="{base}" type=refreshAndPersist bindmethod=simple'
    settings = {
        **_SETTINGS,
        "olcReadOnly": [b"FALSE"],
        "olcDbDirectory": [bytes(directory)],
        "olcRootDN": [b"cn=drill"],  # slapd refuses olcSyncrepl without a rootdn
        "olcSyncrepl": [f'{syncrepl} retry="1 +"'.encode()],
    }
    with private.configured(config, database, directory, settings) as config_dir:
        tools.change_owner(owner, directory)
        with private.running(config_dir, owner, configuration.tools_tmpdir()) as consumer:
            # Replacing objectClass by the same values gives the entry a new entryCSN.
            with session(structs.replace(provider.connection, mechanism="EXTERNAL")) as writer:
                writer.replace(suffix, {"objectClass": writer.read(suffix, ["objectClass"])["objectclass"]})
            written, deadline = _csns(provider, suffix), time.monotonic() + _PATIENCE
            while _csns(consumer, suffix) != written:
                if time.monotonic() > deadline:
                    return f"a consumer did not get a change within {units.duration(_PATIENCE)}"
                time.sleep(0.05)
            count = sum(1 for _ in _names(consumer, database))
    counts = f"{units.number(count)} entries after a change, its provider has {units.number(entries)}"
    return "" if count == entries else f"a consumer has {counts}"


def _csns(session: Session, suffix: str) -> list[list[bytes]]:
    return [sorted(values) for _, values in sorted(session.read(suffix, ["contextCSN", "entryCSN"]).items())]


def _names(session: Session, database: Database) -> Iterator[str]:
    for suffix in database.suffixes:
        with suppress(NoSuchBase):
            yield from session.dns(Search(suffix, page=_PAGE))
            if session.offers_subentries(suffix):
                yield from session.dns(Search(suffix, page=_PAGE, subentries=True))


def _searched(session: Session, backup: Backup, database: Database, expected: tuple[int, bool], meter: Meter) -> Drill:
    """Counts all entries. Looks up some by DN and, if possible, by entryUUID. `expected`: number of entries, and
    whether entryUUID is indexed."""
    entries, is_indexed = expected
    count, sample, problems, chance = 0, list[str](), list[str](), random.Random()
    for count, name in enumerate(_names(session, database), 1):  # reservoir sampling: all names are equally likely
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
    if count != entries:
        source = "manifest says" if entries == backup.entries else "database has"
        problems.append(f"slapd shows {units.number(count)} entries, the {source} {units.number(entries)}")
    return Drill(
        backup=backup.id,
        problem="; ".join(problems[:3]),
        entries=count,
        lookups=len(sample),
        context_csns=tuple(session.visible_csns(backup.suffix)) if count else (),
    )


@contextmanager
def _scratch(kind: str, top: Path, room: int) -> Iterator[Path]:
    """Yields a temporary directory with a subdirectory `data`. Raises NoSpace if less than `room` bytes are free."""
    files.require_space(top, room)
    with files.temporary_directory(kind, top) as directory, files.explained(top):
        (directory / "data").mkdir(mode=0o700)
        yield directory


def extract(options: ExtractOptions, progress: Progress, running: Connection | None = None) -> int | Changes:
    """Writes the selected entries to standard output, and returns their number. With `running`, writes the changes that
    bring the entries of that server back to those of the backup. Raises NoEntry, NoSuchBackup, BackupDamaged."""
    if (options.dn is None) == (options.where is None):
        raise UsageProblem(reason="say which entries: --dn DN, or --filter FILTER")
    output, repo = standard.output("LDIF", readable=True), repository.of(options.repo)
    with files.explained(repo.path):
        backup = repository.find(repo, options.which, options.suffix)
        contents = Contents.of(repo.path, backup, options.identities, options.config_path)
        repo.bring(backup.stored())
    # The error names the backup's directory, because the directory of the unpacked database is temporary.
    missing = NoEntry(path=contents.directory, dn=options.where or options.dn)
    top = options.scratch or Path(configuration.tools_tmpdir() or tempfile.gettempdir())
    with _scratch("extract", top, backup.room) as directory, tempfile.TemporaryFile(dir=top) as extracted:
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
            # These steps need a meter of their own, because `meter` has already counted the entries.
            if running is not None:
                result = changes.write(source, extracted, running, backup.suffix, options.dn, Meter("compare"))
            else:
                config = contents.config if contents.config_path or backup.with_config else None
                dropped, copy = [] if options.keep_operational else left_out(config), held.through(extracted.fileno())
                result = ldif.shard(source.fileno(), copy, dropped, Meter("copy"), backup.id).entries
        extracted.seek(0)
        with os.fdopen(output, "wb", closefd=False) as out:
            shutil.copyfileobj(extracted, out)
    return result


def _filter(where: str, contents: Contents, directory: Path, target: int, meter: Meter) -> None:
    """Writes the matches of a filter, parents first. Uses slapcat, which supports all filters of slapd, on the whole
    tree, because slapcat 2.5.13 crashes with -s. slapcat writes in the order of the entry IDs, in which an entry that
    was moved below a newer entry precedes its parent. So its output is sorted."""
    config, suffix, top = contents.config(), contents.backup.suffix, directory.parent
    database = config.database(suffix)
    owner = tools.of_directories([database.directory] if database.directory else [])
    with private.configured(config, database, directory, {"olcDbDirectory": [bytes(directory / "data")]}) as config_dir:
        tools.change_owner(owner, directory)
        options = ("-o", "ldif-wrap=no", "-b", suffix, "-a", where)
        command = tools.server_tool_as(owner, "slapcat", "-F", str(config_dir), *options)
        with tempfile.TemporaryFile(dir=top) as matches:
            with Child(command, stdout=matches) as child:
                child.check()
            matches.seek(0)
            ldif.parents_first(matches.fileno(), held.through(target), top, meter, contents.backup.id)


def left_out(read_config: Callable[[], Config] | None) -> list[str]:
    """Returns the attributes that clients may not write, including those of configured modules, such as memberOf of
    slapo-memberof. If the configuration cannot be read, includes those of well-known modules."""
    names = {*overlays.PROTECTED, *map(str.lower, overlays.COMPUTED)}
    if read_config is not None:
        try:
            config = read_config()
            names.update(backmdb.protected(backmdb.definitions(config, configuration.of_modules(config))))
        except LoaderError as error:
            log.warning("attributes of modules are written even if clients may not set them: %s", error)
    return sorted(names)
