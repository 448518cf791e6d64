"""Copies environments consistently, in use or not: page by page, compacted, as a reflink, through a pipe, or in pieces.

A reader slot protects the snapshot (snapshot.py) while the native core reads its pages: LMDB then overwrites no page of
the snapshot. So the pages can be read in any order, and the file system can share them with the copy at any time. Only
the two meta pages change. The copy gets new meta pages, built from the meta page of the snapshot. MDB_NOSYNC and
MDB_WRITEMAP do no harm, because a read also returns pages that are not on the disk yet. During the copy the writer
cannot reuse freed pages, so the target should be local and fast. lock.mdb is never copied."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from loader import _native, units
from loader._native import Counters, KnownPages, PageBlock, PageBlocks, PagePacks, Seen
from loader.errors import FULL, BackupDamaged, NoReflink, NoSpace, StreamBroken, StreamRefused, SystemFailed
from loader.ldif import with_counters
from loader.mdb import meta
from loader.mdb.snapshot import Snapshot, image
from loader.piped import producing
from loader.progress import Meter
from loader.storage import files
from loader.storage.held import private

__all__ = ["KnownPages", "PageBlock", "PageBlocks", "PagePacks", "Seen"]

PARTIAL = meta.DATA + ".partial"
JOURNAL = PARTIAL + ".have"  # name of the file that records how many bytes of a stream have been received


class Sizes(Struct, frozen=True):
    """The sizes of a file in bytes. `apparent` is its length. `allocated` is the size of its disk blocks."""

    apparent: int
    allocated: int

    @classmethod
    def of(cls, path: Path) -> Sizes:
        status = path.stat()
        return cls(status.st_size, status.st_blocks * 512)


class Copied(Struct, frozen=True):
    """A finished copy, which the caller renames to its final name. `mode`: permissions of the source file. `seen`: the
    core's record of the pages, so that a check need not read them. `sound`: whether the copy checked the pages."""

    path: Path
    facts: meta.MetaPage
    source: Sizes
    target: Sizes
    mode: int
    shared: bool = False  # whether the copy is a reflink, which shares its blocks with the source
    seen: Seen | None = None
    sound: bool = False


class CopyMode(Struct, frozen=True):
    """How to copy. `compact`: copy only the pages in use, in key order. `reflink`: share blocks with the source; if the
    file system cannot, "try" copies and "must" fails. `record_pages`: record the pages for `Copied.seen`."""

    compact: bool = False
    reflink: Literal["never", "try", "must"] = "never"
    record_pages: bool = False


_PAGE_BY_PAGE = CopyMode()


def hot_copy(source: Path, target: Path, meter: Meter, mode: CopyMode = _PAGE_BY_PAGE) -> Copied:
    """Copies the environment in `source` to `target`/data.mdb.partial (mode 0600), which the caller publishes.

    Overwrites the partial file of an earlier run. Removes the partial file on any error. Raises NoReflink if `reflink`
    is "must" and the file system refuses; NoSpace, NotPermitted, NotLmdb, MdbProtected, MdbDamaged."""
    forget(target)
    partial = target / PARTIAL
    needed = 0 if mode.reflink == "must" else require_space(source, target)
    seen, shared = None, False
    try:
        with image(source) as snapshot:
            size, permissions = Sizes.of(snapshot.path), snapshot.path.stat().st_mode & 0o777
            os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            if mode.compact:
                compact(snapshot.path, partial, snapshot.page, meter)
            else:
                seen = page_record(snapshot.path, snapshot.page) if mode.record_pages else None
                shared = mode.reflink != "never" and _share(snapshot, partial)
                if mode.reflink == "must" and not shared:
                    raise NoReflink(path=snapshot.path, target=target)
                if not shared:
                    plain(snapshot.path, partial, snapshot.head, snapshot.facts.used, seen, meter)
    except NoSpace:  # another process has filled the disk meanwhile
        error = files.no_space(target, needed, files.free_bytes(target))
        partial.unlink(missing_ok=True)
        raise error from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    facts, seen = meta.read_meta(partial), None if shared else seen
    return Copied(partial, facts, size, Sizes.of(partial), permissions, shared, seen, mode.compact)


