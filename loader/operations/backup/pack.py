"""The files of a backup: written, encrypted, read and compared with their checksums.

The pages of a snapshot are stored in a pack, in frames of up to 256 pages; behind these is the index of the frames,
with a checksum of each, and then its length. pages.map holds both meta pages, and which runs of pages of which packs
the backup consists of.

Incremental backups share packs. A pack is then named by the SHA-256 of its index. Pages are known by their content
without their number, for a compacted copy numbers them anew. A page that has changed a little is stored as what differs
from the former one, in whatever pack that is. No backup needs another one, only packs. So that a restore does not
unpack frames of old packs for a few pages each, pages of nearly empty frames and of the packs that are used least are
stored again, a few in each backup.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar, cast

import msgspec
import zstandard
from click import IntRange

from loader import age, resources, units
from loader.age import Identities, Recipients
from loader.declared import Size
from loader.errors import BackupDamaged, BackupEncrypted, FileUnsafe, NoSuchPath
from loader.mdb import meta
from loader.mdb.copy import Known, PackFile, Packs, PageBlock, PageStream, Segment, Shape, Sifted, Stored
from loader.operations.backup.manifest import CHUNK, MAP, PACK, PAGES, Backup, StoredFile
from loader.progress import Meter
from loader.run.log import killpoint
from loader.storage import files, held
from loader.typed import Unfit

log = logging.getLogger(__name__)
PIECE = 8 << 20  # bytes of data that a thread packs at once
LEVEL = 2  # of zstd: pages come to 3 % more than at 3, in two thirds of the time
_MAGIC = b"ditseed pack 1\n\0"
_END = struct.Struct("<Q")
_LARGEST_INDEX = 1 << 30  # bytes; that of a pack of 25 TB
_LARGEST_PIECE = 64 << 20  # bytes of data, which are put together in memory
_LARGEST_RUN = 64  # bytes of the map for a page, at most
_FIRST_PAGE = 2  # behind both meta pages
_AGAIN = 50  # one in so many pages is stored again, at most
_SAMPLES, _SAMPLE = (16, 256 << 10)  # parts of a file that tell how far it can be compressed; bytes of one
_READ = 1 << 20  # bytes that are read at once
_NICE = 10  # of the threads that pack: slapd's come first

Given = TypeVar("Given")
Done = TypeVar("Done")
Data = TypeVar("Data", bound=Sized)


@dataclass(frozen=True)
class Packing:
    """level: of zstd. throttle: bytes of data a second (0: no limit). keep_free: bytes of the disk. recipients: those
    whom the backup is encrypted for; None: it is not."""

    level: Annotated[
        int, "--compress-level", IntRange(1, 19), "Level of zstd; a higher level makes a smaller file and takes longer."
    ] = LEVEL
    throttle: Annotated[
        int,
        "--throttle SIZE",
        Size(),
        {"show_default": False},
        "Read no more of the database than that each second (default: as fast as the disk gives it).",
    ] = 0
    keep_free: Annotated[
        int,
        "--keep-free SIZE",
        Size(),
        {"show_default": False},
        "Refuse, or stop, rather than leave less free space than that in the repository.",
    ] = 0
    recipients: Recipients | None = None
    ldif: bool = False

    def stored_name(self, name: str) -> str:
        return name if self.recipients is None else name + age.SUFFIX


PACKING = Packing()


def in_order(work: Callable[[Given], Done], given: Iterable[Given]) -> Iterator[Done]:
    """As `map`, by as many threads as there are processors, no more than two pieces of work for each ahead."""
    threads = resources.processors()
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads, "pack", initializer=_be_nice) as pool:
        try:
            for one in given:
                waiting.append(pool.submit(work, one))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _be_nice() -> None:
    with suppress(OSError):  # of this thread alone, as Linux has it
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def paced(pieces: Iterable[Data], rate: int) -> Iterator[Data]:
    """No more than `rate` bytes a second, if it is not 0."""
    started, size = time.monotonic(), 0
    for piece in pieces:
        yield piece
        size += len(piece)
        if rate:
            time.sleep(max(0.0, started + size / rate - time.monotonic()))


def predicted(source: Path, how: Packing, left_out: int = 0) -> int:
    """Bytes that a data file will come to, by a sample of its pages. left_out: bytes of it that are not packed."""
    used = meta.read_meta(source).used
    compressor, data, stored = zstandard.ZstdCompressor(level=how.level), 1, 1
    with files.reading(source) as file:
        for number in range(_SAMPLES):
            piece = os.pread(file.fileno(), _SAMPLE, used * number // _SAMPLES)
            data += len(piece)
            stored += len(compressor.compress(piece))
    return max(0, used - left_out) * stored // data


# --- files ----------------------------------------------------------------------------------------


class _Output:
    """A new file that grows at its end, with its checksums. file: unbuffered."""

    def __init__(self, file: BinaryIO, path: Path, keep_free: int) -> None:
        self._file, self._path, self._keep_free = file, path, keep_free
        self._chunk, self._sums = hashlib.sha256(), list[str]()
        self.size = 0

    def write(self, content: bytes) -> None:
        """What was written begins to be stored now, and leaves the page cache to slapd once it is."""
        files.require_space(self._path, self._keep_free + len(content))
        rest = memoryview(content)
        while rest:  # one write to an unbuffered file may take only a part
            written = self._file.write(rest[: CHUNK - self.size % CHUNK])
            self._chunk.update(rest[:written])
            self.size, rest = self.size + written, rest[written:]
            if self.size % CHUNK == 0:
                self._sums.append(self._chunk.hexdigest())
                self._chunk = hashlib.sha256()
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def sums(self) -> tuple[str, ...]:
        return (*self._sums, *[self._chunk.hexdigest()] * (self.size % CHUNK > 0))


def write(path: Path, content: Iterable[bytes], how: Packing) -> StoredFile:
    """A new file (mode 0600) in a private directory, durable, encrypted for the recipients. Raises NoSpace."""
    with _created(path) as file, files.explained(path):
        out = _Output(file, path, how.keep_free)
        if how.recipients is None:
            for part in content:
                out.write(part)
        else:
            how.recipients.encrypt_stream(content, out.write)
    files.make_durable(path)
    return StoredFile(path.name, out.size, out.sums())


@contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        yield cast(BinaryIO, file)


def small(backup: Backup) -> Iterator[StoredFile]:
    """The files that tell of the data, and the configuration."""
    names = backup.stored_name(MAP), backup.config_file
    return (one for one in backup.files if one.name in names)


def require_length(path: Path, length: int, stored: StoredFile) -> None:
    """Raise BackupDamaged."""
    if length != stored.bytes:
        reason = f"has {units.number(length)} bytes, the manifest says {units.number(stored.bytes)}"
        raise BackupDamaged(path=path, reason=reason)


def require_sums(path: Path, stored: StoredFile) -> None:
    """Raise BackupDamaged unless the whole file is as it was stored."""
    for number in range(len(stored.sums)):
        _require_sum(path, stored, number)


def _require_sum(path: Path, stored: StoredFile, number: int) -> int:
    """Compares a chunk; its length."""
    with _opened(path) as descriptor:
        require_length(path, os.fstat(descriptor).st_size, stored)
        start, end = number * CHUNK, min(stored.bytes, (number + 1) * CHUNK)
        digest = hashlib.sha256()
        with held.named(path):
            for at in range(start, end, _READ):
                digest.update(os.pread(descriptor, min(_READ, end - at), at))
            os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)
    if digest.hexdigest() != stored.sums[number]:
        raise BackupDamaged(path=path, reason="its sha256 is not the one in the manifest")
    return end - start


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Raises BackupDamaged."""
    try:
        with files.explained(path):
            descriptor = held.reading(path, links=False)
    except NoSuchPath:
        raise BackupDamaged(path=path, reason="it is missing") from None
    except FileUnsafe as error:
        raise BackupDamaged(path=path, reason="is not a regular file") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# Chunks that were found to be as they should: their lengths by the name of the file and their number.
