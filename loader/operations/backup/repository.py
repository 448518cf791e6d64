"""A backup repository: one directory per backup, and the packs that incremental backups share. There is no other state.

REPO/repository.json   the retention policy, which `backup init` writes. The empty mount point of an unmounted disk
                       lacks this file, so no backup is written there
REPO/20261121T070501Z-dc-example-dc-com/   one backup: manifest.json and the files that the manifest lists
REPO/pages/SHA256.pack
REPO/log/                       segments of accesslogs (segments.py)

A backup is complete once its directory has its final name. A `Repository` is a directory of this host, or is on another
host (remote.py).
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import re
import shlex
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeGuard, TypeVar

from msgspec import Struct, json
from msgspec.structs import replace

from loader import dn, plain, typed
from loader.errors import (
    BackupDamaged,
    BackupFromFuture,
    LatestBroken,
    LoaderError,
    ManifestBroken,
    NoRepository,
    NoSuchBackup,
    NoSuchPath,
    RemovalRefused,
    SetIncomplete,
    SystemFailed,
    UsageProblem,
)
from loader.operations.backup import manifest, pack
from loader.operations.backup.manifest import LOG, PAGES, Backup, Drill, Proof, Proofs, StoredFile, Verification, stamp
from loader.operations.backup.options import KEEP_ALL, LATEST, UNLIMITED, Download, Policy, Which
from loader.progress import Progress
from loader.run.log import exclusive, killpoint
from loader.storage import files, held
from loader.storage.files import PARTIAL, explained
from loader.storage.remote import Location
from loader.typed import Unfit

log = logging.getLogger(__name__)
LOCK, RUN = "lock", ".ditseed"
MARKER = "repository.json"
ID = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9-]+")
_LATE = datetime.timedelta(days=2)  # a backup that arrived this long after a later-dated one was copied or forged
_OVERLAP = 10  # number of segments that `prune` keeps from before the oldest backup
_STAMP = len("20261121T070501Z")  # length of the time at the start of an ID
_QUIET = Progress("none")
now = manifest.now


class Repository:
    """A repository in a directory of this host. File names are relative to `path`."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrived: dict[str, datetime.datetime] = {}  # backup ID -> when its manifest reached the server

    def bring(self, stored: Iterable[tuple[str, StoredFile]], only: bool = True) -> None:
        """Fetches the files that are not yet on this host. With `only`, first removes all other fetched files."""

    def keep(self, name: str) -> None:
        """Uploads a new file of `path`. Does nothing in a local repository."""

    def policy(self) -> Policy:
        """Returns the retention policy that `init` stored. Raises UsageProblem if repository.json is invalid."""
        try:
            return typed.read(self.path / MARKER, Marker, 1).policy
        except FileNotFoundError:
            return KEEP_ALL
        except Unfit as error:
            raise UsageProblem(reason=f"{plain.with_operator_paths(str(self.path / MARKER))} {error}") from error

    def require_space(self, needed: int, keep_free: int) -> None:
        files.require_space(self.path, needed + keep_free)

    def send(self, backups: Sequence[Backup]) -> None:
        """Uploads new backups, the leader of a set last. Does nothing in a local repository."""

    @contextmanager
    def changing(self) -> Iterator[Repository]:
        """Keeps the repository open and locked. Raises Locked, or SystemFailed if it was unmounted or moved."""
        with held.opened(self.path) as directory, exclusive(directory.path / LOCK):
            yield Repository(directory.path)
            if not self.path.exists() or not os.path.samestat(self.path.stat(), directory.status):
                raise SystemFailed(path=self.path, reason="it was unmounted or moved while ditseed used it")

    def size(self, name: str) -> int:
        """Returns a file's length in bytes. Raises NotPermitted, or BackupDamaged if it is missing or not regular."""
        with pack.opened(self.path / name) as descriptor:
            return os.fstat(descriptor).st_size

    def require_whole(self, backup: Backup, read: bool) -> None:
        """Raises BackupDamaged if a file is missing or its length differs from the manifest. With `read`, also raises
        it if the map or the configuration does not match its checksum."""
        for name, stored in backup.stored():
            pack.require_length(self.path / name, self.size(name), stored)
        if read:
            self.bring(backup.small_files(), only=False)
            for name, stored in backup.small_files():
                pack.require_sums(self.path / name, stored)

    def set_aside(self, name: str) -> None:
        """Renames a backup to NAME.partial, so that a killed removal leaves no incomplete backup."""
        with held.opened(self.path) as directory:
            directory.move_in(directory.path / name, f"{name}{PARTIAL}")

    def clean(self) -> None:
        """Removes the unfinished backups that interrupted runs left."""
        for path in unfinished_backups(self.path):
            if path.suffix != PARTIAL:
                self.set_aside(path.name)
        for path in unfinished_backups(self.path):
            files.remove_tree(path)

    def tidy(self) -> None:
        """Calls `clean`, then removes packs that no backup needs. Each run calls this first."""
        self.clean()
        collect(self)

    def packs(self) -> dict[str, int]:
        """Maps the name of each shared pack to its bytes, including unfinished packs of interrupted runs."""
        directory = self.path / PAGES
        return {name: (directory / name).lstat().st_size for name in filter(is_pack, _names_in(directory))}

    def remove(self, name: str) -> None:
        """Removes the file `name`, which is DIRECTORY/FILE."""
        directory, _, file = name.rpartition("/")
        with held.private(self.path / directory, make=False) as opened:
            opened.remove(file)

    def logged(self) -> list[str]:
        """Returns the names of all files of segments, the oldest first."""
        return sorted(filter(manifest.SEGMENT.fullmatch, _names_in(self.path / LOG)))

    def bring_segment(self, name: str) -> None:
        """Fetches the JSON file of a segment, if it is not yet on this host."""

    def records(self, backup: str) -> list[str]:
        """Returns the names of a backup's records and pins. Those of one kind are sorted by time."""
        return records_in(_names_in(self.path / backup))


