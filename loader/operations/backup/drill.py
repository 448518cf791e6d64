"""A drill: a backup is restored into a scratch directory, a real slapd is started on it and searched.

It says how long a restore takes, and whether what comes back is what was backed up. Nothing of this host's slapd is
touched: the drill's own listens on a socket that only its account can reach, has one database, and no syncrepl.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loader import csn, units
from loader.age import Identities
from loader.config import Config, Database
from loader.errors import (
    BackupDamaged,
    ConnectionLost,
    LoaderError,
    MdbDamaged,
    NoSuchBase,
    ServerDown,
    ToolFailed,
    UsageProblem,
)
from loader.mdb import meta
from loader.mdb.contents import indexes, summarise
from loader.operations.backup import configured, encryption, records, repository
from loader.operations.backup.contents import Contents
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Drill
from loader.operations.backup.repository import Bring, Which, there
from loader.operations.target import require_readable_format
from loader.progress import Meter, Progress
from loader.run.killpoint import killpoint
from loader.server import account, configuration, private, private_slapd
from loader.server.session import Session
from loader.storage import files, temporary
from loader.storage.files import Owner

_SETTINGS = {
    "olcSizeLimit": [b"unlimited"],
    "olcTimeLimit": [b"unlimited"],
    "olcReadOnly": [b"TRUE"],
}
_UUID = "entryUUID"


@dataclass(frozen=True)
class DrillOptions:
    """config_path: for backups without a configuration. scratch: where it is restored. user:
    the account that slapd runs as; None takes the one of the database on this host, or nobody's. identities: files of
    keys."""

    repo: Path
    which: Which
    suffix: str | None = None
    config_path: Path | None = None
    scratch: Path | None = None
    user: str | None = None
    lookups: int = 200
    identities: tuple[Path, ...] = ()


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


def drill(options: DrillOptions, progress: Progress, bring: Bring = there) -> list[Drill]:
    """What came out, written down beside each backup: of one, or of a set if no suffix and no ID names one. Raises
    LoaderError where it could not be tried."""
    with files.explained(options.repo):
        chosen = repository.chosen(options.repo, options.which, options.suffix)
        return [_drill(options, one, progress, bring) for one in chosen]


def _drill(options: DrillOptions, backup: Backup, progress: Progress, bring: Bring) -> Drill:
    identities = encryption.unlocked(options.repo, backup, options.identities)
    problem = repository.problem(options.repo, backup, None, repository.is_named(options.which))
    if problem is not None:
        return records.keep(options.repo, _record(backup, problem=str(problem)))
    try:
        bring(backup)
        made = _tried(options, backup, identities, progress)
    except BackupDamaged as error:
        made = _record(backup, problem=str(error))
    return records.keep(options.repo, made)


def _tried(
    options: DrillOptions, backup: Backup, identities: Identities | None, progress: Progress
) -> Drill:
    found = configured.of(options.repo, backup, options.config_path, identities)
    database = found.database(backup.suffix)
    owner = _owner(options, database)
    if not backup.is_ldif:
        require_readable_format(options.repo / backup.id / backup.file, backup.lmdb_format)
    top = options.scratch or Path(configuration.tools_tmpdir() or "/tmp")
    files.require_space(top, backup.room)
    with temporary.directory("drill", top) as place, files.explained(top):
        try:
            return _drilled(options, backup, identities, found, database, owner, place, progress)
        except (MdbDamaged, ToolFailed, ServerDown, ConnectionLost) as error:
            return _record(backup, problem=str(error))


def _drilled(
    options: DrillOptions,
    backup: Backup,
    identities: Identities | None,
    found: Config,
    database: Database,
    owner: Owner | None,
    place: Path,
    progress: Progress,
) -> Drill:
    data = place / "data"
    data.mkdir(mode=0o700)
    contents = Contents(options.repo, backup, identities, options.config_path)
    seconds = contents.put(data / meta.DATA, progress, "restore")
    files.make_durable(data / meta.DATA)
    killpoint("drill.restored")
    restored = _Restored(place, backup, found, database, seconds)
    stored = summarise(data, backup.suffix, newest=False)
    is_indexed = _UUID in indexes(data)
    settings = {**_SETTINGS, "olcDbDirectory": [bytes(data)]}
    with private.configured(found, database, place, settings) as home:
        account.change_owner(owner, place)
        _require_reached(owner, home)
        started = time.monotonic()
        with private_slapd.running(home, owner, configuration.tools_tmpdir()) as session:
            came_up = time.monotonic() - started
            killpoint("drill.started")
            with progress.step("search", backup.entries) as meter:
                return _searched(
                    options, restored, session, meter, came_up, is_indexed, stored.context_csns
                )


def _searched(
    options: DrillOptions,
    restored: _Restored,
    session: Session,
    meter: Meter,
    came_up: float,
    is_indexed: bool,
    stored: tuple[str, ...],
) -> Drill:
    backup, count, sample = restored.backup, 0, _Sample(options.lookups)
    for name in _names(session, restored.database):
        count += 1
        sample.offer(name)
        meter.add(1)
    problems = list(_lookups(session, backup.suffix, sample.chosen, is_indexed))
    if count != backup.entries:
        shown, wanted = units.number(count), units.number(backup.entries)
        problems.append(f"slapd shows {shown} entries, the manifest says {wanted}")
    # Without an entry of the suffix, as in a database that nothing was loaded into, there is none to ask.
    csns = (tuple(session.shown_csns(backup.suffix)) if count else ()) or stored
    if lost := _lost(backup.context_csns, csns):
        problems.append(f"contextCSN {lost} of the manifest is not there")
    return _record(
        backup,
        restore_seconds=round(restored.seconds, 3),
        start_seconds=round(came_up, 3),
        search_seconds=round(meter.seconds, 3),
        entries=count,
        lookups=len(sample.chosen),
        context_csns=csns,
        problem="; ".join(problems[:3]),
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
    return account.of_directories_or(options.user, directories)


def _require_reached(owner: Owner | None, home: Path) -> None:
    if owner is not None and not account.may_read(owner, [home]):
        reason = f"slapd runs as uid {owner.uid} for the drill, which cannot reach the directory of --tmp"
        raise UsageProblem(reason=f"{reason}: give another, or --run-as")


def _record(backup: Backup, problem: str, **facts: object) -> Drill:
    nothing = {
        "restore_seconds": 0.0,
        "start_seconds": 0.0,
        "search_seconds": 0.0,
        "entries": 0,
        "lookups": 0,
        "context_csns": (),
    }
    return Drill(
        backup=backup.id,
        made=repository.now().isoformat(),
        host=records.host(),
        problem=problem,
        **{**nothing, **facts},  # type: ignore[arg-type]
    )
