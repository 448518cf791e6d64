"""The packs of a repository: each holds the pages that were new in one backup, and never changes.

REPO/pages/SHA256.pack   frames, the index of these, the length of the index. It is named by the SHA-256 of its index,
which holds a checksum of each frame: a pack of another content cannot have its name, and no name leads elsewhere.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loader import naming, units
from loader.errors import BackupDamaged, FileUnsafe, LoaderError
from loader.mdb.pages import PackFile, Packs, Shape
from loader.operations.backup import page_list
from loader.operations.backup.manifest import Backup
from loader.operations.backup.page_list import PackUse
from loader.storage import files, held

if TYPE_CHECKING:
    from loader.operations.backup.repository import Listing

log = logging.getLogger(__name__)
PAGES, PACK = "pages", ".pack"
MAGIC = b"ditseed pack 1\n\0"
_END = struct.Struct("<Q")
_LARGEST_INDEX = 1 << 30  # bytes; that of a pack of 25 TB


def name(use: PackUse) -> str:
    return use.sha256 + PACK


def index(entries: Iterable[bytes]) -> bytes:
    """Of a pack; what follows it is its length."""
    return MAGIC + b"".join(entries)


def ending(made: bytes) -> bytes:
    return made + _END.pack(len(made))


def opened(repo: Path, uses: Iterable[PackUse], shape: Shape) -> Packs:
    """Raises BackupDamaged."""
    with ExitStack() as stack:
        return Packs([stack.enter_context(_pack(repo, use)) for use in uses], shape)


@contextmanager
def _pack(repo: Path, use: PackUse) -> Iterator[PackFile]:
    path = repo / PAGES / name(use)
    try:
        descriptor = held.reading(path, links=False)
    except FileNotFoundError:
        raise BackupDamaged(path=path, reason="is missing") from None
    except FileUnsafe as error:
        raise BackupDamaged(path=path, reason="is not a regular file") from error
    try:
        found = _index(descriptor, path, use)
        yield PackFile(use.number, Path(f"/proc/self/fd/{descriptor}"), path, found)
    finally:
        os.close(descriptor)


def _index(descriptor: int, path: Path, use: PackUse) -> bytes:
    """The entries of the frames."""
    require_length(path, use)
    size = os.fstat(descriptor).st_size
    (length,) = _END.unpack(os.pread(descriptor, _END.size, size - _END.size))
    if not len(MAGIC) <= length <= min(size - _END.size, _LARGEST_INDEX):
        raise BackupDamaged(path=path, reason="its index is not where it should be")
    found = os.pread(descriptor, length, size - _END.size - length)
    if hashlib.sha256(found).hexdigest() != use.sha256 or not found.startswith(MAGIC):
        raise BackupDamaged(path=path, reason="the sha256 of its index is not its name")
    return found[len(MAGIC) :]


def require_length(path: Path, use: PackUse) -> None:
    """Raises BackupDamaged."""
    try:
        found = os.stat(path, follow_symlinks=False).st_size
    except FileNotFoundError:
        raise BackupDamaged(path=path, reason="is missing") from None
    if found != use.stored or found < _END.size:
        wanted = units.number(use.stored)
        reason = f"has {units.number(found)} bytes, the backup says {wanted}"
        raise BackupDamaged(path=path, reason=reason)


def collect(repo: held.Directory, listing: Listing) -> int:
    """Remove the packs that no backup of `listing` needs; the bytes that they took. With the lock held.

    While any backup cannot be read, all stay.
    """
    if not repo.exists(PAGES):
        return 0
    wanted = needed(repo.path, listing)
    if wanted is None:
        return 0
    freed = 0
    with held.private(repo.path / PAGES, make=False) as place:
        for one in unneeded(os.listdir(place.path), wanted):
            freed += (place.path / one).lstat().st_size
            place.remove(one)
    return freed


def unneeded(names: Iterable[str], wanted: Set[str]) -> list[str]:
    """Of packs, also those that an interrupted run left unfinished; other files are nobody's business."""
    return sorted(
        one for one in names if one not in wanted and one.removesuffix(files.PARTIAL).endswith(PACK)
    )


def needed(repo: Path, listing: Listing) -> set[str] | None:
    """Names; None while any backup cannot be read, for nobody knows what that one needs."""
    try:
        if listing.broken:
            raise listing.broken[0]
        every = (*listing.backups, *listing.future)
        return {name(use) for one in every for use in _uses(repo, one)}
    except LoaderError as error:
        log.warning(
            "no pages are removed from %s: %s", naming.with_operator_paths(str(repo)), error
        )
        return None


def _uses(repo: Path, backup: Backup) -> tuple[PackUse, ...]:
    if not backup.shares_pages:
        return ()
    return page_list.read(repo / backup.id, backup).packs
