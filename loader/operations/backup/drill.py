"""A drill: a backup is restored into a scratch directory, a real slapd is started on it and searched.

It says how long a restore takes, and whether what comes back is what was backed up. Nothing of this host's slapd is
touched: the drill's own listens on a socket that only its account can reach, has one database, and no syncrepl.

An extract writes entries of a backup as LDIF that ldapadd takes: a subtree, or what a filter matches.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from loader import csn, ldif, overlays, resources, schema, standard, units
from loader.child import Child
from loader.common_options import OptionalConfig, Scratch, Suffix
from loader.config import Config, Database
from loader.errors import (
    BackupDamaged,
    ConnectionLost,
    LoaderError,
    MdbDamaged,
    NoEntry,
    NoSuchBase,
    ServerDown,
    ToolFailed,
    UsageProblem,
)
from loader.mdb import meta
from loader.mdb.contents import indexes, summarise
from loader.operations.add import PROTECTED
from loader.operations.backup import records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Drill
from loader.operations.backup.repository import LATEST, IdentityFiles, RepoOption, Repository, Which
from loader.operations.backup.restore import Contents
from loader.operations.publish import require_readable_format
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.server import configuration, private, tools
from loader.server.session import Session
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files, temporary
from loader.storage.files import Owner

log = logging.getLogger(__name__)
_SETTINGS = {"olcSizeLimit": [b"unlimited"], "olcTimeLimit": [b"unlimited"], "olcReadOnly": [b"TRUE"]}
_UUID = "entryUUID"


@dataclass(frozen=True)
class DrillOptions:
    """config_path: for backups without a configuration. scratch: where it is restored. user:
    the account that slapd runs as; None takes the one of the database on this host, or nobody's. identities: files of
    keys."""

    repo: RepoOption
    which: Which = LATEST
    suffix: Suffix = None
    config_path: OptionalConfig = None
    scratch: Annotated[Scratch, "Directory in which the backup is restored for the drill (default: /tmp)."] = None
    user: Annotated[
        str | None,
        "--run-as NAME",
        "Account that slapd runs as (default: that of the database on this host, or nobody).",
    ] = None
    lookups: int = 200
    identities: IdentityFiles = ()


@dataclass(frozen=True)
class _Restored:
    """Of one drill. seconds: that the unpacking took."""

    place: Path
    backup: Backup
    config: Config
    database: Database
    seconds: float

    @property
    def data(self) -> Path:
        return self.place / "data"


def drill(options: DrillOptions, progress: Progress) -> list[Drill]:
    """What came out, written down beside each backup: of one, or of a set if no suffix and no ID names one. Raises
    LoaderError where it could not be tried."""
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        chosen = repository.chosen(repo, options.which, options.suffix)
        return [records.keep(repo, _drill(options, repo, one, progress)) for one in chosen]


def _drill(options: DrillOptions, repo: Repository, backup: Backup, progress: Progress) -> Drill:
    contents = Contents.of(repo.path, backup, options.identities, options.config_path)
    alone = repository.is_named(options.which)
    problem: LoaderError | None = repository.problem(repo, backup, False, alone)
    if problem is None:
        try:
            repo.bring(backup)
            return _tried(options, contents, progress)
        except BackupDamaged as error:
            problem = error
    return _record(backup, problem=str(problem))


def _tried(options: DrillOptions, contents: Contents, progress: Progress) -> Drill:
    found, backup = contents.config(), contents.backup
    database = found.database(backup.suffix)
    owner = _owner(options, database)
    if not backup.is_ldif:
        require_readable_format(contents.directory / backup.file, backup.lmdb_format)
    top = options.scratch or Path(configuration.tools_tmpdir() or "/tmp")
    files.require_space(top, backup.room)
    with temporary.directory("drill", top) as place, files.explained(top):
        data = place / "data"
        data.mkdir(mode=0o700)
        try:
            seconds = contents.put(data / meta.DATA, progress, "restore")
            files.make_durable(data / meta.DATA)
            killpoint("drill.restored")
            restored = _Restored(place, backup, found, database, seconds)
            return _started(options, restored, owner, progress)
        except (MdbDamaged, ToolFailed, ServerDown, ConnectionLost) as error:
            return _record(backup, problem=str(error))


def _started(options: DrillOptions, restored: _Restored, owner: Owner | None, progress: Progress) -> Drill:
    data, backup, place = restored.data, restored.backup, restored.place
    csns = tuple(summarise(data, backup.suffix, newest=False).context_csns)
    is_indexed = _UUID in indexes(data)
    settings = {**_SETTINGS, "olcDbDirectory": [bytes(data)]}
    with private.configured(restored.config, restored.database, place, settings) as home:
        tools.change_owner(owner, place)
        _require_reached(owner, home)
        started = time.monotonic()
        with private.running(home, owner, configuration.tools_tmpdir()) as session:
            came_up = time.monotonic() - started
            killpoint("drill.started")
            with progress.step("search", backup.entries) as meter:
                found = _searched(options, restored, session, meter, is_indexed)
    # Without an entry of the suffix, as in a database that nothing was loaded into, there is none to ask.
    csns = found.context_csns or csns
    problems = [found.problem] * bool(found.problem)
    if lost := _lost(backup.context_csns, csns):
        problems.append(f"contextCSN {lost} of the manifest is not there")
    return dataclasses.replace(found, start_seconds=round(came_up, 3), context_csns=csns, problem="; ".join(problems))


def _searched(options: DrillOptions, restored: _Restored, session: Session, meter: Meter, is_indexed: bool) -> Drill:
    backup, count, sample = restored.backup, 0, _Sample(options.lookups)
    for name in _names(session, restored.database):
        count += 1
        sample.offer(name)
        meter.add(1)
    problems = list(_lookups(session, backup.suffix, sample.chosen, is_indexed))
    if count != backup.entries:
        shown, wanted = units.number(count), units.number(backup.entries)
        problems.append(f"slapd shows {shown} entries, the manifest says {wanted}")
    return dataclasses.replace(
        _record(backup, "; ".join(problems[:3])),
        restore_seconds=round(restored.seconds, 3),
        search_seconds=round(meter.seconds, 3),
        entries=count,
        lookups=len(sample.chosen),
        context_csns=tuple(session.shown_csns(backup.suffix)) if count else (),
    )


def _names(session: Session, database: Database) -> Iterator[str]:
    for suffix in database.suffixes:
        with suppress(NoSuchBase):
            yield from session.each_name(suffix)
            if session.offers_subentries(suffix):
                yield from session.each_name(suffix, subentries=True)


def _lookups(session: Session, suffix: str, chosen: list[str], is_indexed: bool) -> Iterator[str]:
    """What is wrong with entries that are looked up by their names, and by an index."""
    for name in chosen:
        try:
            found = session.read(name, [_UUID])
            value = next(iter(found.get(_UUID.lower(), [])), b"").decode()
            if not is_indexed or not value:
                continue
            same = session.find(suffix, f"({_UUID}={value})")
            if [one for one, _ in same] != [name]:
                yield f"the index of entryUUID does not lead to {name}"
        except LoaderError as error:
            yield f"{name} cannot be read: {error}"


class _Sample:
    """So many of all that are offered, each as likely as the others (reservoir sampling)."""

    def __init__(self, size: int) -> None:
        self.chosen: list[str] = []
        self._size, self._seen, self._chance = size, 0, random.Random()

    def offer(self, one: str) -> None:
        self._seen += 1
        if len(self.chosen) < self._size:
            self.chosen.append(one)
        elif (place := self._chance.randrange(self._seen)) < self._size:
            self.chosen[place] = one


def _lost(wanted: tuple[str, ...], found: tuple[str, ...]) -> str:
    """A CSN that is not covered: what was stored when the manifest was made may only have become newer."""
    there = csn.by_server(found)
    missing = (one for number, one in csn.by_server(wanted).items() if there.get(number, "") < one)
    return next(missing, "")


def _owner(options: DrillOptions, database: Database) -> Owner | None:
    """Never root: the account of the database on this host, and where there is none, nobody."""
    directories = [database.directory] if database.directory else []
    return tools.of_directories_or(options.user, directories)


def _require_reached(owner: Owner | None, home: Path) -> None:
    if owner is not None and not tools.may_read(owner, [home]):
        reason = f"slapd runs as uid {owner.uid} for the drill, which cannot reach the directory of --tmp"
        raise UsageProblem(reason=f"{reason}: give another, or --run-as")


def _record(backup: Backup, problem: str) -> Drill:
    made = repository.now().isoformat()
    return Drill(backup=backup.id, made=made, host=records.host(), problem=problem)


# --- extract ----------------------------------------------------------------------------------------

# Of slapo-ppolicy and slapo-lastbind: NO-USER-MODIFICATION.
_OF_OVERLAYS = (
    *("pwdchangedtime", "pwdaccountlockedtime", "pwdfailuretime", "pwdhistory", "pwdgraceusetime"),
    *("pwdlastsuccess", "pwdaccounttmplockoutend", "authtimestamp"),
)


@dataclass(frozen=True)
class ExtractOptions:
    """`dn`: with all below it. `where`: an LDAP filter; one of the two.
    config_path: for a filter and a backup without a configuration. identities: files of keys."""

    repo: RepoOption
    which: Which = LATEST
    suffix: Suffix = None
    dn: Annotated[str | None, "--dn DN", "The entry DN, and all entries below it."] = None
    where: Annotated[str | None, "--filter FILTER", "The entries that an LDAP filter matches."] = None
    keep_operational: Annotated[
        bool, "Write entryUUID, creatorsName, createTimestamp ... as well: for slapadd, or ldapadd -e relax."
    ] = False
    config_path: OptionalConfig = None
    scratch: Annotated[Scratch, "Directory in which the backup is unpacked (default: $TMPDIR or /tmp)."] = None
    identities: IdentityFiles = ()


def extract(options: ExtractOptions, progress: Progress) -> int:
    """Write them to standard output; how many. Raises NoEntry, NoSuchBackup, BackupDamaged."""
    if (options.dn is None) == (options.where is None):
        raise UsageProblem(reason="say which entries: --dn DN, or --filter FILTER")
    descriptor, repo = standard.output("LDIF", readable=True), repository.of(options.repo)
    with files.explained(repo.path):
        backup = repository.find(repo, options.which, options.suffix)
        contents = Contents.of(repo.path, backup, options.identities, options.config_path)
        repo.bring(backup)
    top = options.scratch or Path(configuration.tools_tmpdir() or tempfile.gettempdir())
    files.require_space(top, backup.room)
    with temporary.directory("extract", top) as place, files.explained(top):
        data = place / "data"
        data.mkdir(mode=0o700)
        contents.put(data / meta.DATA, progress)
        with tempfile.TemporaryFile(dir=top) as made:
            with progress.step("extract") as meter, _entries(options, contents, place, meter) as source:
                target = Path(f"/proc/self/fd/{made.fileno()}")
                # The meter counts entries where they are read; this is one more pass over the same.
                left_out = [] if options.keep_operational else _left_out(contents)
                found = ldif.shard(source, target, left_out, Meter("copy"), backup.id)
            if not found.entries:
                raise _missing(options, contents)
            made.seek(0)
            with os.fdopen(descriptor, "wb", closefd=False) as out:
                shutil.copyfileobj(made, out)
    return found.entries


def _missing(options: ExtractOptions, contents: Contents) -> NoEntry:
    """In words of the repository: where the backup was unpacked is gone by then."""
    return NoEntry(path=contents.directory, dn=options.where or options.dn)


def _left_out(contents: Contents) -> list[str]:
    """What a server takes from no client: also what the schema of the configuration and of the modules that it loads
    says, such as memberOf of slapo-memberof. Without either, the entries are of use as well."""
    names = {*PROTECTED, *_OF_OVERLAYS, *map(str.lower, overlays.COMPUTED)}
    if contents.config_path is not None or contents.backup.with_config:
        try:
            found = contents.config()
            definitions = schema.definitions(found, configuration.of_modules(found))
            names.update(schema.protected(definitions))
        except LoaderError as error:
            log.warning("not known which attributes of modules no client may set: %s", error)
    return sorted(names)


@contextmanager
def _entries(options: ExtractOptions, contents: Contents, place: Path, meter: Meter) -> Iterator[int]:
    """A descriptor that gives the LDIF."""
    if options.where is not None:
        with _filtered(options.where, contents, place, meter) as source:
            yield source
        return
    with tempfile.TemporaryFile(dir=place) as file:
        part = Part(place / "data", options.dn)
        try:
            mdb.stream(part, file.fileno(), False, resources.processors(), meter)
        except NoEntry as error:
            raise _missing(options, contents) from error
        file.seek(0)
        yield file.fileno()


@contextmanager
def _filtered(where: str, contents: Contents, place: Path, meter: Meter) -> Iterator[int]:
    """slapcat knows every filter that slapd does; of -s it dies in 2.5.13, so the whole tree is searched. It writes
    entries in the order of their IDs, so after a rename to a newer parent a child comes before that."""
    found, suffix = contents.config(), contents.backup.suffix
    database = found.database(suffix)
    owner = tools.of_directories([database.directory] if database.directory else [])
    settings = {"olcDbDirectory": [bytes(place / "data")]}
    words = ["-o", "ldif-wrap=no", "-b", suffix, "-a", where]
    with private.configured(found, database, place, settings) as home:
        tools.change_owner(owner, place)
        owned = owner or Owner(0, 0)
        command = tools.server_tool_as(owned.uid, owned.gid, "slapcat", "-F", str(home), *words)
        top = place.parent
        with tempfile.TemporaryFile(dir=top) as told, tempfile.TemporaryFile(dir=top) as file:
            with Child(command, stdout=told) as child:
                child.check()
            told.seek(0)
            target = Path(f"/proc/self/fd/{file.fileno()}")
            ldif.parents_first(told.fileno(), target, top, meter, contents.backup.id)
            yield file.fileno()