def _names_in(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []


def is_pack(name: str) -> bool:
    return manifest.PACK_NAME.fullmatch(name.removesuffix(PARTIAL)) is not None


def records_in(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if manifest.RECORD.fullmatch(name) or manifest.PIN.fullmatch(name))


class Marker(Struct, frozen=True, omit_defaults=True):
    """The content of repository.json."""

    format: int
    policy: Policy = KEEP_ALL


Where = Path | Location | Repository  # the command line gives a Path or a Location, which `at` opens


def of(repo: Where) -> Repository:
    """Returns the repository `repo`. Must not be called with a Location, which only `at` can open."""
    assert not isinstance(repo, Location)
    return repo if isinstance(repo, Repository) else Repository(repo)


def at(
    repo: Where,
    progress: Progress = _QUIET,
    scratch: Path | None = None,
    changes: bool = False,
    makes_room: bool = False,
    traffic: Download = UNLIMITED,
    backups: bool = True,
) -> AbstractContextManager[Repository]:
    """Opens a repository. The options are for one on another host. `scratch`: local directory for its files. `changes`
    locks it against other runs. `makes_room` opens it even if the server is too full for a lock. Without `backups`, its
    backups are not listed, which saves time. Raises NoRepository (only with `changes`, and also for a local one),
    NoSuchPath, PackageMissing, RemoteFailed."""
    if isinstance(repo, Location):
        from loader.operations.backup import remote  # imported here: most repositories are directories

        return remote.opened(repo, progress, scratch, changes, makes_room, traffic, backups)
    repo = of(repo)
    with explained(repo.path):
        if changes and not os.path.lexists(repo.path / MARKER):
            raise no_repository(repo.path)
    return nullcontext(repo)


def init(repo: Where, policy: Policy = KEEP_ALL) -> bool:
    """Creates a repository. If it exists, only stores `policy`, unless that is empty, and returns False. Raises
    PackageMissing, RemoteFailed."""
    content = json.format(json.encode(Marker(1, policy or KEEP_ALL)), indent=0) + b"\n"
    if isinstance(repo, Location):
        from loader.operations.backup import remote

        return remote.init(repo, content, bool(policy))
    path = of(repo).path
    with explained(path):
        held.make_directories(path, 0o700)
        with held.opened(path) as directory:
            try:
                descriptor = directory.create(MARKER)
            except FileExistsError:
                if policy:
                    files.write_durably(path / MARKER, content, 0o600)
                return False
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    return True


def no_repository(repo: object) -> NoRepository:
    return NoRepository(path=repo, command=shlex.join(["ditseed", "backup", "init", "-R", str(repo)]))


def new_id(repo: Path, when: datetime.datetime, suffix: str, used: Collection[str] = ()) -> str:
    """Returns an unused backup ID: time and suffix, followed by a number if another backup has this ID."""
    first = f"{stamp(when)}-{slug(suffix)}"
    names = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in used and not (repo / name).exists())


