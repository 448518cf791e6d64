"""A backup repository: a directory for each backup, whole once it has its name, with a manifest; and the packs that
incremental backups share. Nothing else is state.

REPO/repository.json   what `backup init` creates: the mount point of a disk that is missing has none
REPO/20261121T070501Z-dc-example-dc-com/   manifest.json and what it names
REPO/pages/SHA256.pack

The verbs work on a `Repository`: a directory of this host, or one on another host (remote.py).
"""

from __future__ import annotations

import datetime
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import click

from loader import dn, plain, units
from loader.declared import Argument, Written
from loader.errors import (
    BackupDamaged,
    BackupFromFuture,
    FileUnsafe,
    LatestBroken,
    LoaderError,
    ManifestBroken,
    NoRepository,
    NoSuchBackup,
    NoSuchPath,
    SetIncomplete,
    SystemFailed,
    UsageProblem,
)
from loader.operations.backup import manifest, pack
from loader.operations.backup.manifest import PACK_NAME, PAGES, Backup
from loader.progress import Progress
from loader.run.log import exclusive
from loader.storage import files, held
from loader.storage import remote as locations
from loader.storage.files import PARTIAL, explained
from loader.storage.remote import Location

log = logging.getLogger(__name__)
LOCK, RUN = "lock", ".ditseed"
MARKER, MARK = "repository.json", b'{"format": 1}\n'
LATEST = "latest"
ID = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9-]+")
SKEW = datetime.timedelta(minutes=5)  # by which clocks of hosts that share a repository may differ
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = len("20261121T070501Z")
_QUIET = Progress("none")

Which = str | datetime.datetime  # an ID; LATEST; or a time, for the newest that was made by then


