"""Writes, encrypts and reads the files of a backup, and compares them with their checksums.

A pack stores pages of a snapshot: compressed frames of up to 256 pages, an index with a checksum of each frame, and the
length of the index. pages.map has both meta pages, and lists the packs and the runs of pages in them that make up the
backup.

Incremental backups share packs. The name of a pack is the SHA-256 of its index. A page is looked up by its content
without the page number, because a compacted copy renumbers pages. A page with few changes is stored as a difference
from its former version in any pack. A backup depends on packs, but not on another backup. A restore is slow if the
backup uses only a few pages of many frames. So every backup stores some pages of such frames, and of the least used
packs, again.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar, cast

import msgspec
import zstandard
from msgspec.structs import replace

from loader import age, defaults, units
from loader.age import Identities
from loader.errors import BackupDamaged, BackupEncrypted, FileUnsafe, NoSuchPath
from loader.ldif import with_counters
from loader.mdb import meta, readers
from loader.mdb.copy import KnownPages, PageBlock, PagePacks, PageStream, explained_packs
from loader.operations.backup.manifest import CHUNK, MAP, PACK, PAGES, Backup, Segment, StoredFile
from loader.operations.backup.options import Packing
from loader.progress import Meter
from loader.run.log import killpoint
from loader.storage import files, held
from loader.typed import Count, Digest32, Digest64, Unfit

log = logging.getLogger(__name__)
PIECE = 8 << 20  # bytes of data that a thread packs at once
_MAGIC = b"ditseed pack 1\n\0"
_END = struct.Struct("<Q")
_LARGEST_INDEX = 1 << 30  # bytes; a larger index is rejected; a pack of 25 TB has an index of this size
_LARGEST_PIECE = 64 << 20  # bytes; a larger piece is rejected, because a piece is assembled in memory
_LARGEST_RUN = 64  # bytes of a map per page of the database; a map larger than this plus _READ is rejected
_FIRST_PAGE = 2  # pages 0 and 1 are the meta pages
_AGAIN = 50  # a backup stores at most 1/50 of the shared pages again
_SAMPLES, _SAMPLE = (16, 256 << 10)  # number and bytes of the samples from which the compression is predicted
_READ = 1 << 20  # bytes per read

Task = TypeVar("Task")
Done = TypeVar("Done")
Data = TypeVar("Data", bound=Sized)


def in_order(
    work: Callable[[Task], Done], tasks: Iterable[Task], threads: int = 0, stop: Callable[[], None] = lambda: None
) -> Generator[Done, None, None]:
    """Like `map`, with `threads` threads (0: one per processor). Submits at most two tasks per thread ahead. At the
    end, also after an error, calls `stop`, which must end the tasks that are still running."""

    def yield_to_slapd() -> None:
        with suppress(OSError):  # on Linux, setpriority changes the priority of a single thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)

    threads = threads or defaults.processors()
    futures: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, "pack", initializer=yield_to_slapd) as pool:
        try:
            for task in tasks:
                futures.append(pool.submit(work, task))
                if len(futures) > 2 * threads:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()
            stop()


def paced(pieces: Iterable[Data], rate: int) -> Iterator[Data]:
    """Yields the pieces at up to `rate` bytes per second, or without a limit if `rate` is 0."""
    start, size = time.monotonic(), 0
    for piece in pieces:
        yield piece
        size += len(piece)
        if rate:
            time.sleep(max(0.0, start + size / rate - time.monotonic()))


def predicted(directory: Path, level: int) -> int:
    """Returns the expected bytes of a full backup, computed from samples of data.mdb. Free pages do not count."""
    page, free_pages = readers.free_list(directory)
    compressor, data, stored = zstandard.ZstdCompressor(level=level), 1, 1
    with files.reading(meta.data_file(directory)) as file:
        for number in range(_SAMPLES):
            piece = os.pread(file.fileno(), _SAMPLE, page.used * number // _SAMPLES)
            data += len(piece)
            stored += len(compressor.compress(piece))
    return max(0, page.used - sum(free_pages.values()) * page.page_size) * stored // data


def write(path: Path, content: Iterable[bytes], packing: Packing) -> StoredFile:
    """Writes a durable private file (mode 0600); if there are recipients, encrypted as NAME.age. Raises NoSpace."""
    path = path.with_name(packing.stored_name(path.name))
    size, chunk, sums = 0, hashlib.sha256(), list[str]()

    with _created(path) as file, files.explained(path):

        def put(part: bytes) -> None:
            """Writes a part and starts its write-back, so that it does not displace slapd's pages in the page cache."""
            nonlocal size, chunk
            files.require_space(path, packing.keep_free + len(part))
            remaining = memoryview(part)
            while remaining:  # an unbuffered file may write fewer bytes than requested
                written = file.write(remaining[: CHUNK - size % CHUNK])
                chunk.update(remaining[:written])
                size, remaining = size + written, remaining[written:]
                if size % CHUNK == 0:
                    sums.append(chunk.hexdigest())
                    chunk = hashlib.sha256()
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        if packing.recipients is None:
            for part in content:
                put(part)
        else:
            packing.recipients.encrypt_stream(content, put)
    files.make_durable(path)
    return StoredFile(path.name, size, (*sums, *[chunk.hexdigest()] * (size % CHUNK > 0)))