Compared = dict[tuple[str, int], int]


def verify(repo: Path, backup: Backup, chosen: Callable[[int], bool], compared: Compared, meter: Meter) -> int:
    """Compare what is stored with its checksums, those chunks that are `chosen`; the bytes that were compared, now or
    for a backup before it. Raises BackupDamaged."""

    def check(chunk: tuple[str, StoredFile, int]) -> int:
        name, stored, number = chunk
        if (name, number) not in compared:
            compared[name, number] = _require_sum(repo / name, stored, number)
        return compared[name, number]

    chunks = ((name, stored, number) for name, stored in backup.stored() for number in range(len(stored.sums)))
    size = 0
    for length in in_order(check, (one for number, one in enumerate(chunks) if chosen(number))):
        size += length
        meter.add(size=length)
    return size


def content(directory: Path, backup: Backup, name: str, identities: Identities | None) -> bytes:
    """A small file, compared with its checksum, and decrypted. Raises BackupDamaged, BackupEncrypted."""
    stored = next(one for one in backup.files if one.name == backup.stored_name(name))
    path = directory / stored.name
    require_sums(path, stored)
    parts = list[bytes]()
    _read(path, backup, identities, parts.append)
    return b"".join(parts)


@contextmanager
def plain(directory: Path, backup: Backup, identities: Identities | None, target: Path) -> Iterator[Path]:
    """The file with the data; if it is encrypted, it is decrypted to `target`, a new file in a private directory, which
    is removed in the end. Raises BackupDamaged, BackupEncrypted, NoSpace."""
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