class Repository:
    """A repository in a directory of this host. Names of files are relative to `path`."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def bring(self, backup: Backup, data: bool = True) -> None:
        """Fetches the files of a backup, without `data` the small ones only, unless they are on this host."""

    def keep(self, name: str) -> None:
        """Stores a record that was written."""

    def require_space(self, needed: int, keep_free: int) -> None:
        files.require_space(self.path, needed + keep_free)

    def send(self, made: Sequence[Backup]) -> None:
        """Stores new backups, the one that leads a set last."""

    @contextmanager
    def changing(self) -> Iterator[Repository]:
        """Holds the repository open and locked. Raises Locked; SystemFailed if another one is at its path."""
        with held.opened(self.path) as directory, exclusive(directory.path / LOCK):
            yield Repository(directory.path)
            if not self.path.exists() or not os.path.samestat(self.path.stat(), directory.status):
                reason = "it was unmounted or moved while ditseed worked in it"
                raise SystemFailed(path=self.path, reason=reason)

    def size(self, name: str) -> int:
        """Raises BackupDamaged if it is missing or no regular file, NotPermitted."""
        path = self.path / name
        try:
            status = os.lstat(path)
            held.require_regular(status, path)
            files.require_readable(path)
        except (FileNotFoundError, NoSuchPath) as error:
            raise BackupDamaged(path=path, reason="it is missing") from error
        except FileUnsafe as error:
            raise BackupDamaged(path=path, reason="is not a regular file") from error
        return status.st_size

    def require_whole(self, backup: Backup, read: bool) -> None:
        """Raise BackupDamaged unless all files are there and have their lengths, and, if these are `read`, the small
        ones their checksums."""
        for name, stored in backup.stored():
            pack.require_length(self.path / name, self.size(name), stored)
        if read:
            self.bring(backup, data=False)
            for stored in pack.small(backup):
                pack.require_sums(self.path / backup.id / stored.name, stored)

    def set_aside(self, name: str) -> None:
        """It is no backup any more before it loses a file; `clean` removes it."""
        with held.opened(self.path) as directory:
            directory.take(directory.path / name, f"{name}{PARTIAL}")

    def clean(self) -> None:
        """Removes what interrupted runs left."""
        for path in unfinished_backups(self.path):
            if path.suffix != PARTIAL:
                self.set_aside(path.name)
        for path in unfinished_backups(self.path):
            files.remove_tree(path)

    def tidy(self) -> None:
        """`clean`, and packs that no backup needs: at the beginning of a run."""
        self.clean()
        collect(self)

    def packs(self) -> dict[str, int]:
        """The shared packs, also those that an interrupted run left unfinished, with their sizes."""
        directory = self.path / PAGES
        names = os.listdir(directory) if directory.is_dir() else []
        return {
            name: (directory / name).lstat().st_size
            for name in names
            if PACK_NAME.fullmatch(name.removesuffix(PARTIAL))
        }

    def remove_pack(self, name: str) -> None:
        with held.private(self.path / PAGES, make=False) as directory:
            directory.remove(name)


Where = Path | Location | Repository  # as an operator names it, or opened by `at`


# --- options ----------------------------------------------------------------------------------------


class _RepositoryType(click.Path):
    """A directory, or a location on another host."""

    def convert(  # type: ignore[override]  # click.Path returns paths only
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | Location:
        if isinstance(value, Location):
            return value
        if isinstance(value, str) and locations.is_remote(value):
            return locations.parse(value)
        return Path(os.fsdecode(super().convert(value, param, ctx)))  # type: ignore[arg-type]


class _Moment(Written):
    """A time of day on a date, not in the future."""

    name, kind = "time", datetime.datetime

    def parse(self, text: str) -> datetime.datetime:
        moment = units.parse_moment(text)
        if moment > now():
            raise UsageProblem(reason=f"{text} is in the future")
        return moment


RepoOption = Annotated[
    Where,
    "-R --repo",
    _RepositoryType(readable=False),
    "Directory that holds the backups; or s3://BUCKET/PREFIX, or sftp://USER@HOST/DIRECTORY.",
]
EveryDatabase = Annotated[
    bool, "--all-databases", "All mdb databases of the configuration, accesslogs included, as they were at one moment."
]
IdentityFiles = Annotated[
    tuple[Path, ...],
    "--identity FILE",
    click.Path(path_type=Path, readable=False, dir_okay=False),
    "age or SSH identity file that decrypts the backup (mode 0600); may be given several times.",
]


@dataclass(frozen=True, kw_only=True)
class WhichBackup:
    """The two ways to name a backup."""

    name: Annotated[str | None, Argument("[ID|latest]")] = None
    as_of: Annotated[
        datetime.datetime | None,
        "--as-of TIME",
        _Moment(),
        "Take the newest backup that was made by then: 2026-11-25T03:00, in the time zone of this host, or "
        "2026-11-25T02:00Z.",
    ] = None

    @property
    def which(self) -> Which:
        """Raises UsageProblem unless exactly one of the two is given."""
        if self.name is not None and self.as_of is None:
            return self.name
        if self.name is None and self.as_of is not None:
            return self.as_of
        raise UsageProblem(reason="say which backup: its ID, latest, or --as-of TIME")


# --- opening and creating ---------------------------------------------------------------------------


def of(repo: Where) -> Repository:
    """A repository on another host is opened by `at` first."""
    assert not isinstance(repo, Location)
    return repo if isinstance(repo, Repository) else Repository(repo)


def path_of(repo: Where) -> Path:
    return of(repo).path


@contextmanager
def at(
    repo: Where,
    progress: Progress = _QUIET,
    scratch: Path | None = None,
    changes: bool = False,
    makes_room: bool = False,
) -> Iterator[Repository]:
    """The repository that an operator names. scratch: where the files of one on another host are kept meanwhile.
    changes: nobody else changes that one as long as this lasts. makes_room: also if the server is full. Raises
    NoRepository if it is to be changed; NoSuchPath, PackageMissing, RemoteFailed, RemoteLocked."""
    if not isinstance(repo, Location):
        if changes:
            with explained(path_of(repo)):
                require_marked(path_of(repo))
        yield of(repo)
        return
    from loader.operations.backup import remote  # most repositories are directories

    with remote.opened(repo, progress, scratch, changes, makes_room) as found:
        yield found


def init(repo: Where) -> bool:
    """Create a repository; False if it was there. Whatever else is in the directory stays. Raises PackageMissing,
    RemoteFailed."""
    if isinstance(repo, Location):
        from loader.operations.backup import remote

        return remote.init(repo)
    path = path_of(repo)
    with explained(path):
        held.make_directories(path, 0o700)
        with held.opened(path) as directory:
            try:
                descriptor = directory.create(MARKER)
            except FileExistsError:
                return False
            with os.fdopen(descriptor, "wb") as file:
                file.write(MARK)
    return True


def require_marked(repo: Path) -> None:
    """Raises NoRepository."""
    if not os.path.lexists(repo / MARKER):
        raise no_repository(repo)


def no_repository(repo: object) -> NoRepository:
    command = shlex.join(["ditseed", "backup", "init", "-R", str(repo)])
    return NoRepository(path=repo, command=command)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def new_id(repo: Path, when: datetime.datetime, suffix: str, taken: Collection[str] = ()) -> str:
    """Time and suffix; a number behind it for a second one within the second."""
    name = f"{when.strftime(_TIME)}-{_slug(suffix)}"
    number = 2
    while (repo / name).exists() or name in taken:
        name = f"{name.removesuffix(f'-{number - 1}')}-{number}"
        number += 1
    return name


def _stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).strftime(_TIME)


def _slug(suffix: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-").lower() or "root"
    return slug[:100]


# --- what there is --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listing:
    """All whole backups, the oldest first, and the manifests that could not be read.

    future: the last ones, if they are dated later than now and none is known to follow them; not among `backups`."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]
    future: tuple[Backup, ...] = ()

    @property
    def every(self) -> tuple[Backup, ...]:
        return (*self.backups, *self.future)

    def of(self, suffix: str | None) -> Listing:
        """Those of a suffix; None: all. What cannot be read may be of any."""
        if suffix is None:
            return self
        wanted = dn.key(suffix)
        return _in_order([one for one in self.every if dn.key(one.suffix) == wanted], self.broken)


