"""A backup repository: one directory a backup, whole once it bears its name, with a manifest. Nothing else is state.

REPO/20261121T070501Z-dc-example-dc-com/   data.mdb.zst  pieces.json  manifest.json  config.ldif
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loader import dn, naming
from loader.errors import (
    BackupFromFuture,
    LatestBroken,
    ManifestBroken,
    NoSuchBackup,
    NoSuchPath,
    SetIncomplete,
)
from loader.operations.backup import manifest
from loader.operations.backup.manifest import Backup
from loader.storage.files import PARTIAL, explained

LOCK, RUN = "lock", ".ditseed"
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


def _slug(suffix: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-").lower() or "root"
    return slug[:100]


@dataclass(frozen=True)
class Listing:
    """All whole backups, the oldest first, and what could not be read."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]
    future: tuple[Backup, ...] = ()  # dated later than now: these are not among `backups`

    def of(self, suffix: str | None) -> Listing:
        """Those of a suffix; None: all. What cannot be read may be of any."""
        if suffix is None:
            return self
        wanted = dn.key(suffix)
        backups, future = (
            tuple(one for one in found if dn.key(one.suffix) == wanted)
            for found in (self.backups, self.future)
        )
        return Listing(backups, self.broken, future)


def listing(repo: Path, suffix: str | None = None) -> Listing:
    """Raises NoSuchPath. Unfinished ones (NAME.partial) are not there."""
    with explained(repo):
        require(repo)
        return _listed(map(_read, _directories(repo))).of(suffix)


def _newest(repo: Path, suffix: str | None) -> Listing:
    """The end of a listing, from the latest backup on. Names tell when backups were made, so the manifests of older
    ones are not read: with a hundred of them that took a tenth of the time of a restore."""
    read: list[Backup | ManifestBroken] = []
    with explained(repo):
        require(repo)
        names = sorted(_directories(repo), reverse=True)
        for _, same in itertools.groupby(names, lambda path: path.name[:_STAMP]):
            found = [_read(directory) for directory in same]
            read += found
            if _listed(found).of(suffix).backups:
                break
    return _listed(read).of(suffix)


def _read(directory: Path) -> Backup | ManifestBroken:
    try:
        return manifest.read(directory)
    except ManifestBroken as error:
        return error


def _listed(read: Iterable[Backup | ManifestBroken]) -> Listing:
    found, broken = list[Backup](), list[ManifestBroken]()
    for one in read:
        if isinstance(one, ManifestBroken):
            broken.append(one)
        else:
            found.append(one)
    found.sort(key=lambda one: (one.when, one.id))
    broken.sort(key=name_of)
    limit = now() + SKEW
    future = tuple(one for one in found if one.when > limit)
    known = tuple(one for one in found if one.when <= limit)
    return Listing(known, tuple(broken), future)


def require(repo: Path) -> None:
    """Raises NoSuchPath."""
    if not repo.is_dir():
        raise NoSuchPath(path=repo)


def _directories(repo: Path) -> Iterator[Path]:
    """By the shape of the name: other directories in the repository are nobody's business."""
    for path in repo.iterdir():
        if re.match(r"\d{8}T\d{6}Z-", path.name) and path.is_dir() and path.suffix != PARTIAL:
            yield path


def find(repo: Path, which: Which, suffix: str | None = None) -> Backup:
    """By ID, or the latest (of a suffix), now or at some time. Raises NoSuchBackup, ManifestBroken; LatestBroken where
    the latest cannot be used; BackupFromFuture where it is not known which is the latest, for a clock was wrong: this
    host's, or that of a backup."""
    if isinstance(which, datetime.datetime):
        return _last(repo, _by(listing(repo, suffix), which), suffix, f" made by {which}")
    if which != LATEST:
        if Path(which).name != which or not (repo / which).is_dir() or which.endswith(PARTIAL):
            raise NoSuchBackup(path=repo, name=which)
        return manifest.read(repo / which)
    found = _newest(repo, suffix)
    _require_known_order(repo, found)
    return _last(repo, found, suffix)


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
    leading = dataclasses.replace(found, backups=tuple(one for one in found.backups if one.leads))
    if not leading.backups:
        raise NoSuchBackup(path=repo, name="of all databases of a configuration")
    if isinstance(which, str):
        return members(repo, _last(repo, leading, None))
    return members(repo, _last(repo, _by(leading, which), None, f" made by {which}"))


def members(repo: Path, backup: Backup) -> tuple[Backup, ...]:
    """Those of the same moment; itself where it is alone. Raises SetIncomplete, ManifestBroken."""
    for name in backup.members:
        if not ID.fullmatch(name) or not (repo / name).is_dir():
            raise SetIncomplete(path=repo, name=backup.id, missing=name)
    return tuple(manifest.read(repo / name) for name in backup.members) or (backup,)


def _last(repo: Path, found: Listing, suffix: str | None, when: str = "") -> Backup:
    broken = broken_latest(found, suffix)
    if broken is not None:
        raise _latest_broken(repo, found, broken, when)
    if not found.backups:
        of_suffix = " at all" if suffix is None else f" of {suffix}"
        raise NoSuchBackup(path=repo, name=f"{of_suffix}{when}".lstrip())
    return found.backups[-1]


def _by(found: Listing, moment: datetime.datetime) -> Listing:
    """What there was by then; of what cannot be read the name tells."""
    stamp = moment.astimezone(datetime.timezone.utc).strftime(_TIME)
    return Listing(
        tuple(one for one in found.backups if one.when <= moment),
        tuple(error for error in found.broken if name_of(error)[:_STAMP] <= stamp),
    )


def broken_latest(found: Listing, suffix: str | None) -> ManifestBroken | None:
    """The manifest of a backup that is newer than those that can be read, as far as the name tells."""
    newest = found.backups[-1].id[:_STAMP] if found.backups else ""
    for error in reversed(found.broken):
        name = name_of(error)
        of_suffix = suffix is None or re.fullmatch(rf"-{_slug(suffix)}(-\d+)?", name[_STAMP:])
        if of_suffix and name[:_STAMP] >= newest:
            return error
    return None


def _latest_broken(repo: Path, found: Listing, broken: ManifestBroken, when: str) -> LatestBroken:
    advice = "Take a new backup: there is no older one."
    if found.backups:
        older = found.backups[-1]
        command = f"ditseed backup restore {older.id} -R {shlex.quote(naming.told(str(repo)))}"
        advice = f"Run `{command}` with the other options as they were: it restores the older state of {older.made}."
    return LatestBroken(
        path=repo, when=when, name=name_of(broken), reason=broken.facts["reason"], advice=advice
    )


def name_of(error: ManifestBroken) -> str:
    """The ID of the backup that it is of."""
    return Path(str(error.facts["path"])).parent.name


def unfinished_backups(repo: Path) -> list[Path]:
    """What interrupted runs left."""
    return sorted(repo.glob(f"[0-9]*Z-*{PARTIAL}"))
