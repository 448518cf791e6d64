"""Publishes a finished LMDB environment: moves its data file into a server's database directory. The move is atomic,
and can be repeated after a kill. The file gets the owner and mode that the server needs. Refuses a directory that is in
use or has a database with entries."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec
import xxhash

from loader import units
from loader.config import Config, Database
from loader.errors import (
    ChangedSince,
    DirectoryUnsafe,
    LoaderError,
    MdbDamaged,
    NotLmdb,
    OtherFormat,
    TargetNotEmpty,
    UsageProblem,
)
from loader.mdb import contents, meta, verify
from loader.mdb.copy import Seen
from loader.mdb.environment import LOCK
from loader.mdb.meta import DATA
from loader.mdb.verify import Verified
from loader.operations import packaged
from loader.operations.tune import apply_maxsize
from loader.progress import Progress
from loader.run.log import exclusive, killpoint, recorded
from loader.run.steps import Run
from loader.server import configuration, private, tools
from loader.storage import files, held, holders
from loader.storage.files import Owner

REPLACED = f"{DATA}.replaced-"  # prefix of the names of replaced data files, before the time of the replacement
# Name of the subdirectory of a database directory in which a clone is written, so that publishing is a rename.
WORKSHOP = ".ditseed-clone"
_KEPT = "If nobody needs it any more, add --replace: the new database replaces it once it is finished and checked."


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the step `check`. `identity`: `files.identity` of the file to publish. `maxsize`: the maxsize to
    configure, in bytes. `notes`: for the operator."""

    identity: list[int]
    entries: int
    maxsize: int
    notes: list[str] = []


class Mark(msgspec.Struct, frozen=True):
    """The state of a database when it was published, by which a later run detects writes. `entries`: for messages only.
    `head`: length and checksum of both meta pages. `modified`: mtime in nanoseconds."""

    entries: int
    head: tuple[int, str]
    size: int
    modified: int

    @classmethod
    def of(cls, data: Path, entries: int) -> Mark:
        with held.checked_file(data) as pin:
            length, status = 2 * meta.read_meta(pin).page_size, pin.stat()
            head = (length, head_digest(pin, length))
            return cls(entries, head, status.st_size, status.st_mtime_ns)


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the step `publish`."""

    bytes: int
    directory: str
    maxsize: int
    published: Mark
    notes: list[str] = []


class TargetDatabase(msgspec.Struct, frozen=True):
    """A configured database, and the directory in which it is built. `superior`: in the build of a glued tree, the
    superior database, even if it is `database` itself; otherwise None."""

    config: Config
    database: Database
    directory: Path
    replace: bool = False
    superior: Database | None = None

    @property
    def named(self) -> Database:
        """The database that an operator would name to slapadd (-b): in a glued tree, the superior database."""
        return self.superior or self.database

    @property
    def data(self) -> Path:
        return self.directory / DATA

    def private_configuration(
        self, scratch: Path, settings: Mapping[str, Sequence[bytes]] | None = None
    ) -> AbstractContextManager[Path]:
        """Returns a context that yields a private configuration for slapd's tools (`private.configured`)."""
        return private.configured(self.config, self.database, scratch, settings, self.superior)

    def require_free(self, checked: Checked | None = None) -> None:
        """Like `require_target`, but accepts the database that this run published itself before it was killed."""
        require_target(self.directory, self.replace or self.holds(checked))

    def require_still_free(self, run: Run) -> None:
        """Calls `require_free` if the run has not yet published its database."""
        if not run.catalogue.is_done("publish"):
            self.require_free(run.catalogue.facts_of("check", Checked))

    def holds(self, checked: Checked | None) -> bool:
        """Returns whether the data file in the directory is the one that the step `check` checked."""
        return checked is not None and self.data.exists() and files.identity(self.data) == checked.identity

    def begins_anew(self, run_dir: Path, verb: str, options: Mapping[str, object], restart: bool) -> bool:
        """Returns whether a new run replaces the run in `run_dir`. If so, checks the target first.

        A finished run is replaced if its database is gone or the options differ. An unfinished run that has done no
        work is replaced if the options differ, so that an operator can correct a mistake. Raises ChangedSince."""
        anew = restart or self._is_over(run_dir, verb, options)
        if anew:
            self.require_free()
        return anew

    def _is_over(self, run_dir: Path, verb: str, options: Mapping[str, object]) -> bool:
        with recorded(run_dir) as catalogue:
            if catalogue is None:
                return True
            differ = bool(catalogue.differences(verb, options))
            published = catalogue.facts_of("publish", Published)
            if published is None:
                return differ and not catalogue.has_work()
            if differ or not self.holds(catalogue.facts_of("check", Checked)):
                return True
            require_as_published(self.directory, published.published, units.moment(catalogue.ended() or 0))
            return False


