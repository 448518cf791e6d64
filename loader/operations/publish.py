"""Puts a finished environment into a server's database directory: all of it or nothing, owner and mode as the server
needs them, and the same again after a kill. Refuses a directory that is in use or holds entries."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

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
from loader.run.log import Catalogue, Facts, exclusive, killpoint, recorded
from loader.server import configuration, private, tools
from loader.storage import files, held, holders
from loader.storage.files import Owner

PUBLISHED = "published"  # among the facts of the step `publish`
REPLACED = f"{DATA}.replaced-"  # and a time: the name under which an old data file is kept
WORKSHOP = ".ditseed-clone"  # in the database directory: the same file system, so that publishing is a rename
_REPLACED = "Give the same command again with --replace."
_KEPT = "If nobody needs it any more, add --replace: the new database takes its place once it is finished and checked."


@dataclass(frozen=True)
class TargetDatabase:
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

    @contextmanager
    def private_configuration(
        self, scratch: Path, settings: Mapping[str, Sequence[bytes]] | None = None
    ) -> Iterator[Path]:
        """For slapd's tools, as `private.configured` makes it."""
        made = private.configured(self.config, self.database, scratch, settings, self.superior)
        with made as path:
            yield path

    def require_free(self, checked: Facts | None = None) -> None:
        """As `require_target`; a database that this run published before it was killed may be there."""
        require_target(self.directory, self.replace or self.holds(checked))

    def holds(self, checked: Facts | None) -> bool:
        """Is the database in place the one that the step `check` saw?"""
        if checked is None or not self.data.exists():
            return False
        return bool(files.identity(self.data) == checked["identity"])

    def begins_anew(self, run_dir: Path, verb: str, options: Mapping[str, object], restart: bool) -> bool:
        """Whether the run in `run_dir` is none to go on with. Then the target is asked before the run is forgotten.

        It is none when it has ended and what it published is gone, or when it had other options and has ended or
        had hardly begun: whoever mends a mistake in a command just gives it again.
        """
        anew = restart or self._is_over(run_dir, verb, options)
        if anew:
            self.require_free()
        return anew

    def _is_over(self, run_dir: Path, verb: str, options: Mapping[str, object]) -> bool:
        with recorded(run_dir) as catalogue:
            if catalogue is None:
                return True
            differ = bool(catalogue.differences(verb, options))
            if catalogue.found("publish") is None:
                return differ and not catalogue.has_work()
            if differ or not self.holds(catalogue.found("check")):
                return True
            self._require_as_published(catalogue)
            return False

    def _require_as_published(self, catalogue: Catalogue) -> None:
        """Raises ChangedSince."""
        facts = catalogue.found("publish") or {}
        finished = units.moment(catalogue.ended() or 0)
        require_as_published(self.directory, facts[PUBLISHED], finished)


def published(data: Path, entries: int) -> Facts:
    """What tells later whether a database was written to, or is another one. The entries are for people."""
    with held.checked_file(data) as pin:
        facts = meta.read_meta(pin)
        length = 2 * facts.page_size
        return {"entries": entries, "head": [length, head_digest(pin, length)], **_written(pin)}


def head_digest(data: Path, length: int) -> str:
    """Of both meta pages, `length` bytes."""
    with files.reading(data) as file:
        return xxhash.xxh3_128_hexdigest(file.read(length))


def _written(data: Path) -> Facts:
    status = data.stat()
    return {"size": status.st_size, "modified": status.st_mtime_ns}


def require_as_published(directory: Path, before: Facts, finished: str) -> None:
    """Raises ChangedSince where the database was written to since it was `published`, by LMDB or by anything else."""
    if not _is_as_published(directory, before):
        then = units.number(before["entries"])
        now = _entries_now(directory)
        raise ChangedSince(path=directory / DATA, finished=finished, then=then, now=now)


def _is_as_published(directory: Path, before: Facts) -> bool:
    """With MDB_WRITEMAP (envflags writemap) the file gets the length of its map when it is opened, and a new mtime."""
    with held.checked_file(directory / DATA) as pin:
        length, digest = before["head"]
        now = _written(pin)
        if head_digest(pin, length) != digest:
            return False
    grown = bool(now["size"] > before["size"])
    return grown or now == {name: before[name] for name in now}


def _entries_now(directory: Path) -> str:
    try:
        return units.number(contents.entry_count(directory))
    except (MdbDamaged, NotLmdb):
        return "none that can be read"


def publish_environment(made: Path, place: TargetDatabase, checked: Facts, entries: int, maxsize: int) -> Facts:
    """Rename made/data.mdb, which holds `entries`, into place, then bring the configured maxsize up to `maxsize`.

    A second call after a kill knows from `checked` that the rename is done.
    """
    with files.explained(place.directory):
        place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.holds(checked):
            # slapadd's writable map leaves the file as long as maxsize, a hole mostly; backups stumble over it.
            facts = meta.read_meta(made)
            os.truncate(made / DATA, facts.used)
            put(made / DATA, place.directory, place.database.mode, place.replace)
    if maxsize != place.database.maxsize:
        # Of a glued tree another database's maxsize may have been changed meanwhile.
        apply_maxsize(configuration.read(place.config.path), place.database, maxsize)
    size = place.data.stat().st_size
    return {
        "bytes": size,
        "directory": str(place.directory),
        "maxsize": maxsize,
        PUBLISHED: published(place.data, entries),
    }


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
    needed = tools.lmdb_format()
    if needed is not None and needed != found:
        raise OtherFormat(path=path, found=found, who="the slapd installed here", needed=needed)


def checked(partial: Path, level: str | None, progress: Progress, seen: Seen | None = None) -> Verified:
    """Is a finished data file sound? `level`: None picks one by size. `seen`: as for `verify`. Raises MdbDamaged."""
    with progress.step("verify") as meter:
        return verify.verify(partial, level or verify.default_level(partial), meter, seen)


def put(partial: Path, directory: Path, mode: int, replace: bool = False, keep: bool = False) -> Path | None:
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
