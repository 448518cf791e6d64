"""The pages of a snapshot into a file of the repository and back: pieces, packed by as many threads as there are
processors, at lower priority than slapd's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import zstandard

from loader import units
from loader.age import Identities, Recipients
from loader.errors import BackupDamaged
from loader.mdb import meta
from loader.mdb.copy import PageBlock
from loader.operations.backup import encryption, manifest, shared
from loader.operations.backup.manifest import Backup, StoredList, StoredPiece
from loader.operations.backup.output import Output
from loader.operations.backup.parallel import in_order, sha256
from loader.operations.backup.shared import Compared
from loader.progress import Meter
from loader.run.killpoint import killpoint
from loader.storage import files, holes

PIECE = 8 << 20  # bytes of data; a copy of 1 TB has a list of 20 MB
LEVEL = 2  # of zstd: pages come to 3 % more than at 3, in two thirds of the time
_HEAD_ROOM = 1024  # for the frame around the meta pages, and what fills the rest
_SKIPPED = b"\x50\x2a\x4d\x18"  # magic number of a frame that zstd passes over (RFC 8878, 3.1.2)
_SAMPLES, _SAMPLE = 16, 256 << 10  # places in a file, bytes


@dataclass(frozen=True)
class Packing:
    """How: `throttle` in bytes of data a second (0: none), `keep_free` bytes of the disk. recipients: for whom it is
    encrypted; None: it is not."""

    compression: str = "zstd"
    level: int = LEVEL
    throttle: int = 0
    keep_free: int = 0
    recipients: Recipients | None = None
    ldif: bool = False

    @property
    def data_name(self) -> str:
        names = manifest.LDIF_NAMES if self.ldif else manifest.NAMES
        return manifest.stored_name(names[self.compression], self.recipients is not None)

    def protected(self, content: bytes) -> bytes:
        return content if self.recipients is None else self.recipients.encrypt(content)


PACKING = Packing()
Data = TypeVar("Data", bound=Sized)


class Stream(Protocol):
    """What is packed. head: what comes first in the data and is known last, of `head_bytes`; size: bytes so far."""

    head: bytes
    head_bytes: int
    size: int

    def pieces(self) -> Iterator[bytes | PageBlock]: ...


@dataclass(frozen=True)
class _Packed:
    """A piece as it will be stored. `data`: bytes of what is inside."""

    data: int
    stored: bytes
    sha256: str

    def at(self, start: int) -> StoredPiece:
        return StoredPiece(self.data, start, len(self.stored), self.sha256)


def pack(stream: Stream, out: Output, how: Packing, meter: Meter) -> StoredList:
    """Write the stream to `out`. The meta pages come last, and go to the room left at its beginning; encrypted, to the
    end, for then their length is not known before. Raises NoSpace, RemoteFailed."""
    room = 0 if how.recipients else _head_room(stream, how)
    out.append(bytes(room))
    head, pieces = [], []
    asked = paced(stream.pieces(), how.throttle)
    for packed in in_order(lambda data: _packed(data, how), asked):
        pieces.append(_appended(out, packed))
        meter.note = f"{units.size(stream.size)}, {units.size(out.size)} stored"
        killpoint("copy.middle")
    if stream.head_bytes:
        packed = _packed(stream.head, how, room)
        if room:
            out.put_first(packed.stored)
            head.append(packed.at(0))
        else:
            head.append(_appended(out, packed))
    return StoredList((*head, *pieces))


def _head_room(stream: Stream, how: Packing) -> int:
    if not stream.head_bytes:
        return 0
    return stream.head_bytes + (_HEAD_ROOM if how.compression == "zstd" else 0)


def _appended(out: Output, packed: _Packed) -> StoredPiece:
    start = out.size
    out.append(packed.stored)
    return packed.at(start)


def _packed(data: bytes | PageBlock, how: Packing, room: int = 0) -> _Packed:
    if how.compression == "zstd":
        stored = _compressed(data, how.level)
        if room:
            left = room - len(stored) - 8
            stored += _SKIPPED + left.to_bytes(4, "little") + bytes(left)
    else:
        stored = bytes(data)
    stored = how.protected(stored)
    return _Packed(len(data), stored, sha256(stored))


def _compressed(data: bytes | PageBlock, level: int) -> bytes:
    if isinstance(data, PageBlock):
        return data.compressed(level)
    return zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data)


def predicted(source: Path, how: Packing, left_out: int = 0) -> int:
    """Bytes that a data file will come to, by a sample of its pages. left_out: bytes of it that are not packed."""
    used = meta.read_meta(source).used
    wanted = max(0, used - left_out)
    if how.compression == "none":
        return wanted
    compressor, data, stored = zstandard.ZstdCompressor(level=how.level), 1, 1
    with files.reading(source) as file:
        for number in range(_SAMPLES):
            piece = os.pread(file.fileno(), _SAMPLE, used * number // _SAMPLES)
            data += len(piece)
            stored += len(compressor.compress(piece))
    return wanted * stored // data


def paced(pieces: Iterable[Data], rate: int) -> Iterator[Data]:
    """No more than `rate` bytes a second, if it is not 0."""
    started, size = time.monotonic(), 0
    for piece in pieces:
        yield piece
        size += len(piece)
        if rate:
            time.sleep(max(0.0, started + size / rate - time.monotonic()))


def unpack(
    directory: Path,
    backup: Backup,
    target: Path,
    meter: Meter,
    identities: Identities | None = None,
) -> None:
    """Write the database of a backup to `target` (mode 0600), holes where it has zeros, each byte checked. Raises
    BackupDamaged, BackupEncrypted, NoSpace."""
    stored = directory / backup.file
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        if backup.shares_pages:
            shared.unpack(directory, backup, out, meter)
            return
        known = manifest.pieces(directory, backup)
        require_length(stored, known.stored_bytes)
        unpacking = _Unpacking(stored, backup, identities)
        for data in in_order(lambda one: unpacking.data(*one), _stored_pieces(stored, known)):
            holes.write(out, data)
            meter.add(size=len(data))
        holes.finish(out)


@dataclass(frozen=True)
class _Unpacking:
    path: Path
    backup: Backup
    identities: Identities | None

    def data(self, number: int, piece: StoredPiece, stored: bytes) -> bytes:
        """What is inside a piece. Raises BackupDamaged, BackupEncrypted."""
        place = f"piece {number}"
        _require_stored(self.path, number, piece, stored)
        if self.backup.is_encrypted:
            stored = encryption.decrypted(stored, self.identities, self.path, place)
        data = self._decompressed(piece, stored, place)
        if len(data) != piece.data:
            reason = f"{place} does not hold as much as its list says"
            raise BackupDamaged(path=self.path, reason=reason)
        return data

    def _decompressed(self, piece: StoredPiece, stored: bytes, place: str) -> bytes:
        """zstd compares its checksum."""
        if self.backup.compression != "zstd":
            return stored
        try:
            if zstandard.get_frame_parameters(stored).content_size == piece.data:
                return zstandard.ZstdDecompressor().decompress(stored)
            reason = f"{place} holds another number of bytes than its list says"
        except zstandard.ZstdError as error:
            raise BackupDamaged(
                path=self.path, reason=f"{place} cannot be unpacked: {error}"
            ) from error
        raise BackupDamaged(path=self.path, reason=reason)


def verify_stored(
    directory: Path,
    backup: Backup,
    chosen: Callable[[int], bool],
    compared: Compared,
    meter: Meter,
) -> int:
    """Compare what is stored with its checksums, the pieces that are `chosen`; how many bytes. Raises BackupDamaged.

    compared: what backups share is read once for all of them.
    """
    stored = directory / backup.file
    if backup.shares_pages:
        return shared.verify(directory, backup, chosen, compared, meter)
    known = manifest.pieces(directory, backup)
    require_length(stored, known.stored_bytes)

    def check(one: tuple[int, StoredPiece, bytes]) -> int:
        number, piece, content = one
        _require_stored(stored, number, piece, content)
        return len(content)

    size = 0
    for length in in_order(check, _stored_pieces(stored, known, chosen)):
        size += length
        meter.add(size=length)
    return size


def _require_stored(path: Path, number: int, piece: StoredPiece, content: bytes) -> None:
    if sha256(content) != piece.stored_sha256:
        reason = f"the sha256 of piece {number} is not the one in its list"
        raise BackupDamaged(path=path, reason=reason)


def needed_bytes(directory: Path, backup: Backup) -> int:
    """All that is stored of what it consists of. Raises BackupDamaged, NoSuchPath."""
    return shared.needed_bytes(directory, backup) if backup.shares_pages else backup.stored_bytes


def require_whole(directory: Path, backup: Backup) -> None:
    """All that it needs is there, and as long as it should be. Raises BackupDamaged, NoSuchPath."""
    if backup.shares_pages:
        shared.require_whole(directory, backup)
    else:
        require_length(directory / backup.file, backup.stored_bytes)


def require_data(directory: Path, backup: Backup) -> None:
    """As far as names and lengths tell that, without what lists say. Raises BackupDamaged, NoSuchPath."""
    if backup.shares_pages:
        manifest.require_stored(directory / backup.file)
    else:
        require_length(directory / backup.file, backup.stored_bytes)


def require_length(stored: Path, wanted: int) -> None:
    """Raise BackupDamaged, NoSuchPath."""
    manifest.require_stored(stored)
    found = stored.stat().st_size
    if found != wanted:
        reason = f"has {units.number(found)} bytes, the manifest says {units.number(wanted)}"
        raise BackupDamaged(path=stored, reason=reason)


def _stored_pieces(
    path: Path,
    listed: StoredList,
    chosen: Callable[[int], bool] = lambda number: True,
) -> Iterator[tuple[int, StoredPiece, bytes]]:
    with files.reading(path) as file:
        for number, piece in enumerate(listed.pieces):
            if chosen(number):
                yield number, piece, os.pread(file.fileno(), piece.stored, piece.start)