def _created(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    return cast(BinaryIO, os.fdopen(descriptor, "wb", buffering=0))


def require_length(path: Path, length: int, stored: StoredFile) -> None:
    """Raises BackupDamaged if `length` differs from the length in the manifest."""
    if length != stored.bytes:
        reason = f"has {units.number(length)} bytes, the manifest says {units.number(stored.bytes)}"
        raise BackupDamaged(path=path, reason=reason)


def require_sums(path: Path, stored: StoredFile) -> None:
    """Raises BackupDamaged if a chunk of the file does not match its checksum."""
    for number in range(len(stored.sums)):
        _require_sum(path, stored, number)


def _require_sum(path: Path, stored: StoredFile, number: int) -> int:
    """Compares chunk `number` with its checksum. Returns the chunk's length in bytes."""
    with opened(path) as descriptor:
        require_length(path, os.fstat(descriptor).st_size, stored)
        start, end = number * CHUNK, min(stored.bytes, (number + 1) * CHUNK)
        digest = hashlib.sha256()
        with held.named(path):
            for at in range(start, end, _READ):
                digest.update(os.pread(descriptor, min(_READ, end - at), at))
            os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
    if digest.hexdigest() != stored.sums[number]:
        raise BackupDamaged(path=path, reason="its sha256 differs from the one in the manifest")
    return end - start


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Yields a descriptor for reading. Raises BackupDamaged if the file is missing or not a regular file."""
    try:
        with files.explained(path):
            descriptor = held.reading(path, links=False)
    except NoSuchPath:
        raise BackupDamaged(path=path, reason="it is missing") from None
    except FileUnsafe as error:
        raise BackupDamaged(path=path, reason="is not a regular file") from error
    with held.closing_descriptor(descriptor):
        yield descriptor


Compared = dict[tuple[str, int], int]  # (file name, chunk number) -> bytes of a chunk that matched its checksum


def verify(repo: Path, backup: Backup, is_chosen: Callable[[int], bool], compared: Compared, meter: Meter) -> int:
    """Compares the chunks that `is_chosen` selects with their checksums. Chunks in `compared` are not read again.
    Returns the total bytes of the selected chunks. Raises BackupDamaged."""

    def check(chunk: tuple[str, StoredFile, int]) -> int:
        name, stored, number = chunk
        if (name, number) not in compared:
            compared[name, number] = _require_sum(repo / name, stored, number)
        return compared[name, number]

    chunks = [(name, stored, number) for name, stored in backup.stored() for number in range(len(stored.sums))]
    size = 0
    for length in in_order(check, [chunk for number, chunk in enumerate(chunks) if is_chosen(number)]):
        size += length
        meter.add(size=length)
    return size


def content(directory: Path, backup: Backup, name: str, identities: Identities | None) -> bytes:
    """Returns the decrypted small file `name`. Raises BackupEncrypted, or BackupDamaged if its checksum differs."""
    path, parts = directory / backup.stored_name(name), list[bytes]()
    _require_sums_of(backup, path)
    _read(path, backup, identities, parts.append)
    return b"".join(parts)


@contextmanager
def plain(directory: Path, backup: Backup | Segment, identities: Identities | None, target: Path) -> Iterator[Path]:
    """Yields the path of the unencrypted data file. If the data file is encrypted, decrypts it to `target`, a file in a
    private directory, and removes `target` at the end. Raises BackupDamaged, BackupEncrypted, NoSpace."""
    path = directory / backup.file
    if not backup.is_encrypted:
        yield path
        return
    try:
        with files.explained(target), _created(target) as file:
            _read(path, backup, identities, file.write)
        yield target
    finally:
        target.unlink(missing_ok=True)


def _read(path: Path, backup: Backup | Segment, identities: Identities | None, put: Callable[[bytes], object]) -> None:
    with opened(path) as descriptor, open(os.dup(descriptor), "rb") as file:
        if not backup.is_encrypted:
            put(file.read())
            return
        if identities is None:
            raise BackupEncrypted(path=path, reason="no identity is given")
        try:
            identities.decrypt_stream(file, put)
        except age.NotARecipient:
            _require_sums_of(backup, path)
            raise BackupEncrypted(path=path, reason="none of the given identities is one of its recipients") from None
        except age.Broken:
            _require_sums_of(backup, path)
            raise BackupDamaged(path=path, reason="it cannot be decrypted") from None


def _require_sums_of(backup: Backup | Segment, path: Path) -> None:
    require_sums(path, next(stored for stored in backup.files if stored.name == path.name))


_U32 = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class PackUse(msgspec.Struct, frozen=True):
    """A pack that a map refers to. `number`: name of the pack in runs. `sha256`: SHA-256 of its index. `pages`: number
    of its pages. `used`: number of those pages that the backup uses, including bases of differences."""

    number: _U32
    sha256: Digest64
    pages: _U32
    used: _U32

    @property
    def name(self) -> str:
        """The file name of a shared pack."""
        return f"{self.sha256}.pack"


class PagePiece(msgspec.Struct, frozen=True):
    """Consecutive pages of a database. `pages`: number of pages. `runs`: where they are stored. `fresh`: number of
    these pages that this backup added to its own pack. `xxh3`: checksum over all the pages."""

    pages: _U32
    runs: bytes
    fresh: _U32
    xxh3: Digest32


@dataclass(frozen=True)
class PageMap:
    """The content of pages.map. `head` has both meta pages. `own` is the number of the pack that this backup wrote.
    `transaction` is the transaction ID in every page header (LMDB data format 3), or None in format 1."""

    page_size: Annotated[int, msgspec.Meta(ge=512, le=65536)]
    transaction: Count | None
    own: _U32
    packs: tuple[PackUse, ...]
    head: bytes
    pieces: tuple[PagePiece, ...]

    def segments(self) -> list[tuple[bytes, int, int]]:
        """Returns for each piece: its runs, the sum of `fresh` of all earlier pieces, and its number of pages."""
        before = itertools.accumulate((piece.fresh for piece in self.pieces), initial=0)
        return [(piece.runs, first, piece.pages) for piece, first in zip(self.pieces, before, strict=False)]

    def text(self) -> bytes:
        return zstandard.ZstdCompressor(level=9, write_checksum=True).compress(msgspec.msgpack.encode(self))


def read_map(directory: Path, backup: Backup, identities: Identities | None = None) -> PageMap:
    """Reads pages.map. Raises BackupEncrypted, or BackupDamaged if the map is not valid for this backup."""
    stored = content(directory, backup, MAP, identities)
    most = _READ + _LARGEST_RUN * (backup.data_bytes // max(512, backup.page_size))
    try:
        if zstandard.get_frame_parameters(stored).content_size > most:
            raise Unfit("is larger than the map of any backup of its size")
        page_map = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(stored), type=PageMap)
        size, pieces, uses = page_map.page_size, page_map.pieces, page_map.packs
        if size != backup.page_size or len(page_map.head) != 2 * size:
            raise Unfit("its page size differs from that of the manifest")
        if (_FIRST_PAGE + sum(piece.pages for piece in pieces)) * size != backup.data_bytes:
            raise Unfit("the size of its pieces differs from the data size in the manifest")
        if any(piece.pages * size > _LARGEST_PIECE for piece in pieces):
            raise Unfit("one of its pieces is larger than those that ditseed writes")
        if any(not 0 < use.used <= use.pages for use in uses):
            raise Unfit("it uses no page of a pack, or more pages than the pack has")
        if backup.incremental and {use.name for use in uses} != {stored.name for stored in backup.packs}:
            raise Unfit("its packs differ from those in the manifest")
        if not backup.incremental and len(uses) > 1:
            raise Unfit("a full backup has one pack")
    except (Unfit, zstandard.ZstdError, msgspec.MsgspecError, MemoryError) as error:
        raise BackupDamaged(path=directory / backup.stored_name(MAP), reason=error) from error
    return page_map


class PreviousBackup(msgspec.Struct, frozen=True):
    """The pages of the previous backup that the new backup can share. `own` is the number of the new pack."""

    known: KnownPages = msgspec.field(default_factory=lambda: KnownPages(None, (), 0, again=0))
    uses: tuple[PackUse, ...] = ()
    packs: tuple[StoredFile, ...] = ()
    own: int = 0


def previous(repo: Path, backup: Backup) -> PreviousBackup:
    """Returns the pages of `backup` that a new backup can share; none if `backup` is damaged."""
    try:
        page_map = read_map(repo / backup.id, backup)
        again = sum(use.used for use in page_map.packs) // _AGAIN
        packs = _packs(repo, backup, page_map)
        with explained_packs(repo / backup.id):
            known_pages = KnownPages(packs, page_map.segments(), page_map.own, again=again)
        return PreviousBackup(known_pages, page_map.packs, backup.packs, page_map.own + 1)
    except BackupDamaged as error:
        log.warning("no pages are shared with %s, all are stored: %s", backup.id, error)
        return PreviousBackup()


class StoredPages(msgspec.Struct, frozen=True):
    """The files of a new backup. `own`: the new pack, in the backup's directory. `packs`: the packs that an incremental
    backup uses, the new pack last. `shared_name`: name of the new pack in `packs`, or None if the pack is empty."""

    map: StoredFile
    own: StoredFile
    packs: tuple[StoredFile, ...]
    shared_name: str | None

    def publish(self, repo: Path, directory: Path) -> None:
        """Moves the new pack into the directory of shared packs, or removes it if it is empty. If the run is killed
        before it publishes the backup, the next run removes the pack."""
        if self.shared_name is None:
            (directory / PACK).unlink()
            return
        with held.private(repo / PAGES) as shared:
            shared.move_in(directory / PACK, self.shared_name)


def store(stream: PageStream, directory: Path, before: PreviousBackup, packing: Packing, meter: Meter) -> StoredPages:
    """Writes two files to a private directory: a map of the snapshot's pages, and a pack of those pages that are not in
    the previous backup. Raises NoSpace, MdbDamaged."""
    facts, pieces, index = stream.facts, list[PagePiece](), bytearray(_MAGIC)
    # In a compacted copy, page headers have a transaction ID one less than that of the meta pages.
    transaction = None if facts.format == 1 else max(0, facts.txnid - 1)

    def numbered() -> Iterator[tuple[int, PageBlock]]:
        first = _FIRST_PAGE
        for piece in paced(stream.pieces(), packing.throttle):
            yield first, piece
            first += len(piece) // facts.page_size

    def sift(task: tuple[int, PageBlock]) -> tuple[PagePiece, bytes, bytes]:
        """Returns the piece, the compressed frames of its new pages, and their entries in the index."""
        first, data = task
        with explained_packs(directory):
            (runs, frames, entries, xxh3), fresh = before.known.sift(
                data, first, before.own, page_size=facts.page_size, transaction=transaction, level=packing.level
            )
        return PagePiece(len(data) // facts.page_size, runs, fresh, xxh3.hex()), frames, entries

    def packed() -> Iterator[bytes]:
        stored = 0
        for piece, frames, entries in in_order(sift, numbered()):
            pieces.append(piece)
            index.extend(entries)
            stored += len(frames)
            meter.note = f"{units.size(stream.size)}, {units.size(stored)} stored"
            yield frames
            killpoint("copy.middle")
        yield bytes(index) + _END.pack(len(index))

    new_pack = write(directory / PACK, packed(), packing)
    used = dict(before.known.used())
    uses = [replace(use, used=used[use.number]) for use in before.uses if used.get(use.number, 0)]
    packs = [stored for stored in before.packs if stored.name in {use.name for use in uses}]
    shared_name = None
    if fresh := sum(piece.fresh for piece in pieces):
        uses.append(PackUse(before.own, hashlib.sha256(index).hexdigest(), fresh, fresh))
        shared_name = uses[-1].name
        packs.append(replace(new_pack, name=shared_name))
    page_map = PageMap(facts.page_size, transaction, before.own, tuple(uses), stream.head, tuple(pieces))
    stored_map = write(directory / MAP, [page_map.text()], packing)
    return StoredPages(stored_map, new_pack, tuple(packs), shared_name)


def unpack(repo: Path, backup: Backup, target: Path, meter: Meter, identities: Identities | None) -> None:
    """Writes the database of a backup to `target`, a new sparse file (mode 0600) in a private directory. Compares all
    pages with checksums. Raises BackupDamaged, BackupEncrypted, NoSpace."""
    directory = repo / backup.id
    page_map = read_map(directory, backup, identities)
    sums = (bytes.fromhex(piece.xxh3) for piece in page_map.pieces)
    pieces = list(zip(page_map.segments(), sums, strict=True))
    with ExitStack() as stack:
        pack_path = None
        if not backup.incremental:
            pack_path = stack.enter_context(plain(directory, backup, identities, target.with_name(PACK)))
        packs = _packs(repo, backup, page_map, pack_path)
        with (
            files.explained(target),
            _created(target) as out,
            with_counters(meter) as counters,
            explained_packs(directory / backup.file),
        ):
            packs.restore(page_map.head, pieces, page_map.own, out.fileno(), defaults.processors(), counters)


def _packs(repo: Path, backup: Backup, page_map: PageMap, pack_path: Path | None = None) -> PagePacks:
    """Opens the packs of a map. `pack_path` is the decrypted pack of a full backup. Raises BackupDamaged if a pack
    cannot be read, or if the SHA-256 of its index differs from that in the map."""
    with ExitStack() as stack:
        packs = []
        for use in page_map.packs:
            path = repo / backup.id / backup.file if pack_path else repo / PAGES / use.name
            descriptor = stack.enter_context(opened(pack_path or path))
            size = os.fstat(descriptor).st_size - _END.size
            if size < 0:
                raise BackupDamaged(path=path, reason="is too short for a pack")
            (length,) = _END.unpack(os.pread(descriptor, _END.size, size))
            if not len(_MAGIC) <= length <= min(size, _LARGEST_INDEX):
                raise BackupDamaged(path=path, reason="its index is not where it should be")
            index = os.pread(descriptor, length, size - length)
            if hashlib.sha256(index).hexdigest() != use.sha256 or not index.startswith(_MAGIC):
                raise BackupDamaged(path=path, reason="the sha256 of its index differs from the one in the map")
            packs.append((use.number, held.through(descriptor), path, index[len(_MAGIC) :]))
        with explained_packs(repo / backup.id):
            return PagePacks(packs, page_map.page_size, page_map.transaction)