def _read(path: Path, backup: Backup, identities: Identities | None, put: Callable[[bytes], object]) -> None:
    with _opened(path) as descriptor, open(os.dup(descriptor), "rb") as file:
        if not backup.is_encrypted:
            put(file.read())
            return
        if identities is None:
            raise BackupEncrypted(path=path, reason="no identity is given")
        try:
            identities.decrypt_stream(file, put)
        except age.NotARecipient:
            require_sums(path, next(one for one in backup.files if one.name == path.name))
            reason = "none of the identities that are given is one of its recipients"
            raise BackupEncrypted(path=path, reason=reason) from None
        except age.Broken:
            raise BackupDamaged(path=path, reason="it cannot be decrypted") from None


def unlocked(directory: Path, backup: Backup, paths: tuple[Path, ...]) -> Identities | None:
    """What decrypts the backup, of files of keys; None for one that is not encrypted. Raises BackupEncrypted,
    UsageProblem, NoSuchPath, NotPermitted, PackageMissing."""
    if not backup.is_encrypted:
        return None
    if not paths:
        raise BackupEncrypted(path=directory, reason="no identity is given")
    return age.identities(paths)


# --- which pages a backup consists of -------------------------------------------------------------


@dataclass(frozen=True)
class PackUse:
    """A pack: its number in the runs, the SHA-256 of its index, how many pages it holds and how many of them are used,
    those that others are stored beside among them."""

    number: int
    sha256: str
    pages: int
    used: int

    @property
    def name(self) -> str:
        """Of a pack that is shared."""
        return f"{self.sha256}.pack"


@dataclass(frozen=True)
class PagePiece:
    """Consecutive pages: how many, their runs, how many were new, the XXH3 of them all."""

    pages: int
    runs: bytes
    fresh: int
    xxh3: str


@dataclass(frozen=True)
class PageMap:
    """What pages.map holds. head: both meta pages. own: the number of the pack that was made for the backup.
    transaction: which every page bears, in format 3 of the data."""

    page_size: int
    transaction: int | None
    own: int
    packs: tuple[PackUse, ...]
    head: bytes
    pieces: tuple[PagePiece, ...]

    @property
    def shape(self) -> Shape:
        return Shape(self.page_size, self.transaction)

    @property
    def data_bytes(self) -> int:
        return len(self.head) + self.page_size * sum(piece.pages for piece in self.pieces)

    def segments(self) -> Iterator[Segment]:
        before = 0
        for piece in self.pieces:
            yield Segment(piece.runs, piece.pages, self.own, before)
            before += piece.fresh

    def text(self) -> bytes:
        compressor = zstandard.ZstdCompressor(level=9, write_checksum=True)
        return compressor.compress(msgspec.msgpack.encode(self))


def read_map(directory: Path, backup: Backup, identities: Identities | None = None) -> PageMap:
    """Raises BackupDamaged, BackupEncrypted."""
    stored = content(directory, backup, MAP, identities)
    pages = backup.data_bytes // max(512, backup.page_size)
    try:
        if zstandard.get_frame_parameters(stored).content_size > _READ + _LARGEST_RUN * pages:
            raise Unfit("holds more than the map of any backup of its size")
        decompressed = zstandard.ZstdDecompressor().decompress(stored)
        found = msgspec.msgpack.decode(decompressed, type=PageMap)
        _require_sense(found, backup)
    except (Unfit, zstandard.ZstdError, msgspec.MsgspecError, MemoryError) as error:
        path = directory / backup.stored_name(MAP)
        raise BackupDamaged(path=path, reason=error) from error
    return found