def listing(repo: Where, suffix: str | None = None) -> Listing:
    """Raises NoSuchPath. Unfinished ones (NAME.partial) are not there."""
    path = path_of(repo)
    with explained(path):
        backups, broken = list[Backup](), list[ManifestBroken]()
        for directory in _directories(path):
            try:
                backup = manifest.read(directory)
            except ManifestBroken as error:
                broken.append(error)
            else:
                if not _is_unfinished(path, backup):
                    backups.append(backup)
        broken.sort(key=name_of)
        return _in_order(backups, tuple(broken)).of(suffix)


def _in_order(backups: Iterable[Backup], broken: tuple[ManifestBroken, ...]) -> Listing:
    every = sorted(backups, key=lambda one: (one.order, one.id))
    known, limit = len(every), now() + SKEW
    while known and every[known - 1].when > limit:
        known -= 1
    return Listing(tuple(every[:known]), broken, tuple(every[known:]))


def newest(repo: Where) -> Backup | None:
    """The last of all suffixes, also one that is dated later than now."""
    return next(reversed(listing(repo).every), None)


def follows(repo: Where, when: datetime.datetime) -> str:
    """For the manifest of a backup that is made now: a time after that of all others, if the clock is behind one."""
    last = newest(repo)
    if last is None or last.order <= when:
        return ""
    return (last.order + datetime.timedelta(seconds=1)).isoformat()


def _directories(repo: Path) -> Iterator[Path]:
    """By the shape of the name: other directories in the repository are nobody's business."""
    for path in repo.iterdir():
        if re.match(r"\d{8}T\d{6}Z-", path.name) and path.is_dir() and path.suffix != PARTIAL:
            yield path


def _is_unfinished(repo: Path, backup: Backup) -> bool:
    """A set is there when the backup that leads it is: that one gets its name last, and loses it first."""
    leader = repo / (backup.members or (backup.id,))[0]
    return not leader.exists() and leader.with_name(leader.name + PARTIAL).exists()


def unfinished_backups(repo: Path) -> list[Path]:
    """What interrupted runs left; before a backup that leads a set the others of it."""
    others = list[Path]()
    for directory in _directories(repo):
        try:
            if _is_unfinished(repo, manifest.read(directory)):
                others.append(directory)
        except ManifestBroken:
            continue
    return [*sorted(others), *sorted(repo.glob(f"[0-9]*Z-*{PARTIAL}"))]


def collect(repo: Repository) -> int:
    """Remove the packs that no backup needs; the bytes that they took. With the lock held. While any manifest cannot be
    read, all packs stay."""
    packs, found = repo.packs(), listing(repo)
    if packs and found.broken:
        told = plain.with_operator_paths(str(repo.path))
        log.warning("no pages are removed from %s: %s", told, found.broken[0])
        return 0
    freed = 0
    for name in sorted(packs.keys() - {one.name for backup in found.every for one in backup.packs}):
        repo.remove_pack(name)
        freed += packs[name]
    return freed


# --- which one is meant ---------------------------------------------------------------------------


def find(repo: Where, which: Which, suffix: str | None = None) -> Backup:
    """By ID, or the latest (of a suffix), now or at some time; of a set the one that leads, unless a suffix is given.
    Raises NoSuchBackup, ManifestBroken; LatestBroken if the manifest of the latest cannot be read; BackupFromFuture if
    a clock was wrong (this host's, or that of a backup), so that nobody knows which one is the latest."""
    path = path_of(repo)
    if not isinstance(which, str) or which == LATEST:
        return _last(of(repo), listing(path, suffix), which, suffix)
    if Path(which).name != which or not (path / which).is_dir() or which.endswith(PARTIAL):
        with explained(path):
            os.scandir(path).close()
        raise NoSuchBackup(path=path, name=which)
    return manifest.read(path / which)


def is_named(which: Which) -> bool:
    """Is it an ID?"""
    return isinstance(which, str) and which != LATEST


def chosen(repo: Where, which: Which, suffix: str | None = None) -> tuple[Backup, ...]:
    """What `find` finds; if neither an ID nor a suffix names one of a set, all of the set that can be read."""
    backup = find(repo, which, suffix)
    if is_named(which) or suffix is not None:
        return (backup,)
    return next(each for each in sets(listing(repo).backups) if backup in each)