def head_digest(data: Path, length: int) -> str:
    """Returns the checksum of the first `length` bytes of a data file, which are both meta pages."""
    with files.reading(data) as file:
        return xxhash.xxh3_128_hexdigest(file.read(length))


def require_as_published(directory: Path, before: Mark, finished: str) -> None:
    """Raises ChangedSince if LMDB or another program wrote to the database after `before` was recorded. A slapd with
    `envflags writemap` lengthens the file and changes its mtime just by opening it, which does not count as a write."""
    with held.checked_file(directory / DATA) as pin:
        length, digest = before.head
        status, same = pin.stat(), head_digest(pin, length) == digest
    has_grown = status.st_size > before.size
    if same and (has_grown or (status.st_size, status.st_mtime_ns) == (before.size, before.modified)):
        return
    try:
        now = units.number(contents.entry_count(directory))
    except (MdbDamaged, NotLmdb):
        now = "none that can be read"
    raise ChangedSince(path=directory / DATA, finished=finished, then=units.number(before.entries), now=now)


def publish_environment(environment: Path, place: TargetDatabase, checked: Checked) -> Published:
    """Renames data.mdb of `environment` into the target, then sets the configured maxsize to that of `checked`. The
    call can be repeated after a kill: `checked` identifies the data file, and so shows whether the rename was done."""
    with files.explained(place.directory):
        place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.holds(checked):
            # slapadd's writable map leaves a sparse file of maxsize bytes. Many backup programs would read all of them.
            os.truncate(environment / DATA, meta.read_meta(environment).used)
            put(environment / DATA, place.directory, place.database.mode, place.replace)
    if checked.maxsize != place.database.maxsize:
        # The configuration is read again, because a glued build may have changed another database's maxsize meanwhile.
        apply_maxsize(configuration.read(place.config.path), place.database, checked.maxsize)
    mark = Mark.of(place.data, checked.entries)
    return Published(place.data.stat().st_size, str(place.directory), checked.maxsize, mark, checked.notes)


def require_target(directory: Path, replace: bool) -> None:
    """Raises an error if the directory is in use, is not writable or, without `replace`, has entries."""
    if directory.exists() and not directory.is_dir():
        raise UsageProblem(reason=f"{directory} is not a directory")
    files.require_writable(directory)
    holders.require_unused(directory)
    if not replace:
        require_empty(directory)


def require_empty(directory: Path) -> None:
    """Raises TargetNotEmpty if the database has entries."""
    data = directory / DATA
    if not data.exists() or not holds_entries(directory):
        return
    what, advice = f"a database ({units.size(files.allocated_bytes(data))})", _KEPT
    with suppress(LoaderError):
        if (suffix := packaged.suffix_in(directory)) is not None:
            what = f"the database of {suffix} that the installation of slapd created, without any entry of yours"
            advice = "Give the same command again with --replace."
    raise TargetNotEmpty(path=directory, what=what, advice=advice)