def _require_sense(found: PageMap, backup: Backup) -> None:
    size = found.page_size
    if not 512 <= size <= 65536 or size != backup.page_size or len(found.head) != 2 * size:
        raise Unfit("its pages have another size than the manifest says")
    if found.data_bytes != backup.data_bytes:
        raise Unfit("its pieces do not make up the data that the manifest tells of")
    if any(not 0 <= piece.pages * size <= _LARGEST_PIECE for piece in found.pieces):
        raise Unfit("one of its pieces is larger than any that ditseed writes")
    if any(not 0 < use.used <= use.pages < 2**32 > use.number >= 0 for use in found.packs):
        raise Unfit("what it says of its packs makes no sense")
    if not 0 <= found.own < 2**32 or any(not 0 <= one.fresh < 2**32 for one in found.pieces):
        raise Unfit("what it says of its packs makes no sense")
    if any(len(one.xxh3) != 32 or {*one.xxh3} - {*"0123456789abcdef"} for one in found.pieces):
        raise Unfit("a checksum is missing")
    if found.transaction is not None and not 0 <= found.transaction < 2**64:
        raise Unfit("its transaction makes no sense")
    packs = {one.name for one in backup.packs}
    if backup.incremental and {use.name for use in found.packs} != packs:
        raise Unfit("its packs are not those of the manifest")
    if not backup.incremental and len(found.packs) > 1:
        raise Unfit("a full backup has one pack")


# --- storing and restoring pages ------------------------------------------------------------------


@dataclass(frozen=True)
class Earlier:
    """The backup whose pages are shared. own: the number of the new pack."""

    known: Known
    uses: tuple[PackUse, ...] = ()
    packs: tuple[StoredFile, ...] = ()
    own: int = 0


def nothing() -> Earlier:
    return Earlier(Known())


def earlier(repo: Path, backup: Backup) -> Earlier:
    """None of its pages, if the backup is damaged: what is stored then has to be whole without it."""
    try:
        found = read_map(repo / backup.id, backup)
        again = sum(use.used for use in found.packs) // _AGAIN
        known = Known.of(_packs(repo, backup, found), tuple(found.segments()), again)
        return Earlier(known, found.packs, backup.packs, found.own + 1)
    except BackupDamaged as error:
        log.warning("no pages are shared with %s, all are stored: %s", backup.id, error)
        return nothing()


