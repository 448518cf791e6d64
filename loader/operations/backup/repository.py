"""A backup repository: one directory a backup, whole once it bears its name, with a manifest. Nothing else is state.

REPO/repository.json   what `backup init` creates: the mount point of a disk that is missing has none
REPO/20261121T070501Z-dc-example-dc-com/   data.mdb.zst  pieces.json  manifest.json  config.ldif
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import dn, naming
from loader.errors import (
    BackupDamaged,
    BackupFromFuture,
    LatestBroken,
    LoaderError,
    ManifestBroken,
    NoRepository,
    NoSuchBackup,
    NoSuchPath,
    SetIncomplete,
)
from loader.operations.backup import manifest, pack
from loader.operations.backup.manifest import Backup
from loader.storage import held
from loader.storage.files import PARTIAL, explained

LOCK, RUN = "lock", ".ditseed"
MARKER, MARK = "repository.json", b'{"format": 1}\n'
LATEST = "latest"
ID = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9-]+")
SKEW = datetime.timedelta(minutes=5)  # by which clocks of hosts that share a repository may differ
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = len("20261121T070501Z")


# An ID; LATEST; or a time, for the newest that was made by then.
Which = str | datetime.datetime
Bring = Callable[[Backup], None]  # has what a backup consists of in its place


def there(backup: Backup) -> None:
    """The one for a repository on this host: everything is in its place."""


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


@dataclass(frozen=True)
class Listing:
    """All whole backups, the oldest first, and what could not be read.

    future: the last ones, if they are dated later than now and none is known to follow them; not among `backups`."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]
    future: tuple[Backup, ...] = ()

    def of(self, suffix: str | None) -> Listing:
        """Those of a suffix; None: all. What cannot be read may be of any."""
        if suffix is None:
            return self
        wanted = dn.key(suffix)
        every = (*self.backups, *self.future)
        return _in_order([one for one in every if dn.key(one.suffix) == wanted], self.broken)


def listing(repo: Path, suffix: str | None = None) -> Listing:
    """Raises NoSuchPath. Unfinished ones (NAME.partial) are not there."""
    with explained(repo):
        require(repo)
        found, broken = list[Backup](), list[ManifestBroken]()
        for directory in _directories(repo):
            try:
                one = manifest.read(directory)
            except ManifestBroken as error:
                broken.append(error)
            else:
                if not _is_unfinished(repo, one):
                    found.append(one)
        broken.sort(key=name_of)
        return _in_order(found, tuple(broken)).of(suffix)


def _in_order(found: Iterable[Backup], broken: tuple[ManifestBroken, ...]) -> Listing:
    every = sorted(found, key=lambda one: (one.order, one.id))
    known, limit = len(every), now() + SKEW
    while known and every[known - 1].when > limit:
        known -= 1
    return Listing(tuple(every[:known]), broken, tuple(every[known:]))


def newest(repo: Path) -> Backup | None:
    """The last of all suffixes, also one that is dated later than now."""
    found = listing(repo)
    return next(reversed((*found.backups, *found.future)), None)


def follows(repo: Path, when: datetime.datetime) -> str:
    """For the manifest of a backup that is made now: a time after that of all others, if the clock is behind one."""
    last = newest(repo)
    if last is None or last.order <= when:
        return ""
    return (last.order + datetime.timedelta(seconds=1)).isoformat()


def _is_unfinished(repo: Path, backup: Backup) -> bool:
    """A set is there when the backup that leads it is: that one gets its name last, and loses it first."""
    leader = repo / (backup.members or (backup.id,))[0]
    return not leader.exists() and leader.with_name(leader.name + PARTIAL).exists()


def no_repository(repo: object) -> NoRepository:
    command = shlex.join(["ditseed", "backup", "init", "-R", str(repo)])
    return NoRepository(path=repo, command=command)


def require_marked(repo: Path) -> None:
    """Raises NoRepository."""
    if not os.path.lexists(repo / MARKER):
        raise no_repository(repo)


def init(repo: Path) -> bool:
    """Create a repository; False if it was there. Whatever else is in the directory stays."""
    held.make_directories(repo, 0o700)
    with held.opened(repo) as directory:
        try:
            descriptor = directory.create(MARKER)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "wb") as file:
            file.write(MARK)
    return True


def require(repo: Path) -> None:
    """Raises NoSuchPath, UsageProblem for a file."""
    with explained(repo):
        os.scandir(repo).close()


def _directories(repo: Path) -> Iterator[Path]:
    """By the shape of the name: other directories in the repository are nobody's business."""
    for path in repo.iterdir():
        if re.match(r"\d{8}T\d{6}Z-", path.name) and path.is_dir() and path.suffix != PARTIAL:
            yield path


def find(repo: Path, which: Which, suffix: str | None = None) -> Backup:
    """By ID, or the latest (of a suffix), now or at some time; of a set the one that leads, unless a suffix is given.
    Raises NoSuchBackup, ManifestBroken; LatestBroken if the manifest of the latest cannot be read; BackupFromFuture if
    a clock was wrong (this host's, or that of a backup), so that nobody knows which one is the latest."""
    if isinstance(which, datetime.datetime):
        return _last(repo, _by(listing(repo, suffix), which), suffix, f" made by {which}")
    if which != LATEST:
        if Path(which).name != which or not (repo / which).is_dir() or which.endswith(PARTIAL):
            raise NoSuchBackup(path=repo, name=which)
        return manifest.read(repo / which)
    found = listing(repo, suffix)
    _require_known_order(repo, found)
    return _last(repo, found, suffix)


def is_named(which: Which) -> bool:
    """Is it an ID?"""
    return isinstance(which, str) and which != LATEST


