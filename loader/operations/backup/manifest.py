"""The manifest of a backup: what was backed up, and which files it consists of, with their lengths and checksums.

REPO/ID/manifest.json  pages.map  pages.pack  config.ldif      a full backup
REPO/ID/manifest.json  pages.map  config.ldif, REPO/pages/     an incremental one: its packs are shared with others
REPO/ID/manifest.json  data.ldif.zst  config.ldif              one of entries (--kind ldif)

In an encrypted backup every file but the manifest is an age file (NAME.age). The manifest has checksums of what is
stored only: those of what is inside would tell whether a guess is right.

Manifests and records are JSON in one form only, with a seal over all that they say. A seal tells damage. Whoever may
write in the repository (mode 0700) can forge one.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from loader import age, typed
from loader.errors import ManifestBroken
from loader.typed import Count, Csn, Digest64, Name, Seconds, Unfit

FORMAT = 1
MANIFEST, CONFIG, MAP, PACK, ENTRIES = (*("manifest.json", "config.ldif", "pages.map", "pages.pack"), "data.ldif.zst")
KINDS = MDB, LDIF = "mdb", "ldif"  # pages of the database, or its entries
PAGES = "pages"  # the directory of the packs that incremental backups share
PACK_NAME = re.compile(r"[0-9a-f]{64}\.pack")  # the SHA-256 of its index
CHUNK = 64 << 20  # bytes of a file that have one checksum: a backup of 1 TB has a manifest of 1 MB

Record = TypeVar("Record", bound=Any)
Seal = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
PublicKey = Annotated[str, msgspec.Meta(max_length=8192, pattern=r"^[!-~]+( [!-~]+)?\Z")]


@dataclass(frozen=True)
class StoredFile:
    """sums: the SHA-256 of each CHUNK of it."""

    name: Name
    bytes: Count
    sums: tuple[Digest64, ...]


@dataclass(frozen=True)
class Backup:
    """Sizes in bytes, times in UTC.

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
    stored_bytes: Count  # of the data, without what other backups had stored already
    full_bytes: Count  # what the data would take in a full backup, about
    files: tuple[StoredFile, ...]  # in its own directory
    ditseed: str
    packs: tuple[StoredFile, ...] = ()  # in PAGES
    incremental: bool = False
    is_ldif: bool = False  # entries, not pages: for any version of OpenLDAP, any machine
    members: tuple[Name, ...] = ()  # IDs of all backups of the same moment; none if it is alone
    recipients: tuple[PublicKey, ...] = ()  # of an encrypted one
    follows: str = ""  # if the clock had gone back: the backup is the later of any up to this time
    seal: Seal = ""
    format: int = FORMAT

    @property
    def when(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.made)

    @property
    def order(self) -> datetime.datetime:
        """Its position among others, whatever the clock said."""
        if not self.follows:
            return self.when
        return max(self.when, datetime.datetime.fromisoformat(self.follows))

    @property
    def leads(self) -> bool:
        """Whether it is the one of its set that is there last."""
        return self.id in self.members[:1]

    @property
    def is_encrypted(self) -> bool:
        return bool(self.recipients)

    @property
    def room(self) -> int:
        """Bytes that its database needs where it is unpacked. LDIF lies beside the database that is built from it, with
        keys that are sorted; an encrypted pack is decrypted first."""
        return self.data_bytes * (3 if self.is_ldif else 1) + self.stored_bytes * self.is_encrypted

    def stored_name(self, name: str) -> str:
        return name + age.SUFFIX if self.is_encrypted else name

    @property
    def file(self) -> str:
        """The name of the file with the data; of an incremental one that of the map."""
        data = ENTRIES if self.is_ldif else MAP if self.incremental else PACK
        return self.stored_name(data)

    @property
    def config_file(self) -> str:
        return self.stored_name(CONFIG)

    @property
    def with_config(self) -> bool:
        return any(one.name == self.config_file for one in self.files)

    def stored(self) -> Iterator[tuple[str, StoredFile]]:
        """All that it consists of, by names relative to the repository; the packs last."""
        yield from ((f"{self.id}/{one.name}", one) for one in self.files)
        yield from ((f"{PAGES}/{one.name}", one) for one in self.packs)

    @property
    def needed_bytes(self) -> int:
        return sum(one.bytes for _, one in self.stored())


def read(directory: Path) -> Backup:
    """The manifest of the backup in a directory. Raises ManifestBroken."""
    path = directory / MANIFEST
    try:
        backup: Backup = read_sealed(path, Backup, FORMAT)
        _require_sense(backup, directory.name)
    except FileNotFoundError:
        raise ManifestBroken(path=path, reason="is missing") from None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    return backup


def _require_sense(backup: Backup, name: str) -> None:
    if backup.id != name:
        raise Unfit("is not the manifest of this directory")
    if backup.members and backup.id not in backup.members:
        raise Unfit("is not the manifest of one of its set")
    if backup.incremental and (backup.is_encrypted or backup.is_ldif):
        raise Unfit("not a manifest: an incremental backup is neither encrypted nor LDIF")
    data = (ENTRIES,) if backup.is_ldif else (MAP,) if backup.incremental else (MAP, PACK)
    expected = {backup.stored_name(one) for one in data}
    names = [one.name for one in backup.files]
    if {*names} - {backup.config_file} != expected or len({*names}) != len(names):
        raise Unfit("not a manifest: it names other files than those of its kind")
    shared = [one.name for one in backup.packs]
    if not all(map(PACK_NAME.fullmatch, shared)) or (shared and not backup.incremental):
        raise Unfit("not a manifest: it names packs that are none")
    if any(len(one.sums) != -(-one.bytes // CHUNK) for _, one in backup.stored()):
        raise Unfit("not a manifest: a checksum is missing")
    try:
        moments = backup.when, datetime.datetime.fromisoformat(backup.follows or backup.made)
    except ValueError as error:
        raise Unfit(f"not a manifest: made: {error}") from error
    if any(moment.tzinfo is None for moment in moments):
        raise Unfit("not a manifest: made: names no time zone")


# --- seals ----------------------------------------------------------------------------------------


def sealed(record: Record) -> Record:
    """The record, a dataclass with a field `seal`, with the seal that fits its other fields."""
    return dataclasses.replace(record, seal=_seal(record))


def text(record: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_sealed(path: Path, kind: type[Record], version: int) -> Record:
    """Raises Unfit, FileNotFoundError, OSError."""
    content = typed.content(path)
    record = typed.parse(content, kind, version)
    require_seal(record, content)
    return record


def require_seal(record: Any, content: bytes) -> None:
    """Raise Unfit unless a record and the file that it was read from are as they were written."""
    if record.seal != _seal(record) or text(record) != content:
        raise Unfit("was changed since it was written: its seal does not fit")


def _seal(record: Any) -> str:
    return hashlib.sha256(text(dataclasses.replace(record, seal=""))).hexdigest()