def _share(snapshot: Snapshot, partial: Path) -> bool:
    """Makes the copy a reflink of the source. Returns False if the file system cannot share blocks between them."""
    with snapshot.path.open("rb") as source, partial.open("r+b", buffering=0) as copy:
        try:
            fcntl.ioctl(copy, 0x40049409, source.fileno())  # FICLONE, linux/fs.h
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS):
                return False
            raise
        os.ftruncate(copy.fileno(), min(os.fstat(copy.fileno()).st_size, snapshot.facts.used))
        copy.write(snapshot.head)
        os.fsync(copy.fileno())
    return True


def require_space(source: Path, target: Path) -> int:
    """Returns the number of bytes that a copy of `source` without holes needs. Raises NoSpace if `target` has fewer."""
    needed = min(meta.read_meta(source).used, Sizes.of(meta.data_file(source)).allocated)
    files.require_space(target, needed)
    return needed


# --- through a pipe --------------------------------------------------------------------------------
#
# The stream has a checksum of each block, and ends with a checksum of all blocks. If the stream breaks, the receiver
# keeps the bytes received and reports a token, which names the copy and the number of bytes. The operator gives the
# token to the sender, which skips these bytes if the snapshot is still the same, and otherwise sends the whole file.


def send(
    source: Path, descriptor: int, token: str | None, meter: Meter, file: Path | None = None
) -> tuple[meta.MetaPage, int, int]:
    """Sends the environment in `source` to `descriptor`; or sends `file`, which `compacted` has written from `source`.
    If `token` names the same copy, skips the bytes that the receiver has. Returns the meta page, the size of the file,
    and the number of skipped bytes. Raises StreamBroken if the receiver ended, StreamRefused for an invalid `token`."""
    with ExitStack() as stack:
        compacted = file is not None
        if file is None:
            snapshot = stack.enter_context(image(source))
            origin = file = snapshot.path
            head = snapshot.head
        else:
            origin = meta.data_file(source)
            with file.open("rb") as stream:
                head = stream.read(2 * meta.read_meta(file).page_size)
        facts = meta.parse(head, str(file))
        counters = stack.enter_context(_core_call(meter, origin))
        try:
            skipped = _native.clone_send(file, descriptor, head, facts.used, token, counters, compacted=compacted)
        except ValueError as error:
            raise StreamRefused(path=origin, reason=f"{token}: {error}") from error
        return facts, min(facts.used, file.stat().st_size), skipped


@contextmanager
def compacted(source: Path, scratch: Path, meter: Meter) -> Iterator[Path]:
    """Yields the path of a compacted copy, an unlinked file in `scratch` that exists during the body. Compacted pages
    cannot be streamed: a stream begins with the meta pages, which are known only at the end. Raises NoSpace."""
    require_space(source, scratch)
    with tempfile.TemporaryFile(dir=scratch, prefix="ditseed-clone-") as file:
        path = Path(f"/proc/self/fd/{file.fileno()}")
        try:
            with image(source) as snapshot:
                compact(snapshot.path, path, snapshot.page, meter)
        except NoSpace:  # another process has filled the disk meanwhile
            raise files.no_space(scratch, meta.read_meta(source).used, files.free_bytes(scratch)) from None
        yield path


def receive(descriptor: int, run_dir: Path, target: Path, meter: Meter) -> Path:
    """Receives a stream for directory `target` into `run_dir`/data.mdb.partial (mode 0600), which the caller publishes.

    On an error, the bytes received are kept. Raises StreamBroken or NoSpace, with the token for the sender."""
    partial = run_dir / PARTIAL
    try:
        with _core_call(meter, partial) as counters:
            _native.clone_receive(descriptor, partial, run_dir / JOURNAL, counters)
    except StreamBroken as error:
        raise StreamBroken(**error.facts | {"advice": advice(run_dir, target)}) from error
    except NoSpace as error:
        resume = token(run_dir)
        if resume is None:
            raise
        lack = f"{FULL}; the bytes received are kept: once there is space, the sender resumes with --skip {resume}"
        raise NoSpace(path=partial, lack=lack) from error
    return partial


def token(run_dir: Path) -> str | None:
    """Returns the token that a broken stream has left in `run_dir`, or None. Raises DirectoryUnsafe."""
    try:
        with private(run_dir, make=False) as open_dir:
            return files.read(open_dir.path / JOURNAL).decode().strip()
    except FileNotFoundError:
        return None


def forget(run_dir: Path) -> None:
    """Removes a partial copy and its journal."""
    for name in (JOURNAL, PARTIAL):
        (run_dir / name).unlink(missing_ok=True)


