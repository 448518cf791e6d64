"""The directory that a data file is put into: whether it may be, and putting it there, with the directory's owner."""

from __future__ import annotations

from pathlib import Path

from loader import units
from loader.errors import LoaderError, OtherFormat, TargetNotEmpty, UsageProblem
from loader.mdb import environment, verify
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.mdb.verify import Verified
from loader.operations import packaged
from loader.progress import Progress
from loader.run.killpoint import killpoint
from loader.server import version
from loader.storage import files, holders
from loader.storage.files import Owner

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
        return environment.entry_count(directory) > 0
    except LoaderError:
        return True


def require_readable_format(path: Path, found: int) -> None:
    """Raise OtherFormat for a data file that the slapd installed here does not open."""
    needed = version.lmdb_format()
    if needed is not None and needed != found:
        raise OtherFormat(path=path, found=found, who="the slapd installed here", needed=needed)


def checked(partial: Path, level: str | None, progress: Progress) -> Verified:
    """Is a finished data file sound? `level`: None picks one by size. Raises MdbDamaged."""
    with progress.step("verify") as meter:
        return verify.verify(partial, level or verify.default_level(partial), meter)


def put(partial: Path, directory: Path, mode: int, replace: bool = False) -> None:
    """Put a finished data file into an environment directory: the directory's owner, `mode`, no stale lock.mdb.

    Raises TargetInUse, TargetNotEmpty: somebody may have come meanwhile.
    """
    Owner.of(directory).give(partial)
    partial.chmod(mode)
    files.make_durable(partial)
    killpoint("publish.middle")
    require_target(directory, replace)
    (directory / LOCK).unlink(missing_ok=True)  # of the database that was there before
    files.publish(partial, directory / DATA)
