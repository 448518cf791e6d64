"""What a repository says about a backup: its manifest, and the records of its last verification and its last drill.

REPO/ID/manifest.json  pages.map  pages.pack  config.ldif      a full backup
REPO/ID/manifest.json  pages.map  config.ldif, REPO/pages/     an incremental one: it shares packs with others
REPO/ID/manifest.json  data.ldif.zst  config.ldif              one of entries (--kind ldif)
REPO/ID/verified.json  drilled.json                            records, written afterwards

In an encrypted backup every file but the manifest is an age file (NAME.age). The manifest has checksums of what is
stored only: those of the plain text would tell whether a guess is right.

Manifests and records are JSON in one form only, with a seal over all that they say. A seal shows damage. It does not
stop anybody who may write in the repository (mode 0700).
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from loader import age, typed
from loader.errors import ManifestBroken
from loader.typed import Count, Csn, Digest64, Name, Seconds, Unfit

FORMAT = 1
MANIFEST, VERIFIED, DRILLED = "manifest.json", "verified.json", "drilled.json"
CONFIG, MAP, PACK, ENTRIES = "config.ldif", "pages.map", "pages.pack", "data.ldif.zst"
KINDS = MDB, LDIF = "mdb", "ldif"  # pages of the database, or its entries
PAGES = "pages"  # the directory of the packs that incremental backups share
PACK_NAME = re.compile(r"[0-9a-f]{64}\.pack")  # the SHA-256 of its index
CHUNK = 64 << 20  # bytes of a file that have one checksum: a backup of 1 TB has a manifest of 1 MB

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
    """Sizes in bytes, times in UTC. The CSNs were read just before the snapshot, which may hold newer changes."""

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
        return max(self.when, datetime.datetime.fromisoformat(self.follows)) if self.follows else self.when

    @property
    def leads(self) -> bool:
        """Whether it is published last of its set."""
        return self.id in self.members[:1]

    @property
    def set_ids(self) -> tuple[str, ...]:
        """The IDs of its set, the one that leads first."""
        return self.members or (self.id,)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.recipients)

    @property
    def room(self) -> int:
        """Bytes that its database needs where it is unpacked. LDIF needs room for the database that is built from it
        and for sorted keys; an encrypted pack is decrypted first."""
        return self.data_bytes * (3 if self.is_ldif else 1) + self.stored_bytes * self.is_encrypted

    def stored_name(self, name: str) -> str:
        return name + age.SUFFIX if self.is_encrypted else name

    @property
    def file(self) -> str:
        """The name of the file with the data; the map, if the backup is incremental."""
        return self.stored_name(ENTRIES if self.is_ldif else MAP if self.incremental else PACK)

    @property
    def config_file(self) -> str:
        return self.stored_name(CONFIG)

    @property
    def with_config(self) -> bool:
        return any(stored.name == self.config_file for stored in self.files)

    @property
    def small_files(self) -> tuple[StoredFile, ...]:
        """The map and the configuration."""
        return tuple(stored for stored in self.files if stored.name in (self.stored_name(MAP), self.config_file))

    def stored(self) -> Iterator[tuple[str, StoredFile]]:
        """All its files, by names relative to the repository; the packs last."""
        yield from ((f"{self.id}/{stored.name}", stored) for stored in self.files)
        yield from ((f"{PAGES}/{stored.name}", stored) for stored in self.packs)

    @property
    def needed_bytes(self) -> int:
        return sum(stored.bytes for _, stored in self.stored())


def read(directory: Path) -> Backup:
    """The manifest of the backup in a directory. Raises ManifestBroken."""
    path = directory / MANIFEST
    try:
        backup: Backup = read_sealed(path, Backup)
        _require_consistent(backup, directory.name)
    except FileNotFoundError:
        raise ManifestBroken(path=path, reason="is missing") from None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    return backup


def _require_consistent(backup: Backup, name: str) -> None:
    if backup.id != name:
        raise Unfit("is not the manifest of this directory")
    if backup.id not in backup.set_ids:
        raise Unfit("is not the manifest of one of its set")
    if backup.incremental and (backup.is_encrypted or backup.is_ldif):
        raise Unfit("not a manifest: an incremental backup is neither encrypted nor LDIF")
    data = (ENTRIES,) if backup.is_ldif else (MAP,) if backup.incremental else (MAP, PACK)
    names = [stored.name for stored in backup.files]
    if {*names} - {backup.config_file} != {*map(backup.stored_name, data)} or len({*names}) != len(names):
        raise Unfit("not a manifest: it names other files than those of its kind")
    shared = [stored.name for stored in backup.packs]
    if not all(map(PACK_NAME.fullmatch, shared)) or (shared and not backup.incremental):
        raise Unfit("not a manifest: it names packs that are none")
    if any(len(stored.sums) != -(-stored.bytes // CHUNK) for _, stored in backup.stored()):
        raise Unfit("not a manifest: a checksum is missing")
    try:
        moments = backup.when, datetime.datetime.fromisoformat(backup.follows or backup.made)
    except ValueError as error:
        raise Unfit(f"not a manifest: made: {error}") from error
    if any(moment.tzinfo is None for moment in moments):
        raise Unfit("not a manifest: made: names no time zone")


# --- records --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verification:
    """`read` of the `stored` bytes, shared packs among them, were compared with their checksums.

    level: of the check of the database, as for `ditseed verify`; "stored" if the database stayed packed. problem: empty
    if nothing is wrong.
    """

    backup: Name
    made: str
    host: str
    level: str
    read: Count
    stored: Count
    seconds: Seconds
    problem: str = ""
    seal: Seal = ""
    format: int = FORMAT

    @property
    def is_good(self) -> bool:
        return not self.problem

    @property
    def is_whole(self) -> bool:
        return self.is_good and self.read >= self.stored


@dataclass(frozen=True)
class Drill:
    """The result of a slapd on the restored backup. restore_seconds: until slapd could have been started. lookups:
    entries that were looked up by their DN and by their entryUUID."""

    backup: Name
    made: str
    host: str
    restore_seconds: Seconds = 0.0
    start_seconds: Seconds = 0.0
    search_seconds: Seconds = 0.0
    entries: Count = 0
    lookups: Count = 0
    context_csns: tuple[Csn, ...] = ()
    problem: str = ""
    seal: Seal = ""
    format: int = FORMAT

    @property
    def is_good(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class Proofs:
    """The records of a backup. None: never done, or the record cannot be read."""

    verification: Verification | None = None
    drill: Drill | None = None

    @property
    def is_proven(self) -> bool:
        """Every byte was read, or a slapd ran on it, and neither found anything wrong the last time."""
        is_read = self.verification is not None and self.verification.is_whole
        return (is_read or self.drill is not None) and not self.is_bad

    @property
    def is_bad(self) -> bool:
        return any(record is not None and not record.is_good for record in (self.verification, self.drill))


# --- seals ----------------------------------------------------------------------------------------

Record = TypeVar("Record", Backup, Verification, Drill)


def sealed(record: Record) -> Record:
    """The record with the seal over its other fields."""
    digest = hashlib.sha256(text(dataclasses.replace(record, seal=""))).hexdigest()
    return dataclasses.replace(record, seal=digest)


def text(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_sealed(path: Path, kind: type[Record]) -> Record:
    """Raises Unfit, FileNotFoundError, OSError."""
    content = typed.content(path)
    record = typed.parse(content, kind, FORMAT)
    if record != sealed(record) or text(record) != content:
        raise Unfit("was changed since it was written: its seal does not fit")
    return record