def require_known_order(repo: Path, found: Listing) -> None:
    """Raises BackupFromFuture."""
    if found.future:
        last = found.future[-1]
        raise BackupFromFuture(path=repo, name=last.id, made=last.made)


def find_set(repo: Where, which: Which) -> tuple[Backup, ...]:
    """The backups that were taken at one moment: the latest such, now or at some time, or those of the same moment as
    an ID. The one that leads comes first. Raises what `find` does, and SetIncomplete."""
    path = path_of(repo)
    if isinstance(which, str) and which != LATEST:
        backup = find(path, which)
        if not backup.members:
            raise NoSuchBackup(path=path, name=f"of all databases that has {which}")
        return members(path, backup)
    found = listing(path)
    of_sets = replace(found, backups=tuple(one for one in found.backups if one.members))
    if not of_sets.backups:
        if which == LATEST:
            require_known_order(path, found)
        raise NoSuchBackup(path=path, name="of all databases of a configuration")
    return members(path, _last(of(repo), of_sets, which, None))


def members(repo: Where, backup: Backup) -> tuple[Backup, ...]:
    """Those of the same moment; itself where it is alone. Raises SetIncomplete, ManifestBroken."""
    path = path_of(repo)
    for name in backup.members:
        if not ID.fullmatch(name) or not (path / name).is_dir():
            raise SetIncomplete(path=path, name=backup.id, missing=name)
    return tuple(manifest.read(path / name) for name in backup.members) or (backup,)


def sets(backups: Iterable[Backup]) -> list[tuple[Backup, ...]]:
    """The backups of one moment together, the one that leads first; each that was taken alone by itself."""
    groups: dict[tuple[str, ...], list[Backup]] = {}
    for one in backups:
        groups.setdefault(one.members or (one.id,), []).append(one)
    return [tuple(sorted(group, key=lambda one: (one.members or (one.id,)).index(one.id))) for group in groups.values()]


def problem(repo: Where, backup: Backup, read: bool = True, alone: bool = False) -> LoaderError | None:
    """Why a backup cannot be restored, as far as that can be told without reading its data: its files are there and as
    long as they should be, and so are those of all backups of its set, unless it is to be restored alone. None if
    nothing is wrong. read: the small files have their checksums too."""
    found = of(repo)
    try:
        for one in (backup,) if alone else members(found, backup):
            found.require_whole(one, read)
            if one.members != backup.members:
                raise SetIncomplete(path=found.path, name=backup.id, missing=one.id)
    except (BackupDamaged, ManifestBroken, NoSuchPath, SetIncomplete) as error:
        return error
    return None


def _last(repo: Repository, found: Listing, which: Which, suffix: str | None) -> Backup:
    """which: LATEST or a time."""
    when = ""
    if isinstance(which, str):
        require_known_order(repo.path, found)
    else:  # what there was by then; of what cannot be read the name tells
        when, stamp = f" made by {which}", _stamp(which)
        found = Listing(
            tuple(one for one in found.backups if one.when <= which),
            tuple(error for error in found.broken if name_of(error)[:_STAMP] <= stamp),
        )
    broken = broken_latest(found, suffix)
    if broken is not None:
        raise _latest_broken(repo, found, broken, when)
    if not found.backups:
        of_suffix = " at all" if suffix is None else f" of {suffix}"
        raise NoSuchBackup(path=repo.path, name=f"{of_suffix}{when}".lstrip())
    latest = found.backups[-1]
    same = latest.members if suffix is None else ()
    return next((one for one in found.backups if same and one.id == same[0]), latest)


def broken_latest(found: Listing, suffix: str | None) -> ManifestBroken | None:
    """The manifest of a backup that is newer than those that can be read, as far as the name tells."""
    last = _stamp(found.backups[-1].order) if found.backups else ""
    for error in reversed(found.broken):
        name = name_of(error)
        of_suffix = suffix is None or re.fullmatch(rf"-{_slug(suffix)}(-\d+)?", name[_STAMP:])
        if of_suffix and name[:_STAMP] >= last:
            return error
    return None


def _latest_broken(repo: Repository, found: Listing, broken: ManifestBroken, when: str) -> LatestBroken:
    advice = "Take a new backup: there is no older one."
    older = (one for one in reversed(found.backups) if problem(repo, one, False) is None)
    if (last := next(older, None)) is not None:
        command = f"ditseed backup restore {last.id} -R {shlex.quote(plain.told(str(repo.path)))}"
        advice = f"Run `{command}` with the other options as they were: it restores the older state of {last.made}."
    return LatestBroken(path=repo.path, when=when, name=name_of(broken), reason=broken.facts["reason"], advice=advice)


def name_of(error: ManifestBroken) -> str:
    """The ID of the backup that it is of."""
    return Path(str(error.facts["path"])).parent.name
