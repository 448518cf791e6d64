"""The directory that a data file is put into: whether it may be, and putting it there, with the directory's owner."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import DirectoryUnsafe, LoaderError, OtherFormat, TargetNotEmpty, UsageProblem
from loader.mdb import contents, verify
from loader.mdb.copy import Seen
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.mdb.verify import Verified
from loader.operations import packaged
from loader.progress import Progress
from loader.run.lock import exclusive
from loader.run.log import killpoint
from loader.server import version
from loader.storage import files, held, holders
from loader.storage.files import Owner

REPLACED = f"{DATA}.replaced-"  # and a time: the name under which an old data file is kept
WORKSHOP = ".ditseed-clone"  # in the database directory: the same file system, so that publishing is a rename
_REPLACED = "Give the same command again with --replace."
_KEPT = "If nobody needs it any more, add --replace: the new database takes its place once it is finished and checked."


def require_target(directory: Path, replace: bool) -> None:
    """Refuse a directory that is in use, not ours to write, or holds entries (unless `replace`)."""
    if directory.exists() and not directory.is_dir():
        raise UsageProblem(reason=f"{directory} is not a directory")
    files.require_writable(directory)
    holders.require_unused(directory)
    data = directory / DATA
    if data.exists() and not replace and holds_entries(directory):
        raise _not_empty(directory, units.size(files.allocated_bytes(data)))


def _not_empty(directory: Path, size: str) -> TargetNotEmpty:
    """With what the package of slapd leaves there told from data that somebody may need."""
    try:
        suffix = packaged.suffix_in(directory)
    except LoaderError:
        suffix = None
    if suffix is None:
        return TargetNotEmpty(path=directory, what=f"a database ({size})", advice=_KEPT)
    what = f"the database of {suffix} that installing slapd made, without any entry of yours"
    return TargetNotEmpty(path=directory, what=what, advice=_REPLACED)


def holds_entries(directory: Path) -> bool:
    """A slapd that was started once leaves a database without an entry; that is nothing to lose. In doubt: yes."""
    try:
        return contents.entry_count(directory) > 0
    except LoaderError:
        return True


def require_readable_format(path: Path, found: int) -> None:
    """Raise OtherFormat for a data file that the slapd installed here does not open."""
    needed = version.lmdb_format()
    if needed is not None and needed != found:
        raise OtherFormat(path=path, found=found, who="the slapd installed here", needed=needed)


def checked(
    partial: Path, level: str | None, progress: Progress, seen: Seen | None = None
) -> Verified:
    """Is a finished data file sound? `level`: None picks one by size. `seen`: as for `verify`. Raises MdbDamaged."""
    with progress.step("verify") as meter:
        return verify.verify(partial, level or verify.default_level(partial), meter, seen)


def put(
    partial: Path, directory: Path, mode: int, replace: bool = False, keep: bool = False
) -> Path | None:
    """Put a finished data file, of a private directory, into an environment directory: the directory's owner, `mode`,
    no stale lock.mdb. `keep`: the old one stays under another name, if it holds entries; its path.

    Raises TargetInUse, TargetNotEmpty: somebody may have come meanwhile.
    """
    with held.opened(directory) as target:
        _give(partial, Owner.told(target.status), mode)
        killpoint("publish.middle")
        require_target(target.path, replace)
        old = _keep(target) if keep else None
        target.remove(LOCK)  # of the database that was there before
        target.take(partial, DATA)
        return old


def _keep(target: held.Directory) -> Path | None:
    """The directory has a data file at every moment: the old one has two names until the new one takes `DATA`. After a
    kill in between it still has both; the second one is then removed first, when the same is done again."""
    if not target.exists(DATA) or not holds_entries(target.path):
        return None
    old = os.stat(DATA, dir_fd=target.descriptor, follow_symlinks=False)
    others = [one for one in os.listdir(target.descriptor) if one.startswith(REPLACED)]
    for one in others:
        found = os.stat(one, dir_fd=target.descriptor, follow_symlinks=False)
        if os.path.samestat(old, found):
            target.remove(one)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = next(one for one in _names(REPLACED + stamp) if one not in others)
    target.link(DATA, name)
    killpoint("restore.kept")
    return target.name / name


def _names(first: str) -> Iterator[str]:
    """For files that are kept in the same second: `first`, `first`-2, ..."""
    yield first
    yield from (f"{first}-{number}" for number in itertools.count(2))


def _give(finished: Path, owner: Owner, mode: int) -> None:
    with held.opened(finished.parent) as place:
        descriptor = place.open(finished.name, os.O_RDWR)
    try:
        owner.give(descriptor)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class BuildDirectory:
    """Where a data file is made that goes to `target`: a private directory inside of it, `home`."""

    target: Path
    home: Path


def workshop_of(directory: Path) -> Path:
    """What stands of an interrupted run is there."""
    return directory / WORKSHOP


@contextmanager
def build_directory(directory: Path, like: Path) -> Iterator[BuildDirectory]:
    """Make the directory where it is missing, owned as `like` is, and keep other clones out of it meanwhile. What is
    left in the workshop stays, for a run that goes on. Raises Locked, DirectoryUnsafe."""
    with existing(directory, like), held.opened(directory) as target:
        try:
            with held.private(target.path / WORKSHOP) as home:
                yield from _locked(target, home)
        finally:
            with suppress(OSError):  # not empty: for a run that goes on
                os.rmdir(WORKSHOP, dir_fd=target.descriptor)


@contextmanager
def existing(directory: Path, like: Path) -> Iterator[None]:
    """Makes the directory where it is missing, owned as `like` is. If nothing is put into it, it is removed again, with
    the parents that were missing."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    if missing:
        make_directory(directory, Owner.of(like))
    try:
        yield
    finally:
        with suppress(OSError, DirectoryUnsafe):  # it is not empty: the database is there
            for one in missing:
                held.remove_empty(one)


def _locked(target: held.Directory, home: held.Directory) -> Iterator[BuildDirectory]:
    with exclusive(home.path / "lock"):
        try:
            yield BuildDirectory(target.path, home.path)
        finally:
            home.remove("lock")


def make_directory(directory: Path, owner: Owner) -> None:
    """An empty one for a database, of that account and for nobody else."""
    held.make_directories(directory, 0o700)
    with held.opened(directory) as made:
        held.require_private(made.status, made.name)
        owner.give(made.descriptor)
