"""What lies beside the data of a backup: its manifest, and the list of the pieces that the data is stored in.

The data is a sequence of pieces, each compressed by itself, with a SHA-256 of what is stored; what is inside has the
checksum of zstd. The first piece holds both meta pages, the others PIECE bytes each. An incremental backup shares pages
with other backups instead (page_list.py).

In an encrypted backup each piece, compressed or not, is an age file of its own, and so is the configuration. There is
no SHA-256 of what is inside, which would tell whether a guess is right; age tells whether it is as it was.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from loader import age, typed
from loader.errors import BackupDamaged, ManifestBroken, NoSuchPath
from loader.operations.backup import sealed
from loader.storage import files
from loader.typed import Count, Csn, Digest64, Name, Seconds, Unfit

MANIFEST, PIECES, CONFIG = "manifest.json", "pieces.json", "config.ldif"
KINDS = MDB, LDIF = "mdb", "ldif"  # pages of the database, or its entries
NAMES = {"zstd": "data.mdb.zst", "none": "data.mdb"}  # of the data, by its compression
LDIF_NAMES = {"zstd": "data.ldif.zst", "none": "data.ldif"}
FORMAT = 1
MAP = "pages.map"  # of an incremental backup
LARGEST_PIECE = 64 << 20  # bytes of data: what one may take of memory

Listed = TypeVar("Listed")
Seal = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
PublicKey = Annotated[str, msgspec.Meta(max_length=8192, pattern=r"^[!-~]+( [!-~]+)?\Z")]


@dataclass(frozen=True)
class Backup:
    """What a manifest holds. Sizes in bytes, times in UTC.

    The CSNs were read just before the snapshot, so it may hold a little more than they say, never less.
    """

    id: Name
    made: str
    seconds: Seconds
    host: str
    source: str
    suffix: str
    entries: Count
    context_csns: tuple[Csn, ...]  # stored in the suffix entry
    newest_csns: tuple[Csn, ...]  # with those of entries changed since
    txnid: Count
    lmdb_format: Count
    page_size: Count
    map_size: Count
    machine: str  # LMDB files do not cross from one kind to another
    source_apparent: Count
    source_allocated: Count
    data_bytes: Count
    stored_bytes: Count
    file: Name
    compression: str
    with_config: bool
    ditseed: str
    pieces: Count
    pieces_sha256: Digest64  # of the list of pieces
    compacted: bool = False  # without free pages, in the order of keys
    members: tuple[
        Name, ...
    ] = ()  # IDs of the backups of the same moment, with its own; none where it is alone
    config_sha256: Digest64 | None = None  # of the file as it lies in the repository
    recipients: tuple[PublicKey, ...] = ()  # of an encrypted one
    is_ldif: bool = False  # entries, not pages: for any version of OpenLDAP, any machine
    follows: str = (
        ""  # set if the clock had gone back: the backup is the later of any up to this time
    )
    seal: Seal = ""
    format: int = FORMAT

    @property
    def when(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.made)

    @property
    def order(self) -> datetime.datetime:
        """Its place among others, whatever the clock said."""
        if not self.follows:
            return self.when
        return max(self.when, datetime.datetime.fromisoformat(self.follows))

    @property
    def leads(self) -> bool:
        """Is it the one of its set that is there last?"""
        return self.id in self.members[:1]

    @property
    def shares_pages(self) -> bool:
        return self.file == MAP

    @property
    def room(self) -> int:
        """Bytes that its database needs where it is unpacked. LDIF lies beside the database that is built of it, with
        keys that are sorted."""
        return self.data_bytes * (3 if self.is_ldif else 1)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.recipients)

    @property
    def config_file(self) -> str:
        return stored_name(CONFIG, self.is_encrypted)


def stored_name(name: str, encrypted: bool) -> str:
    return name + age.SUFFIX if encrypted else name


@dataclass(frozen=True)
class StoredPiece:
    """So many bytes of the data, and as stored. start: where it is in the file."""

    data: Count
    start: Count
    stored: Count
    stored_sha256: Digest64


@dataclass(frozen=True)
class StoredList:
    """In the order of the data. In the file of an encrypted backup the first comes last: how long it is was not known
    before."""

    pieces: tuple[StoredPiece, ...]
    format: int = FORMAT

    @property
    def data_bytes(self) -> int:
        return sum(piece.data for piece in self.pieces)

    @property
    def stored_bytes(self) -> int:
        return sum(piece.stored for piece in self.pieces)

    def text(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


def read(directory: Path) -> Backup:
    """The manifest of one backup. Raises ManifestBroken."""
    path = directory / MANIFEST
    try:
        found: Backup = sealed.read(path, Backup, FORMAT)
        _require_sense(found, directory)
    except FileNotFoundError:
        raise ManifestBroken(path=path, reason="is missing") from None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    return found


def _require_sense(found: Backup, directory: Path) -> None:
    if found.id != directory.name:
        raise Unfit("is not the manifest of this directory")
    if found.members and found.id not in found.members:
        raise Unfit("is not the manifest of one of its set")
    if not found.shares_pages and found.file != _data_name(found):
        raise Unfit(f"says that {found.file} is compressed with {found.compression}")
    if found.shares_pages and (found.is_encrypted or found.is_ldif):
        raise Unfit("not a manifest: an incremental backup is neither encrypted nor LDIF")
    if found.with_config and found.config_sha256 is None:
        raise Unfit("not a manifest: a checksum is missing")
    try:
        moments = found.when, datetime.datetime.fromisoformat(found.follows or found.made)
    except ValueError as error:
        raise Unfit(f"not a manifest: made: {error}") from error
    if any(moment.tzinfo is None for moment in moments):
        raise Unfit("not a manifest: made: names no time zone")


def _data_name(found: Backup) -> str | None:
    name = (LDIF_NAMES if found.is_ldif else NAMES).get(found.compression)
    return name and stored_name(name, found.is_encrypted)


def pieces(directory: Path, backup: Backup) -> StoredList:
    """Of a backup that shares no pages. Raises BackupDamaged."""
    return read_list(directory, backup, StoredList, _require_fitting_pieces)


def _require_fitting_pieces(found: StoredList, backup: Backup) -> None:
    if len(found.pieces) != backup.pieces or found.data_bytes != backup.data_bytes:
        raise Unfit("its pieces do not make up the data that the manifest tells of")
    if any(piece.data > LARGEST_PIECE for piece in found.pieces):
        raise Unfit("one of its pieces is larger than any that ditseed writes")
    end = 0
    for piece in sorted(found.pieces, key=lambda piece: piece.start):
        if piece.start != end:
            raise Unfit("its pieces are not one behind the other")
        end += piece.stored


def require_stored(path: Path) -> None:
    """A file of a backup. Raises BackupDamaged where it is missing."""
    try:
        files.require_readable(path)
    except NoSuchPath as error:
        raise BackupDamaged(path=path, reason="it is missing") from error


def read_list(
    directory: Path,
    backup: Backup,
    kind: type[Listed],
    require: Callable[[Listed, Backup], None],
) -> Listed:
    """pieces.json, which the manifest has the sum of. `require` raises Unfit. Raises BackupDamaged."""
    path = directory / PIECES
    require_stored(path)
    try:
        with files.explained(path):
            content = typed.content(path)
        if hashlib.sha256(content).hexdigest() != backup.pieces_sha256:
            raise Unfit("its sha256 is not the one in the manifest")
        found = typed.parse(content, kind, FORMAT)
        require(found, backup)
    except Unfit as error:
        raise BackupDamaged(path=path, reason=error) from error
    return found


def config(directory: Path, backup: Backup) -> bytes:
    """cn=config as LDIF, of a backup that has it, as it is stored. Raises BackupDamaged."""
    path = directory / backup.config_file
    require_stored(path)
    try:
        with files.explained(path):
            content = typed.content(path)
    except Unfit as error:
        raise BackupDamaged(path=path, reason=error) from error
    if backup.config_sha256 != hashlib.sha256(content).hexdigest():
        raise BackupDamaged(path=path, reason="its sha256 is not the one in the manifest")
    return content