@dataclass(frozen=True)
class StoredPages:
    """own: the pack that was made, under its name in the backup's own directory. shared:
    the packs of others."""

    map: StoredFile
    pages: PageMap
    own: StoredFile
    shared: tuple[StoredFile, ...]

    @property
    def packs(self) -> tuple[StoredFile, ...]:
        """Of an incremental backup."""
        uses = [use for use in self.pages.packs if use.number == self.pages.own]
        return (*self.shared, *(replace(self.own, name=use.name) for use in uses))

    @property
    def stored_bytes(self) -> int:
        return self.map.bytes + self.own.bytes

    @property
    def full_bytes(self) -> int:
        """As much for each page as the largest pack takes, for small ones hold differences."""
        largest = max(self.pages.packs, key=lambda use: self._bytes(use), default=None)
        count = sum(piece.pages for piece in self.pages.pieces)
        return self.map.bytes + (count * self._bytes(largest) // largest.pages if largest else 0)

    def _bytes(self, use: PackUse) -> int:
        sizes = {one.name: one.bytes for one in self.packs}
        return sizes[use.name]


def store(stream: PageStream, home: Path, before: Earlier, how: Packing, meter: Meter) -> StoredPages:
    """Write the pages of a snapshot that are not known `before` into a pack in `home`, a private directory, and the map
    beside it. Raises NoSpace, MdbDamaged."""
    facts = stream.facts
    # A compacted copy's pages are of the transaction before that of its meta pages.
    shape = Shape(facts.page_size, None if facts.format == 1 else max(0, facts.txnid - 1))
    pieces, index = list[PagePiece](), bytearray(_MAGIC)

    def numbered() -> Iterator[tuple[int, PageBlock]]:
        first = _FIRST_PAGE
        for piece in paced(stream.pieces(), how.throttle):
            yield first, piece
            first += len(piece) // facts.page_size

    def sifted(one: tuple[int, PageBlock]) -> tuple[Sifted, int]:
        first, data = one
        return before.known.sift(data, first, before.own, shape, how.level), len(data)

    def packed() -> Iterator[bytes]:
        stored = 0
        for found, length in in_order(sifted, numbered()):
            count = length // facts.page_size
            pieces.append(PagePiece(count, found.runs, found.fresh, found.xxh3))
            index.extend(found.entries)
            stored += len(found.frames)
            meter.note = f"{units.size(stream.size)}, {units.size(stored)} stored"
            yield found.frames
            killpoint("copy.middle")
        yield bytes(index) + _END.pack(len(index))

    own = write(home / how.stored_name(PACK), packed(), how)
    fresh = sum(piece.fresh for piece in pieces)
    used = before.known.used()
    uses = [replace(use, used=used[use.number]) for use in before.uses if used.get(use.number, 0)]
    if fresh:
        uses.append(PackUse(before.own, hashlib.sha256(index).hexdigest(), fresh, fresh))
    names = {use.name for use in uses}
    found = PageMap(*(facts.page_size, shape.transaction, before.own), *(tuple(uses), stream.head, tuple(pieces)))
    stored_map = write(home / how.stored_name(MAP), [found.text()], how)
    shared = tuple(one for one in before.packs if one.name in names)
    return StoredPages(stored_map, found, own, shared)


def publish(repo: Path, home: Path, stored: StoredPages) -> None:
    """Put the new pack among those that are shared. Until a backup needs it, the next run removes it."""
    for use in stored.pages.packs:
        if use.number == stored.pages.own:
            with held.private(repo / PAGES) as directory:
                directory.take(home / PACK, use.name)
            return
    (home / PACK).unlink()


def unpack(repo: Path, backup: Backup, target: Path, meter: Meter, identities: Identities | None) -> None:
    """Write the database of a backup to `target` (mode 0600), a new file in a private directory, holes where it has
    zeros, each byte checked. Raises BackupDamaged, BackupEncrypted, NoSpace."""
    directory = repo / backup.id
    found = read_map(directory, backup, identities)
    stored = Stored(found.head, tuple(found.segments()), [one.xxh3 for one in found.pieces])
    with ExitStack() as stack:
        pack = None
        if not backup.incremental:
            decrypted = target.with_name(PACK)
            pack = stack.enter_context(plain(directory, backup, identities, decrypted))
        packs = _packs(repo, backup, found, pack)
        with files.explained(target), _created(target) as out:
            packs.restore(stored, out, directory / backup.file, meter)


def _packs(repo: Path, backup: Backup, found: PageMap, own: Path | None = None) -> Packs:
    """own: the pack of a full backup, decrypted. Raises BackupDamaged."""
    with ExitStack() as stack:
        opened = []
        for use in found.packs:
            name = repo / backup.id / backup.file if own else repo / PAGES / use.name
            descriptor = stack.enter_context(_opened(own or name))
            index = _index(descriptor, name, use)
            opened.append(PackFile(use.number, held.through(descriptor), name, index))
        return Packs(opened, found.shape)


def _index(descriptor: int, path: Path, use: PackUse) -> bytes:
    """The entries of the frames."""
    size = os.fstat(descriptor).st_size
    if size < _END.size:
        raise BackupDamaged(path=path, reason="is too short for a pack")
    (length,) = _END.unpack(os.pread(descriptor, _END.size, size - _END.size))
    if not len(_MAGIC) <= length <= min(size - _END.size, _LARGEST_INDEX):
        raise BackupDamaged(path=path, reason="its index is not where it should be")
    index = os.pread(descriptor, length, size - _END.size - length)
    if hashlib.sha256(index).hexdigest() != use.sha256 or not index.startswith(_MAGIC):
        raise BackupDamaged(path=path, reason="the sha256 of its index is not that of the map")
    return index[len(_MAGIC) :]