def slug(suffix: str) -> str:
    return (re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-").lower() or "root")[:100]


class Listing(Struct, frozen=True):
    """Complete backups, the oldest first. `backups` lacks those dated later than now, which are in `future`. `broken`
    has the errors of manifests that could not be read."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]
    future: tuple[Backup, ...] = ()

    @property
    def every(self) -> tuple[Backup, ...]:
        return (*self.backups, *self.future)

    def of(self, suffix: str | None) -> Listing:
        """Returns the backups of `suffix`, or all if it is None. Keeps all of `broken`: their suffixes are unknown."""
        if suffix is None:
            return self
        wanted = dn.key(suffix)
        return _in_order([backup for backup in self.every if dn.key(backup.suffix) == wanted], self.broken)

    def made_by(self, when: datetime.datetime, without: Collection[str] = ()) -> Listing:
        """Returns the backups made by a time, without some IDs. The directory's name dates an unreadable manifest."""
        broken = ((name_of(error), error) for error in self.broken)
        return Listing(
            tuple(backup for backup in self.backups if backup.when <= when and backup.id not in without),
            tuple(error for name, error in broken if name[:_STAMP] <= stamp(when) and name not in without),
        )


def listing(repo: Where, suffix: str | None = None) -> Listing:
    """Lists the complete backups of a suffix, or of all suffixes. Raises NoSuchPath."""
    path = of(repo).path
    with explained(path):
        backups, _, broken = _read_all(path)
        return _in_order(backups, tuple(broken)).of(suffix)


def _in_order(backups: Iterable[Backup], broken: tuple[ManifestBroken, ...]) -> Listing:
    every = sorted(backups, key=lambda backup: (backup.order, backup.id))
    past, limit = len(every), now() + manifest.SKEW
    while past and every[past - 1].when > limit:
        past -= 1
    return Listing(tuple(every[:past]), broken, tuple(every[past:]))


def _read_all(repo: Path) -> tuple[list[Backup], list[Path], list[ManifestBroken]]:
    """Reads all manifests. Returns the complete backups, the directories of backups whose set lacks its leader, and the
    errors of manifests that cannot be read. Skips NAME.partial, an unfinished backup."""
    backups, unfinished, broken = list[Backup](), list[Path](), list[ManifestBroken]()
    for directory in sorted(repo.iterdir()):
        if not re.match(r"\d{8}T\d{6}Z-", directory.name) or directory.suffix == PARTIAL or not directory.is_dir():
            continue
        try:
            backup = manifest.read(directory)
        except ManifestBroken as error:
            broken.append(error)
            continue
        # The leader's directory is the last of a set to get its final name, and the first to lose it.
        leader = repo / backup.set_ids[0]
        if not leader.exists() and leader.with_name(leader.name + PARTIAL).exists():
            unfinished.append(directory)
        else:
            backups.append(backup)
    return backups, unfinished, broken


def unfinished_backups(repo: Path) -> list[Path]:
    """Returns the directories left by interrupted runs, the leader of a set after its other members."""
    return [*_read_all(repo)[1], *sorted(repo.glob(f"[0-9]*Z-*{PARTIAL}"))]


def follows(repo: Where, when: datetime.datetime) -> str:
    """Returns the field `follows` of a new manifest. It is "", unless the newest backup of any suffix is sorted after
    `when`: then it is the time one second after that backup. Warns if the clock has gone back."""
    last = next(reversed(listing(repo).every), None)
    if last is None or last.order <= when:
        return ""
    if last.when > when + (manifest.SKEW if last.host != socket.gethostname() else datetime.timedelta(0)):
        text = (
            "the clock has gone back or was wrong: backup %s is dated %s, later than now; the new one counts as later"
        )
        log.warning(text, last.id, last.made)
    return (last.order + datetime.timedelta(seconds=1)).isoformat()


def collect(repo: Repository) -> int:
    """Removes the packs that no backup needs, or none if a manifest cannot be read. Returns the freed bytes. The caller
    must have the lock."""
    packs, every = repo.packs(), listing(repo)
    if packs and every.broken:
        log.warning("no pages are removed from %s: %s", plain.with_operator_paths(str(repo.path)), every.broken[0])
        return 0
    names = sorted(packs.keys() - {stored.name for backup in every.every for stored in backup.packs})
    for name in names:
        repo.remove(f"{PAGES}/{name}")
    return sum(packs[name] for name in names)


def _collect_segments(repo: Repository) -> int:
    """Removes the segments older than the oldest backup of their suffix, except the last few: a replay needs one that
    shares a change with that backup. Removes none if a manifest cannot be read. Returns the freed bytes."""
    names, every, freed = repo.logged(), listing(repo), 0
    oldest: dict[str, str] = {}
    for backup in () if every.broken else reversed(every.every):
        oldest[slug(backup.suffix)] = f"{backup.when:{manifest.SEGMENT_TIME}}"
    for suffix, time in oldest.items():
        segments = [name for name in names if (match := manifest.SEGMENT.fullmatch(name)) and match[2] == suffix]
        kept = [name for name in segments if name.endswith(".json") and name < time][-_OVERLAP:]
        old = [name for name in segments if name < min(kept, default="")]
        for name in sorted(old, key=lambda name: not name.endswith(".json")):
            freed += repo.size(f"{LOG}/{name}")
            repo.remove(f"{LOG}/{name}")
    return freed


def find(repo: Where, which: Which, suffix: str | None = None) -> Backup:
    """Returns the backup that `which` selects: by its ID, the latest one of `suffix`, or the latest made by a time. If
    `suffix` is None, the latest is the leader of the latest set. Raises NoSuchBackup, ManifestBroken, BackupFromFuture
    if a backup is dated later than now, or LatestBroken if the manifest of the latest backup cannot be read."""
    repo, path = of(repo), of(repo).path
    if not is_id(which):
        return latest(repo, listing(repo, suffix), which, suffix)
    if Path(which).name != which or not (path / which).is_dir() or which.endswith(PARTIAL):
        with explained(path):
            os.scandir(path).close()
        raise NoSuchBackup(path=path, name=which)
    return manifest.read(path / which)


def is_id(which: Which) -> TypeGuard[str]:
    return isinstance(which, str) and which != LATEST


def chosen(repo: Where, which: Which, suffix: str | None = None) -> tuple[Backup, ...]:
    """Returns the backup that `find` selects or, without an ID and a suffix, all readable backups of its set."""
    if is_id(which) or suffix is not None:
        return (find(repo, which, suffix),)
    backups = listing(repo)  # listed once, because another account may change the repository between two calls
    newest = latest(of(repo), backups, which, suffix)
    return next(group for group in sets(backups.backups) if newest in group)


def find_set(repo: Where, which: Which) -> tuple[Backup, ...]:
    """Returns a set, the leader first: the set of the backup with an ID, the latest set, or the latest made by a time.
    Raises the errors of `find`, and SetIncomplete if a member is missing."""
    repo = of(repo)
    if is_id(which):
        backup = find(repo, which)
        if not backup.members:
            raise NoSuchBackup(path=repo.path, name=f"of all databases that includes {which}")
        return members(repo, backup)
    every = listing(repo)
    in_sets = tuple(backup for backup in every.backups if backup.members)
    if not in_sets:
        if which == LATEST:
            require_known_order(repo.path, every)
        raise NoSuchBackup(path=repo.path, name="of all databases of a configuration")
    return members(repo, latest(repo, replace(every, backups=in_sets), which, None))


def members(repo: Where, backup: Backup) -> tuple[Backup, ...]:
    """Returns the set of `backup`, or only `backup` if it has none. Raises ManifestBroken, SetIncomplete."""
    path = of(repo).path
    for name in backup.members:
        if not ID.fullmatch(name) or not (path / name).is_dir():
            raise SetIncomplete(path=path, name=backup.id, missing=name)
    return tuple(manifest.read(path / name) for name in backup.members) or (backup,)


def sets(backups: Iterable[Backup]) -> list[tuple[Backup, ...]]:
    """Groups the backups by set, each with its leader first. A backup without a set is a group of its own."""
    groups: dict[tuple[str, ...], list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.set_ids, []).append(backup)
    return [tuple(sorted(group, key=lambda backup: backup.set_ids.index(backup.id))) for group in groups.values()]


def require_restorable(repo: Repository, backup: Backup, read: bool = True, alone: bool = False) -> None:
    """Raises an error if a backup, or another of its set, certainly cannot be restored: a file is missing, or does not
    have the length in the manifest. With `alone`, checks only this backup. With `read`, also compares the map and the
    configuration with their checksums. Raises BackupDamaged, ManifestBroken, NoSuchPath, SetIncomplete."""
    for member in (backup,) if alone else members(repo, backup):
        repo.require_whole(member, read)
        if member.members != backup.members:
            raise SetIncomplete(path=repo.path, name=backup.id, missing=member.id)


def problem(repo: Where, backup: Backup, read: bool = True, alone: bool = False) -> LoaderError | None:
    """Returns the error of `require_restorable`, or None."""
    try:
        require_restorable(of(repo), backup, read, alone)
    except (BackupDamaged, ManifestBroken, NoSuchPath, SetIncomplete) as error:
        return error
    return None


def require_known_order(repo: Path, backups: Listing) -> None:
    """Raises BackupFromFuture if a backup is dated later than now, because then the latest backup is unknown."""
    if backups.future:
        last = backups.future[-1]
        raise BackupFromFuture(path=repo, name=last.id, made=last.made)


def latest(repo: Repository, backups: Listing, which: Which, suffix: str | None) -> Backup:
    when = ""
    if isinstance(which, datetime.datetime):
        when, timely = f" made by {which}", backups.made_by(which, disorderly(repo, backups))
        backups = timely if timely.backups else backups.made_by(which)
    require_known_order(repo.path, backups)

    if broken := _broken_latest(backups, suffix):
        advice = "Take a new backup: there is no older one."
        if last := next((backup for backup in reversed(backups.backups) if problem(repo, backup, False) is None), None):
            command = f"ditseed backup restore {last.id} -R {shlex.quote(plain.with_operator_names(str(repo.path)))}"
            advice = f"Run `{command}` with the other options as they were: it restores the older state of {last.made}."
        reason = broken.facts["reason"]
        raise LatestBroken(path=repo.path, when=when, name=name_of(broken), reason=reason, advice=advice)

    if not backups.backups:
        raise NoSuchBackup(path=repo.path, name=("at all" if suffix is None else f"of {suffix}") + when)
    newest = backups.backups[-1]
    leader = newest.id if suffix is not None else newest.set_ids[0]
    return next((backup for backup in backups.backups if backup.id == leader), newest)


def _broken_latest(backups: Listing, suffix: str | None) -> ManifestBroken | None:
    """Returns the error of an unreadable manifest whose directory's name is dated after all readable backups."""
    last = stamp(backups.backups[-1].order) if backups.backups else ""
    for error in reversed(backups.broken):
        name = name_of(error)
        of_suffix = suffix is None or re.fullmatch(rf"-{slug(suffix)}(-\d+)?", name[_STAMP:])
        if of_suffix and name[:_STAMP] >= last:
            return error
    return None


def name_of(error: ManifestBroken) -> str:
    """Returns the ID of the backup whose manifest cannot be read."""
    return Path(str(error.facts["path"])).parent.name


def disorderly(repo: Repository, every: Listing) -> set[str]:
    """Returns the IDs of backups whose manifest arrived on the server long after that of a later-dated backup. No run
    uploads so late: somebody copied the backup there by hand, or forged it to displace another backup."""
    dated = [(stamp(backup.when), backup.id) for backup in every.every]
    dated += [(name_of(error)[:_STAMP], name_of(error)) for error in every.broken]
    late, earliest = set[str](), manifest.FOREVER - _LATE
    for _, name in sorted(dated, reverse=True):
        if (when := repo.arrived.get(name)) is not None:
            if when > earliest + _LATE:
                late.add(name)
            earliest = min(earliest, when)
    return late


Record = TypeVar("Record", Verification, Drill)


def proofs(repo: Where, backup: Backup) -> Proofs:
    repo = of(repo)
    names = repo.records(backup.id)
    paths = {name.partition("-")[0]: repo.path / backup.id / name for name in manifest.valid_names(names)}
    return Proofs(
        _record(paths.get(manifest.VERIFIED), Verification, backup),
        _record(paths.get(manifest.DRILLED), Drill, backup),
        manifest.pinned_until(names),
    )


def _record(path: Path | None, kind: type[Record], backup: Backup) -> Record | None:
    if path is None:
        return None
    try:
        record = manifest.read_sealed(path, kind)
        if record.backup != backup.id:
            raise Unfit("belongs to another backup")
        age_of(record)
    except FileNotFoundError:
        return None
    except Unfit as error:
        log.warning("%s is ignored: it %s", plain.with_operator_paths(str(path)), error)
        return None
    return record


def age_of(record: Proof) -> float:
    """Returns a record's age in seconds, or 0 if it is dated later than now. Raises Unfit if its time is invalid."""
    try:
        return max(0.0, (now() - datetime.datetime.fromisoformat(record.made)).total_seconds())
    except (ValueError, TypeError) as error:
        raise Unfit(f"has no valid time: {error}") from error


def keep(repo: Where, record: Record) -> Record:
    """Seals, writes and returns a record. Removes the previous records of its kind, unless the server refuses that. A
    record that cannot be written (the repository is full or read-only) is still valid, and only logged. Raises
    NoSuchBackup if the backup was removed."""
    repo, record = of(repo), manifest.sealed(record)
    kind = manifest.VERIFIED if isinstance(record, Verification) else manifest.DRILLED
    written = datetime.datetime.now(datetime.timezone.utc)
    name = f"{kind}-{stamp(written)}{written.microsecond:06}.json"
    try:
        _write_record(repo, record, name)
        with suppress(RemovalRefused):
            for former in repo.records(record.backup):
                if former.startswith(kind) and former != name:
                    repo.remove(f"{record.backup}/{former}")
    except FileNotFoundError as error:
        raise NoSuchBackup(path=repo.path, name=record.backup) from error
    except OSError as error:
        text = "%s: %s cannot be written, so `list`, `check` and `prune` will not see this result: %s"
        log.warning(text, plain.with_operator_paths(str(repo.path / record.backup)), name, error.strerror)
    return record


def _write_record(repo: Repository, record: Proof, name: str) -> None:
    files.write_durably(repo.path / record.backup / name, manifest.text(record), 0o600)
    repo.keep(f"{record.backup}/{name}")


def pin(repo: Where, which: Which, until: datetime.datetime, suffix: str | None = None) -> Backup:
    """Pins a backup: `prune` keeps it and its set until `until`. Raises NoSuchBackup, RemoteFailed."""
    repo = of(repo)
    with explained(repo.path):
        backup, name = find(repo, which, suffix), f"{manifest.PINNED}-{stamp(until)}.json"
        if name not in repo.records(backup.id):
            _write_record(repo, manifest.sealed(Proof(backup=backup.id)), name)
    return backup


def release(repo: Where, which: Which, suffix: str | None = None) -> Backup:
    """Removes the pins of a backup and of its set. Raises RemovalRefused if the account may only add files."""
    repo = of(repo)
    with explained(repo.path):
        backup = find(repo, which, suffix)
        for member in backup.set_ids:
            for name in filter(manifest.PIN.fullmatch, repo.records(member)):
                repo.remove(f"{member}/{name}")
    return backup


_PERIODS = {"daily": "%Y-%m-%d", "weekly": "%G-W%V", "monthly": "%Y-%m", "yearly": "%Y"}


class Pruned(Struct, frozen=True):
    """The result of a pruning or its dry run. `kept`: ID of each backup that stays -> reasons, such as "last", "daily
    2026-11-21". `removed`: IDs of removed backups, the leader of a set before its other members. `freed`: bytes.
    `unread`: IDs of backups whose manifests cannot be read; they always stay."""

    kept: dict[str, tuple[str, ...]]
    removed: tuple[str, ...]
    freed: int
    unread: tuple[str, ...]


def prune(repo: Where, policy: Policy, suffix: str | None = None, dry_run: bool = False) -> Pruned:
    """Removes the backups that `policy` does not keep. If `policy` is empty, the stored policy applies. Raises Locked,
    BackupFromFuture, RemovalRefused, or UsageProblem if there is no policy."""
    repo = of(repo)
    policy = policy or repo.policy()
    if not policy:
        raise UsageProblem(reason="say what to keep: --keep-last, --keep-daily, --keep-within, ...")
    with explained(repo.path):
        if dry_run:
            return plan_pruning(repo, policy, suffix)
        with repo.changing() as locked:
            return prune_locked(locked, policy, suffix)


def prune_locked(repo: Repository, policy: Policy, suffix: str | None) -> Pruned:
    plan = plan_pruning(repo, policy, suffix)
    repo.clean()
    for name in plan.removed:
        repo.set_aside(name)
        killpoint("prune.middle")
    repo.clean()
    return replace(plan, freed=plan.freed + collect(repo) + _collect_segments(repo))


def plan_pruning(repo: Where, policy: Policy, suffix: str | None = None) -> Pruned:
    repo, every = of(repo), listing(repo)
    of_suffix = every.of(suffix)
    require_known_order(repo.path, of_suffix)
    reasons = _reasons(repo, every, policy)
    ids = {backup.id for backup in of_suffix.backups}
    backups = [backup for group in sets(every.backups) if not ids.isdisjoint(group[0].set_ids) for backup in group]
    removed = [backup for backup in backups if not reasons[backup.id]]
    return Pruned(
        {name: tuple(reasons[name]) for name in sorted(backup.id for backup in backups) if reasons[name]},
        tuple(backup.id for backup in removed),
        sum(backup.stored_bytes for backup in removed if not backup.incremental),
        tuple(map(name_of, of_suffix.broken)),
    )


def _reasons(repo: Repository, every: Listing, policy: Policy) -> dict[str, list[str]]:
    """Maps each backup ID to the reasons to keep the backup; a backup without a reason is removed. Examines all
    suffixes, because a set is kept or removed as a whole.

    Besides the backups that the policy keeps, each suffix keeps its latest backup, the latest that can be restored, and
    the latest that was proven good. If no backup of a suffix can be restored, all of them stay. Damaged backups do not
    count for the policy. Nor do backups without entries if the suffix has others: the database may have been lost.

    Anybody who may add files can forge backups and records. So a backup that only a record calls damaged stays as long
    as the policy would keep it if it were good. A backup that arrived out of order stays, but the policy does not count
    it."""
    reasons: dict[str, list[str]] = {backup.id: [] for backup in every.backups}
    proven, groups = {backup.id: proofs(repo, backup) for backup in every.backups}, sets(every.backups)
    late = disorderly(repo, every)
    timely = [backup for backup in every.backups if backup.id not in late]
    for name, proof in proven.items():
        if proof.pinned_until:
            reasons[name].append(f"pinned until {proof.pinned_until:%Y-%m-%d}")
    for name in late.intersection(reasons):
        reasons[name].append(f"arrived on {repo.arrived[name]:%Y-%m-%d}, after later ones: copied, or forged")

    def is_restorable(backup: Backup, alone: bool = False) -> bool:
        """Checks the backup; in a local repository, also reads its map and configuration."""
        return problem(repo, backup, not repo.is_remote, alone) is None

    filled = {dn.key(backup.suffix) for backup in timely if backup.entries}
    full = {backup.id for backup in timely if backup.entries or dn.key(backup.suffix) not in filled}
    sound = {name for name in full if not proven[name].is_bad}
    ids = [{backup.id for backup in group} for group in groups]
    restorable = [names for group, names in zip(groups, ids, strict=True) if names <= full and is_restorable(group[0])]
    whole = set[str]().union(*restorable)
    good = set[str]().union(*(names for names in restorable if names <= sound))

    by_suffix: dict[object, list[Backup]] = {}
    for backup in reversed(timely):
        by_suffix.setdefault(dn.key(backup.suffix), []).append(backup)
    for newest_first in by_suffix.values():
        of_good = [backup for backup in newest_first if backup.id in good]
        for backup in () if of_good else newest_first:
            reasons[backup.id].append("no backup of its suffix is known to be restorable")
        for backup in of_good[:1]:
            reasons[newest_first[0].id].append("the latest")
            reasons[backup.id].append("the latest that can be restored")
        for backup in [backup for backup in of_good if proven[backup.id].is_proven][:1]:
            reasons[backup.id].append("the latest that was proven good")
        for backup, reason in _by_policy(policy, of_good):
            reasons[backup.id].append(reason)
        for backup, reason in _by_policy(policy, [backup for backup in newest_first if backup.id in whole]):
            if backup.id not in good:
                reasons[backup.id].append(f"{reason}, though it was found damaged")
        # `good` lacks a sound backup if another backup of its set is damaged.
        newer = itertools.takewhile(lambda backup: backup.id not in good, newest_first)
        if last := next((backup for backup in newer if backup.id in sound and is_restorable(backup, alone=True)), None):
            reasons[last.id].append("the latest that can be restored by itself")
    _keep_sets(reasons, groups, good, {name_of(error) for error in every.broken})
    return reasons


def _by_policy(policy: Policy, newest_first: Sequence[Backup]) -> Iterator[tuple[Backup, str]]:
    """Yields each backup that the policy keeps, with the reason, once for each reason."""
    yield from ((backup, "last") for backup in newest_first[: policy.last])
    if policy.within:
        oldest = now() - datetime.timedelta(seconds=policy.within)
        yield from ((backup, "within") for backup in newest_first if backup.when >= oldest)
    for name, written in _PERIODS.items():
        periods: dict[str, Backup] = {}
        for backup in newest_first:
            periods.setdefault(backup.when.astimezone(datetime.timezone.utc).strftime(written), backup)
        for period, backup in list(periods.items())[: getattr(policy, name)]:
            yield backup, f"{name} {period}"


def _keep_sets(
    reasons: Mapping[str, list[str]], groups: Sequence[tuple[Backup, ...]], good: Collection[str], unread: set[str]
) -> None:
    """Adds the reasons that keep sets: if a member of a set stays or is unreadable, the whole set stays. The latest
    restorable set of each combination of suffixes stays, because no backups of single suffixes replace it."""
    latest: dict[frozenset[object], Backup] = {}
    for group in groups:
        if len(group) > 1 and group[0].id in good:
            latest[frozenset(dn.key(backup.suffix) for backup in group)] = group[0]
    for leader in latest.values():
        reasons[leader.id].append("the latest set that can be restored")
    for group in groups:
        for name in unread.intersection(group[0].members):
            reasons[group[0].id].append(f"of the same moment as {name}, which cannot be read")
        stay = [backup.id for backup in group if reasons[backup.id]]
        for backup in group:
            if stay and not reasons[backup.id]:
                reasons[backup.id].append(f"of the same moment as {min(stay)}")