def advice(run_dir: Path, target: Path) -> str:
    """Returns the advice to the operator after a stream broke."""
    if (resume := token(run_dir)) is None:
        return "Nothing was received: look at the messages of the sender."
    have = units.size(int(resume.rpartition("-")[2]))
    return f"{have} were received. Resume with: ditseed clone SOURCE - --skip {resume} | ... ditseed clone - {target}"


# --- calls into the native core ---------------------------------------------------------------------


def plain(source: Path, target: Path, head: bytes, length: int, seen: Seen | None, meter: Meter) -> None:
    """Copies the first `length` bytes of a data file page by page, and skips its holes. `head`: both meta pages of the
    copy. Records the copied pages in `seen`."""
    with _core_call(meter, source, target) as counters:
        _native.clone_plain(source, target, head, length, counters, seen=seen)


def page_record(source: Path, page: bytes) -> Seen:
    """Returns an empty record, in which `plain` records the pages of the snapshot with meta page `page`."""
    with meta.explained(source):
        return Seen(source, page)


def compact(source: Path, target: Path, page: bytes, meter: Meter) -> None:
    """Writes a compacted copy of the snapshot with meta page `page`. Finds the same damage as verify's level pages."""
    with _core_call(meter, source, target) as counters:
        _native.clone_compact(source, target, page, counters)


@contextmanager
def _core_call(meter: Meter, source: Path, target: Path | None = None) -> Iterator[Counters]:
    """Yields counters for a call of the core. Translates errors of the core in the body into LoaderErrors."""
    target = target or source
    with with_counters(meter) as counters, meta.explained(source):
        try:
            yield counters
        except _native.NativeError as error:
            if error.code == "lmdb.no_space":
                raise NoSpace(path=target, lack=FULL) from error
            if error.code == "lmdb.misuse":
                raise StreamRefused(path=target, reason=error.message) from error
            if error.code == "lmdb.stream" or error.errno == errno.EPIPE:
                reason = error.message if error.code == "lmdb.stream" else "the receiver has ended"
                advice = "Look at the messages of the other side, which give the reason."
                raise StreamBroken(path=target, reason=reason, advice=advice) from error
            if error.code == "lmdb.full":
                raise SystemFailed(path=source, reason=error.message) from error
            raise


# --- compacted snapshots in pieces, and packs of a backup repository --------------------------------


class PageStream:
    """A compacted snapshot in pieces, which can be read once. `head`: both meta pages; empty until the last piece has
    been read. `entries`: number of entries in the snapshot. `size`: number of bytes read so far, with `head`."""

    def __init__(self, blocks: PageBlocks, head: Future[bytes], image: Snapshot) -> None:
        self._blocks, self._head = blocks, head
        self.facts, self.entries = image.facts, image.entries()
        self.head, self.size = b"", 2 * image.facts.page_size

    def pieces(self) -> Iterator[PageBlock]:
        """Yields all pages except the two meta pages. Raises MdbDamaged."""
        while (piece := self._blocks.take()) is not None:
            self.size += len(piece)
            yield piece
        self.head = self._head.result()


@contextmanager
def paged(image: Snapshot, size: int, meter: Meter) -> Iterator[PageStream]:
    """Yields a compacted snapshot in pieces of `size` bytes, a multiple of 64 KiB. The pages are in key order, and are
    checked when they are read. `meter` counts the pages that are read. Raises MdbDamaged."""
    blocks = PageBlocks(size)

    def compact_in_pieces() -> bytes:
        with _core_call(meter, image.path) as counters:
            return _native.compact_in_pieces(image.path, blocks, image.page, counters)

    with producing(compact_in_pieces, blocks.close, "compact") as head:
        yield PageStream(blocks, head, image)


@contextmanager
def explained_packs(path: Path) -> Iterator[None]:
    """Translates errors of PagePacks and KnownPages into BackupDamaged. The error names the damaged pack, or `path` if
    the pack is unknown. Raises OSError if a file of the caller cannot be written."""
    try:
        yield
    except _native.NativeError as error:
        if error.code in ("cancelled", "internal"):
            raise
        if error.errno is not None and error.path is None:
            raise OSError(error.errno, error.message) from error
        culprit = path if error.path is None else Path(error.path)
        if error.errno is not None:
            raise meta.system_error(error.errno, culprit) from error
        raise BackupDamaged(path=culprit, reason=error.message) from error