def chosen(repo: Path, which: Which, suffix: str | None = None) -> tuple[Backup, ...]:
    """What `find` finds; if neither an ID nor a suffix names one of a set, all of the set that can be read."""
    found = find(repo, which, suffix)
    if is_named(which) or suffix is not None:
        return (found,)
    return next(each for each in sets(listing(repo).backups) if found in each)


def _require_known_order(repo: Path, found: Listing) -> None:
    if found.future:
        newest = found.future[-1]
        raise BackupFromFuture(path=repo, name=newest.id, made=newest.made)


def find_set(repo: Path, which: Which) -> tuple[Backup, ...]:
    """The backups that were taken at one moment: the latest such, now or at some time, or those of the same moment as
    an ID. The one that leads comes first. Raises what `find` does, and SetIncomplete."""
    if isinstance(which, str) and which != LATEST:
        one = find(repo, which)
        if not one.members:
            raise NoSuchBackup(path=repo, name=f"of all databases that has {which}")
        return members(repo, one)
    found = listing(repo)
    if which == LATEST:
        _require_known_order(repo, found)
    of_sets = Listing(tuple(one for one in found.backups if one.members), found.broken)
    if not of_sets.backups:
        raise NoSuchBackup(path=repo, name="of all databases of a configuration")
    if isinstance(which, str):
        return members(repo, _last(repo, of_sets, None))
    return members(repo, _last(repo, _by(of_sets, which), None, f" made by {which}"))


def members(repo: Path, backup: Backup) -> tuple[Backup, ...]:
    """Those of the same moment; itself where it is alone. Raises SetIncomplete, ManifestBroken."""
    for name in backup.members:
        if not ID.fullmatch(name) or not (repo / name).is_dir():
            raise SetIncomplete(path=repo, name=backup.id, missing=name)
    return tuple(manifest.read(repo / name) for name in backup.members) or (backup,)


def sets(backups: Iterable[Backup]) -> list[tuple[Backup, ...]]:
    """The backups of one moment together, the one that leads first; each that was taken alone by itself."""
    found: dict[tuple[str, ...], list[Backup]] = {}
    for one in backups:
        found.setdefault(one.members or (one.id,), []).append(one)
    return [
        tuple(sorted(group, key=lambda one: (one.members or (one.id,)).index(one.id)))
        for group in found.values()
    ]


def problem(
    repo: Path, backup: Backup, lists: Bring | None = there, alone: bool = False
) -> LoaderError | None:
    """Why a backup cannot be restored, as far as that can be told without reading its data: its files are there and as
    long as they should be, and so are those of all backups of its set, unless it is to be restored alone. None if
    nothing is wrong.

    lists: fetches what tells of the data; None leaves the contents of these files unread.
    """
    try:
        for one in (backup,) if alone else members(repo, backup):
            if lists is not None:
                lists(one)
            _require_whole(repo / one.id, one, lists is not None)
            if one.members != backup.members:
                raise SetIncomplete(path=repo, name=backup.id, missing=one.id)
    except (BackupDamaged, ManifestBroken, NoSuchPath, SetIncomplete) as error:
        return error
    return None


def _require_whole(directory: Path, backup: Backup, read: bool) -> None:
    manifest.require_stored(directory / manifest.PIECES)
    if backup.with_config:
        manifest.require_stored(directory / backup.config_file)
    if not read:
        pack.require_data(directory, backup)
        return
    if not backup.shares_pages:
        manifest.pieces(directory, backup)
    if backup.with_config:
        manifest.config(directory, backup)
    pack.require_whole(directory, backup)


def usable(repo: Path, backups: Sequence[Backup], lists: Bring | None = there) -> Backup | None:
    """The last that can be restored."""
    return next((one for one in reversed(backups) if problem(repo, one, lists) is None), None)


def _last(repo: Path, found: Listing, suffix: str | None, when: str = "") -> Backup:
    broken = broken_latest(found, suffix)
    if broken is not None:
        raise _latest_broken(repo, found, broken, when)
    if not found.backups:
        of_suffix = " at all" if suffix is None else f" of {suffix}"
        raise NoSuchBackup(path=repo, name=f"{of_suffix}{when}".lstrip())
    latest = found.backups[-1]
    same = latest.members if suffix is None else ()
    return next((one for one in found.backups if same and one.id == same[0]), latest)


def _by(found: Listing, moment: datetime.datetime) -> Listing:
    """What there was by then; of what cannot be read the name tells."""
    stamp = _stamp(moment)
    return Listing(
        tuple(one for one in found.backups if one.when <= moment),
        tuple(error for error in found.broken if name_of(error)[:_STAMP] <= stamp),
    )


def broken_latest(found: Listing, suffix: str | None) -> ManifestBroken | None:
    """The manifest of a backup that is newer than those that can be read, as far as the name tells."""
    newest = _stamp(found.backups[-1].order) if found.backups else ""
    for error in reversed(found.broken):
        name = name_of(error)
        of_suffix = suffix is None or re.fullmatch(rf"-{_slug(suffix)}(-\d+)?", name[_STAMP:])
        if of_suffix and name[:_STAMP] >= newest:
            return error
    return None


def _latest_broken(repo: Path, found: Listing, broken: ManifestBroken, when: str) -> LatestBroken:
    advice = "Take a new backup: there is no older one."
    older = usable(repo, found.backups, None)
    if older is not None:
        command = f"ditseed backup restore {older.id} -R {shlex.quote(naming.told(str(repo)))}"
        advice = f"Run `{command}` with the other options as they were: it restores the older state of {older.made}."
    return LatestBroken(
        path=repo, when=when, name=name_of(broken), reason=broken.facts["reason"], advice=advice
    )


def name_of(error: ManifestBroken) -> str:
    """The ID of the backup that it is of."""
    return Path(str(error.facts["path"])).parent.name


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
