"""Puts a finished environment into a server's database directory: all of it or nothing, owner and mode as the server
needs them, and the same again after a kill. Refuses a directory that is in use or holds entries."""

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

REPLACED = f"{DATA}.replaced-"  # and a time: the name under which an old data file is kept
# Directory in the database directory (the same file system, so that publishing is a rename) in which an interrupted
# clone leaves its files.
WORKSHOP = ".ditseed-clone"
_KEPT = "If nobody needs it any more, add --replace: the new database takes its place once it is finished and checked."


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the step `check`: the file (`files.identity`) that is to be published, and the maxsize that it gets.
    `notes`: what the operator should know of the database."""

    identity: list[int]
    entries: int
    maxsize: int
    notes: list[str] = []


class Mark(msgspec.Struct, frozen=True):
    """Tells later whether a database was written to, or is another one. The entries are for people. `head`: the length
    of both meta pages, and their checksum."""

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
    """The database directory that a configuration means. `superior`: by whose name its entries are loaded, where it is
    loaded with others that are glued together (the superior's own place has itself)."""

    config: Config
    database: Database
    directory: Path
    replace: bool = False
    superior: Database | None = None

    @property
    def named(self) -> Database:
        """The database by whose name the entries are loaded."""
        return self.superior or self.database

    @property
    def data(self) -> Path:
        return self.directory / DATA

    def private_configuration(
        self, scratch: Path, settings: Mapping[str, Sequence[bytes]] | None = None
    ) -> AbstractContextManager[Path]:
        """For slapd's tools, as `private.configured` makes it."""
        return private.configured(self.config, self.database, scratch, settings, self.superior)

    def require_free(self, checked: Checked | None = None) -> None:
        """As `require_target`; a database that this run published before it was killed may be there."""
        require_target(self.directory, self.replace or self.holds(checked))

    def require_still_free(self, run: Run) -> None:
        """The same until the run has published its database."""
        if not run.catalogue.is_done("publish"):
            self.require_free(run.catalogue.facts_of("check", Checked))

    def holds(self, checked: Checked | None) -> bool:
        """Is the database in place the one that the step `check` saw?"""
        return checked is not None and self.data.exists() and files.identity(self.data) == checked.identity

    def begins_anew(self, run_dir: Path, verb: str, options: Mapping[str, object], restart: bool) -> bool:
        """Whether the run in `run_dir` is not to be resumed. Then the target is checked before the run is forgotten.

        It is not resumed if it has ended and what it published is gone, or if it had other options and has ended or had
        hardly begun: whoever corrects a mistake in a command just repeats it. Raises ChangedSince."""
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
    """The checksum of both meta pages, `length` bytes."""
    with files.reading(data) as file:
        return xxhash.xxh3_128_hexdigest(file.read(length))


def require_as_published(directory: Path, before: Mark, finished: str) -> None:
    """Raises ChangedSince if the database was written to since it was marked, by LMDB or by anything else. With
    MDB_WRITEMAP (envflags writemap) the file gets the length of its map when it is opened, and a new mtime."""
    with held.checked_file(directory / DATA) as pin:
        length, digest = before.head
        status, same = pin.stat(), head_digest(pin, length) == digest
    grown = status.st_size > before.size
    if same and (grown or (status.st_size, status.st_mtime_ns) == (before.size, before.modified)):
        return
    try:
        now = units.number(contents.entry_count(directory))
    except (MdbDamaged, NotLmdb):
        now = "none that can be read"
    raise ChangedSince(path=directory / DATA, finished=finished, then=units.number(before.entries), now=now)


def publish_environment(made: Path, place: TargetDatabase, checked: Checked) -> Published:
    """Renames made/data.mdb into place, then brings the configured maxsize up to that of `checked`.

    A second call after a kill knows from `checked` that the rename is done."""
    with files.explained(place.directory):
        place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.holds(checked):
            # slapadd's writable map leaves the file as long as maxsize, a hole mostly; backups stumble over it.
            os.truncate(made / DATA, meta.read_meta(made).used)
            put(made / DATA, place.directory, place.database.mode, place.replace)
    if checked.maxsize != place.database.maxsize:
        # Of a glued tree another database's maxsize may have been changed meanwhile.
        apply_maxsize(configuration.read(place.config.path), place.database, checked.maxsize)
    mark = Mark.of(place.data, checked.entries)
    return Published(place.data.stat().st_size, str(place.directory), checked.maxsize, mark, checked.notes)


def require_target(directory: Path, replace: bool) -> None:
    """Refuses a directory that is in use, not ours to write, or holds entries (unless `replace`)."""
    if directory.exists() and not directory.is_dir():
        raise UsageProblem(reason=f"{directory} is not a directory")
    files.require_writable(directory)
    holders.require_unused(directory)
    data = directory / DATA
    if replace or not data.exists() or not holds_entries(directory):
        return
    what, advice = f"a database ({units.size(files.allocated_bytes(data))})", _KEPT
    with suppress(LoaderError):
        if (suffix := packaged.suffix_in(directory)) is not None:
            what = f"the database of {suffix} that installing slapd made, without any entry of yours"
            advice = "Give the same command again with --replace."
    raise TargetNotEmpty(path=directory, what=what, advice=advice)


def holds_entries(directory: Path) -> bool:
    """Whether there is something to lose: a slapd that was started once leaves a database without an entry. True if the
    file cannot be read."""
    try:
        return contents.entry_count(directory) > 0
    except LoaderError:
        return True


def require_readable_format(path: Path, found: int) -> None:
    """Raise OtherFormat for a data file that the slapd installed here does not open."""
    needed = tools.lmdb_format()
    if needed is not None and needed != found:
        raise OtherFormat(path=path, found=found, who="the slapd installed here", needed=needed)


def checked(partial: Path, level: str | None, progress: Progress, seen: Seen | None = None) -> Verified:
    """Is a finished data file sound? `level`: None picks one by size. `seen`: as for `verify`. Raises MdbDamaged."""
    with progress.step("verify") as meter:
        return verify.verify(partial, level or verify.default_level(partial), meter, seen)


def put(partial: Path, directory: Path, mode: int, replace: bool = False, keep: bool = False) -> Path | None:
    """Puts a finished data file, of a private directory, into an environment directory: the directory's owner, `mode`,
    no stale lock.mdb. `keep`: the old file, if it holds entries, gets another name, which is returned. Raises
    TargetInUse, TargetNotEmpty: somebody may have come meanwhile."""
    with held.opened(directory) as target:
        with held.opened(partial.parent) as source:
            descriptor = source.open(partial.name, os.O_RDWR)
        with held.closing_descriptor(descriptor):
            Owner.from_status(target.status).give(descriptor)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        killpoint("publish.middle")
        require_target(target.path, replace)
        old = _keep(target) if keep else None
        target.remove(LOCK)  # of the old database
        target.move_in(partial, DATA)
        return old


def _keep(target: held.Directory) -> Path | None:
    """The directory has a data file at every moment: the old one has two names until the new one takes `DATA`. If a
    kill left both names, the next call removes the second one first."""
    if not target.exists(DATA) or not holds_entries(target.path):
        return None
    old = os.stat(DATA, dir_fd=target.descriptor, follow_symlinks=False)
    others = [name for name in os.listdir(target.descriptor) if name.startswith(REPLACED)]
    for name in others:
        if os.path.samestat(old, os.stat(name, dir_fd=target.descriptor, follow_symlinks=False)):
            target.remove(name)
    first = REPLACED + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (first, *(f"{first}-{number}" for number in range(2, len(others) + 3)))  # several in the same second
    name = next(name for name in names if name not in others)
    target.link(DATA, name)
    killpoint("restore.kept")
    return target.name / name


class BuildDirectory(msgspec.Struct, frozen=True):
    """Where a data file is built that goes to `target`: `home`, a private directory inside of it."""

    target: Path
    home: Path


@contextmanager
def build_directory(directory: Path, like: Path) -> Iterator[BuildDirectory]:
    """Makes the directory if it is missing, owned as `like` is, and keeps other clones out of it meanwhile. Files in
    the workshop stay for a run that goes on. Raises Locked, DirectoryUnsafe."""
    with existing(directory, like), held.opened(directory) as target:
        try:
            with held.private(target.path / WORKSHOP) as home, exclusive(home.path / "lock"):
                try:
                    yield BuildDirectory(target.path, home.path)
                finally:
                    home.remove("lock")
        finally:
            with suppress(OSError):  # not empty: for a run that goes on
                os.rmdir(WORKSHOP, dir_fd=target.descriptor)


@contextmanager
def existing(directory: Path, like: Path) -> Iterator[None]:
    """Makes the directory if it is missing, owned as `like` is. If nothing is put into it, it is removed again, with
    the parents that were missing."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    if missing:
        held.make_directories(directory, 0o700)
        with held.opened(directory) as created:
            held.require_private(created.status, created.name)
            Owner.of(like).give(created.descriptor)
    try:
        yield
    finally:
        with suppress(OSError, DirectoryUnsafe):  # not empty: it holds the database
            for one in missing:
                held.remove_empty(one)