def holds_entries(directory: Path) -> bool:
    """Returns whether a database has entries, or cannot be read. slapd's first start creates an empty database."""
    try:
        return contents.entry_count(directory) > 0
    except LoaderError:
        return True


def require_readable_format(path: Path, data_format: int) -> None:
    """Raises OtherFormat if the slapd installed here cannot open a data file of this format."""
    needed = tools.lmdb_format()
    if needed is not None and needed != data_format:
        raise OtherFormat(path=path, found=data_format, who="the slapd installed here", needed=needed)


def checked(partial: Path, level: str | None, progress: Progress, seen: Seen | None = None) -> Verified:
    """Verifies a data file. If `level` is None, its size decides. `seen`: as in `mdb.verify`. Raises MdbDamaged."""
    with progress.step("verify") as meter:
        return verify.verify(partial, level or verify.default_level(partial), meter, seen)


def put(partial: Path, directory: Path, mode: int, replace: bool = False, keep: bool = False) -> Path | None:
    """Moves a finished data file from a private directory into an environment directory. The file gets `mode` and the
    directory's owner. Removes the old lock.mdb. With `keep`, an old data file that has entries gets another name; its
    new path is returned. Raises TargetInUse if a process uses the directory, TargetNotEmpty if it has entries."""
    with held.opened(directory) as target:
        with held.opened(partial.parent) as source:
            descriptor = source.open(partial.name, os.O_RDWR)
        with held.closing_descriptor(descriptor):
            Owner.from_status(target.status).apply_to(descriptor)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        killpoint("publish.middle")
        require_target(target.path, replace)
        old = _link_old_data(target) if keep else None
        target.remove(LOCK)
        target.move_in(partial, DATA)
        return old


def _link_old_data(target: held.Directory) -> Path | None:
    """Links the old data file to a second name, so that the directory always has a data.mdb. First removes a second
    name that a killed call has left. Returns the new path, or None if there are no entries."""
    if not target.exists(DATA) or not holds_entries(target.path):
        return None
    old = os.stat(DATA, dir_fd=target.descriptor, follow_symlinks=False)
    others = [name for name in os.listdir(target.descriptor) if name.startswith(REPLACED)]
    for name in others:
        if os.path.samestat(old, os.stat(name, dir_fd=target.descriptor, follow_symlinks=False)):
            target.remove(name)
    first = REPLACED + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (first, *(f"{first}-{number}" for number in range(2, len(others) + 3)))  # numbered within the same second
    name = next(name for name in names if name not in others)
    target.link(DATA, name)
    killpoint("restore.kept")
    return target.name / name


class BuildDirectory(msgspec.Struct, frozen=True):
    """`home`: a private subdirectory of `target`, in which a data file for `target` is built."""

    target: Path
    home: Path


@contextmanager
def build_directory(directory: Path, like: Path) -> Iterator[BuildDirectory]:
    """Locks a database directory against other clones during the body. Creates a missing directory with the owner of
    `like`. Files in WORKSHOP stay, so that a later run can resume. Raises Locked, DirectoryUnsafe."""
    with existing(directory, like), held.opened(directory) as target:
        try:
            with held.private(target.path / WORKSHOP) as home, exclusive(home.path / "lock"):
                try:
                    yield BuildDirectory(target.path, home.path)
                finally:
                    home.remove("lock")
        finally:
            with suppress(OSError):  # not empty: a later run resumes from its files
                os.rmdir(WORKSHOP, dir_fd=target.descriptor)


@contextmanager
def existing(directory: Path, like: Path) -> Iterator[None]:
    """Creates a missing directory and its parents with the owner of `like`. Removes them if they stay empty."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    if missing:
        held.make_directories(directory, 0o700)
        with held.opened(directory) as created:
            held.require_private(created.status, created.name)
            Owner.of(like).apply_to(created.descriptor)
    try:
        yield
    finally:
        with suppress(OSError, DirectoryUnsafe):  # not empty: the directory has the database
            for path in missing:
                held.remove_empty(path)
