"""The place that an operator names: a directory, or a location on another host."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loader import naming
from loader.errors import NoSpace
from loader.operations.backup import remote_lock, repository
from loader.operations.backup.mirror import Mirror
from loader.operations.backup.place import Place
from loader.progress import Progress
from loader.storage import files, remote, temporary
from loader.storage.remote import Location, Store

Repo = Path | Location
QUIET = Progress("none")


@contextmanager
def at(
    repo: Repo,
    progress: Progress = QUIET,
    scratch: Path | None = None,
    changes: bool = False,
    makes_room: bool = False,
) -> Iterator[Place]:
    """scratch: where the files of a location are kept meanwhile. changes: nobody else may change it, as long as this
    lasts. makes_room: also if the server is full. Raises NoRepository if it is to be changed; NoSuchPath,
    PackageMissing, RemoteFailed, RemoteLocked."""
    if isinstance(repo, Path):
        if changes:
            with files.explained(repo):
                repository.require_marked(repo)
        yield Place(repo)
        return
    top = scratch or Path(tempfile.gettempdir())
    with ExitStack() as stack:
        store = stack.enter_context(remote.opened(repo))
        home = stack.enter_context(temporary.directory("backup", top))
        stack.enter_context(_called(home, repo, top))
        mirror = Mirror(home, store, progress)
        if changes:
            if repository.MARKER not in _names(store):
                raise repository.no_repository(repo)
            mirror.require_lock = stack.enter_context(
                remote_lock.exclusive(store, makes_room)
            ).require
        mirror.look()
        yield mirror


def init(repo: Repo) -> bool:
    """Create a repository; False if it was there. Raises PackageMissing, RemoteFailed."""
    if isinstance(repo, Path):
        with files.explained(repo):
            return repository.init(repo)
    with remote.opened(repo) as store:
        if repository.MARKER in _names(store):
            return False
        store.write(repository.MARKER, repository.MARK)
    return True


def _names(store: Store) -> list[str]:
    try:
        return list(store.names())
    except FileNotFoundError:
        return []


@contextmanager
def _called(home: Path, repo: Location, top: Path) -> Iterator[None]:
    """Messages about the files of the mirror name those that it is of; where the disk is full, it is this one."""
    naming.register(home, repo.url)
    try:
        yield
    except NoSpace as error:
        if str(error.facts["path"]).startswith(repo.url):
            raise NoSpace(path=top, lack=error.facts["lack"]) from error
        raise
    finally:
        naming.forget(home)
