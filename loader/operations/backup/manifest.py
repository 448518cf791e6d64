"""The JSON files about a backup: its manifest, the records of its last verification and its last drill, and its pins.

REPO/ID/manifest.json  pages.map  pages.pack  config.ldif      a full backup
REPO/ID/manifest.json  pages.map  config.ldif, REPO/pages/     an incremental backup: it shares packs with others
REPO/ID/manifest.json  data.ldif.zst  config.ldif              a backup of entries (--kind ldif)
REPO/ID/verified-TIME.json  drilled-TIME.json                  records, written afterwards; the latest one counts
REPO/ID/pinned-TIME.json                                       a pin: `prune` keeps the backup until TIME
REPO/log/TIME-SUFFIX-RANDOM.json  .ldif.zst                    a segment of an accesslog

Records and pins are new files each time, because a server may refuse to overwrite files. Somebody who can only add
files can forge a record that says "damaged", so no backup is removed because of a record. But no new file shortens a
pin: the latest time in the names of the pins counts.

In an encrypted backup, all files except the manifest are age files (NAME.age). The manifest has checksums of the
encrypted files: from checksums of the plain text, a reader without a key could confirm guesses of the content.

Manifests and records are JSON in one canonical form, with a seal: a SHA-256 over all other fields. A seal detects
damage. It does not protect against anybody who may write in the repository (mode 0700).
"""

from __future__ import annotations

import datetime
import hashlib
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from loader import age, typed
from loader.errors import ManifestBroken
from loader.typed import Count, Csn, Digest64, Name, Seconds, Unfit

FORMAT = 1
MANIFEST = "manifest.json"
VERIFIED, DRILLED, PINNED = "verified", "drilled", "pinned"
RECORD = re.compile(r"(verified|drilled)-(\d{8}T\d{6}Z)\d{6}\.json")  # the digits after the time are microseconds
PIN = re.compile(rf"{PINNED}-(\d{{8}}T\d{{6}}Z)\.json")
CONFIG, MAP, PACK, ENTRIES = "config.ldif", "pages.map", "pages.pack", "data.ldif.zst"
SKEW = datetime.timedelta(minutes=5)  # tolerated clock difference between hosts that share a repository
PAGES = "pages"  # the directory of the packs that incremental backups share
LOG = "log"  # the directory of the segments of accesslogs
SEGMENT = re.compile(r"(\d{8}T\d{12}Z)-(.*)-[0-9a-f]{8}\.(json|ldif\.zst(\.age)?)")
SEGMENT_TIME = "%Y%m%dT%H%M%S%fZ"
LOG_DELAY = datetime.timedelta(seconds=5)  # maximum time from the commit of a write to its entry in the accesslog
PACK_NAME = re.compile(r"[0-9a-f]{64}\.pack")  # a pack's name is the SHA-256 of its index
FOREVER = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
_LAST_YEAR = 9000  # backups of later years are rejected, so that `follows` of the next one is a valid date, too
CHUNK = 64 << 20  # bytes that one checksum covers; the manifest of a 1 TB backup thus takes 1 MB

Seal = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
PublicKey = Annotated[str, msgspec.Meta(max_length=8192, pattern=r"^[!-~]+( [!-~]+)?\Z")]


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a backup. `sums` has the SHA-256 of each chunk of CHUNK bytes."""

    name: Name
    bytes: Count
    sums: tuple[Digest64, ...]


class Backup(msgspec.Struct, frozen=True):
    """The manifest. Sizes are in bytes, times in UTC. CSNs were read first: the snapshot may have newer changes."""

    id: Name
    made: str
    seconds: Seconds
    host: str
    source: str
    suffix: str
    entries: Count
    context_csns: tuple[Csn, ...]  # the contextCSN values stored in the suffix entry
    newest_csns: tuple[Csn, ...]  # the newest CSN of each server ID, from contextCSN and entryCSNs
    txnid: Count
    lmdb_format: Count
    page_size: Count
    map_size: Count
    machine: str  # word size and byte order; an LMDB file can be read only on a machine that has the same ones
    data_bytes: Count
    stored_bytes: Count  # bytes that this backup added for its data, without pages shared with earlier backups
    files: tuple[StoredFile, ...]  # the files in the backup's own directory
    ditseed: str
    packs: tuple[StoredFile, ...] = ()  # the shared packs in PAGES
    incremental: bool = False
    is_ldif: bool = False  # has entries, not pages; any version of OpenLDAP can restore it on any machine
    members: tuple[Name, ...] = ()  # IDs of the backups of its set (one moment), the leader first; empty if no set
    recipients: tuple[PublicKey, ...] = ()  # public keys that can decrypt the backup; empty if it is not encrypted
    follows: str = ""  # for `order`: if the clock had gone back, a time after all older backups; else empty
    seal: Seal = ""
    format: int = FORMAT

    @property
    def when(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.made)

    @property
    def order(self) -> datetime.datetime:
        """The time by which backups are sorted. It is right even if the clock was wrong or had gone back."""
        return max(self.when, datetime.datetime.fromisoformat(self.follows)) if self.follows else self.when

    @property
    def set_ids(self) -> tuple[str, ...]:
        """The IDs of the backup's set, the leader first. If the backup was taken alone, this is its own ID."""
        return self.members or (self.id,)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.recipients)

    @property
    def room(self) -> int:
        """Bytes of disk space that a restore needs. LDIF needs room for the new database and for sorted keys. An
        encrypted backup also needs room for its decrypted data file."""
        return self.data_bytes * (3 if self.is_ldif else 1) + self.stored_bytes * self.is_encrypted

    def stored_name(self, name: str) -> str:
        return name + age.SUFFIX if self.is_encrypted else name

    @property
    def file(self) -> str:
        """The name of the data file. For an incremental backup, the name of the map."""
        return self.stored_name(ENTRIES if self.is_ldif else MAP if self.incremental else PACK)

    @property
    def config_file(self) -> str:
        return self.stored_name(CONFIG)

    @property
    def with_config(self) -> bool:
        return any(stored.name == self.config_file for stored in self.files)

    def small_files(self) -> Iterator[tuple[str, StoredFile]]:
        """Yields the map and the configuration with their names relative to the repository."""
        names = (self.stored_name(MAP), self.config_file)
        yield from ((f"{self.id}/{stored.name}", stored) for stored in self.files if stored.name in names)

    def stored(self) -> Iterator[tuple[str, StoredFile]]:
        """Yields all files of the backup with their names relative to the repository, the packs last."""
        yield from ((f"{self.id}/{stored.name}", stored) for stored in self.files)
        yield from ((f"{PAGES}/{stored.name}", stored) for stored in self.packs)

    @property
    def needed_bytes(self) -> int:
        return sum(stored.bytes for _, stored in self.stored())


class Segment(msgspec.Struct, frozen=True):
    """The log entries that one run of `backup log` stored. `entries`: number of log entries when the run began; the
    LDIF may also have later ones. `after`: ID of the log entry before the first one, or 0 if the whole log was stored.
    `last_id` and `last_uuid` identify the last entry, `log_uuid` the suffix entry of the log. `reached`: the newest CSN
    of each server ID in this segment and in the segments that it continues. `follows`: `reached` of the previous
    segment, or None if log entries between the two are missing."""

    made: str
    suffix: str
    log: str
    log_uuid: str = ""
    entries: Count = 0
    after: Count = 0
    last_id: Count = 0
    last_uuid: str = ""
    reached: tuple[Csn, ...] = ()
    follows: tuple[Csn, ...] | None = None
    files: tuple[StoredFile, ...] = ()
    recipients: tuple[PublicKey, ...] = ()
    seal: Seal = ""
    format: int = FORMAT

    @property
    def file(self) -> str:
        return self.files[0].name

    @property
    def is_encrypted(self) -> bool:
        return bool(self.recipients)

    @property
    def end(self) -> datetime.datetime:
        """The time up to which all changes are certain to be in the segment."""
        return datetime.datetime.fromisoformat(self.made) - LOG_DELAY


def read(directory: Path) -> Backup:
    """Reads the manifest in a backup's directory. Raises ManifestBroken if it is missing, damaged or inconsistent."""
    path = directory / MANIFEST
    try:
        backup: Backup = read_sealed(path, Backup)
        if backup.id != directory.name:
            raise Unfit("is not the manifest of this directory")
        if backup.id not in backup.set_ids:
            raise Unfit("names a set that does not include this backup")
        _require_consistent(backup)
    except FileNotFoundError:
        raise ManifestBroken(path=path, reason="is missing") from None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    return backup


def _require_consistent(backup: Backup) -> None:
    if backup.incremental and (backup.is_encrypted or backup.is_ldif):
        raise Unfit("not a manifest: an incremental backup is neither encrypted nor LDIF")
    data = (ENTRIES,) if backup.is_ldif else (MAP,) if backup.incremental else (MAP, PACK)
    names = [stored.name for stored in backup.files]
    if {*names} - {backup.config_file} != {*map(backup.stored_name, data)} or len({*names}) != len(names):
        raise Unfit("not a manifest: its files are not those of a backup of its kind")
    shared = [stored.name for stored in backup.packs]
    if not all(map(PACK_NAME.fullmatch, shared)) or (shared and not backup.incremental):
        raise Unfit("not a manifest: a backup of its kind has no such packs")
    if any(len(stored.sums) != -(-stored.bytes // CHUNK) for _, stored in backup.stored()):
        raise Unfit("not a manifest: a checksum is missing")
    try:
        moments = backup.when, datetime.datetime.fromisoformat(backup.follows or backup.made)
    except ValueError as error:
        raise Unfit(f"not a manifest: made: {error}") from error
    if any(moment.tzinfo is None or moment.year > _LAST_YEAR for moment in moments):
        raise Unfit("not a manifest: a time has no time zone, or is too late")


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of records of either kind, and all fields of a pin. `problem` is empty if the backup is good."""

    backup: Name
    made: str = msgspec.field(default_factory=lambda: now().isoformat())
    host: str = msgspec.field(default_factory=socket.gethostname)
    problem: str = ""
    seal: Seal = ""
    format: int = FORMAT

    @property
    def is_good(self) -> bool:
        return not self.problem


class Verification(Proof, frozen=True, kw_only=True):
    """The result of `backup verify`. `read`: bytes compared with checksums. `stored`: bytes of all files."""

    read: Count = 0
    stored: Count = 0

    @property
    def is_whole(self) -> bool:
        return self.is_good and self.read >= self.stored


class Replayed(msgspec.Struct, frozen=True):
    """The replay of a drill. `newest_csns`: for each server ID, CSN of the last change that a restore recovers. `live`:
    URI or database directory of the live server. `lost_seconds`: time by which the live server is ahead; without a live
    server, an upper bound: the time from the last change to the drill. `has_consumer`: whether a consumer followed the
    restored database. `problem` describes a failure of the log or the consumer, not of the backup."""

    operations: Count = 0
    newest_csns: tuple[Csn, ...] = ()
    lost_seconds: Seconds = 0.0
    live: str = ""
    has_consumer: bool = False
    problem: str = ""


class Drill(Proof, frozen=True, kw_only=True):
    """The result of `backup drill`. `restore_seconds`: duration of the restore, before slapd was started. `lookups`:
    number of entries that were looked up by DN and by entryUUID. `replay`: None without --replay."""

    restore_seconds: Seconds = 0.0
    entries: Count = 0
    lookups: Count = 0
    context_csns: tuple[Csn, ...] = ()
    replay: Replayed | None = None

    @property
    def problems(self) -> str:
        return "; ".join(filter(None, [self.problem, self.replay.problem if self.replay else ""]))


class Proofs(msgspec.Struct, frozen=True):
    """The records of a backup, None if missing or unreadable. `pinned_until` is None if no pin holds any more."""

    verification: Verification | None = None
    drill: Drill | None = None
    pinned_until: datetime.datetime | None = None

    @property
    def is_proven(self) -> bool:
        """Whether the last verification read every byte, or a drill was run, and neither record reports a problem."""
        is_read = self.verification is not None and self.verification.is_whole
        return (is_read or self.drill is not None) and not self.is_bad

    @property
    def is_bad(self) -> bool:
        return any(record is not None and not record.is_good for record in (self.verification, self.drill))


def stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def valid_names(names: Iterable[str]) -> set[str]:
    """Returns the names of the last pin and of the latest record of each kind that is not dated later than now."""
    limit, last = stamp(now() + SKEW), dict[str, str]()
    for name in sorted(names):
        match = RECORD.fullmatch(name)
        if PIN.fullmatch(name) or (match and match[2] <= limit):
            last[name.partition("-")[0]] = name
    return {*last.values()}


def pinned_until(names: Iterable[str]) -> datetime.datetime | None:
    """Returns the latest time in the names of pins, or None if there is no pin or that time has passed."""
    last = max((match[1] for match in map(PIN.fullmatch, names) if match), default="")
    if last <= stamp(now()):
        return None
    with suppress(ValueError):
        return datetime.datetime.strptime(last, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    return FOREVER  # the name has no valid time: `prune` keeps it


Record = TypeVar("Record", Backup, Proof, Verification, Drill, Segment)


def sealed(record: Record) -> Record:
    """Returns the record with its seal set: the SHA-256 of its other fields."""
    digest = hashlib.sha256(text(msgspec.structs.replace(record, seal=""))).hexdigest()
    return msgspec.structs.replace(record, seal=digest)


def text(record: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_sealed(path: Path, kind: type[Record]) -> Record:
    """Reads a record of type `kind`. Raises OSError, and Unfit if it is damaged or its seal does not match."""
    content = typed.content(path)
    record = typed.parse(content, kind, FORMAT)
    if record != sealed(record) or text(record) != content:
        raise Unfit("was changed since it was written: its seal does not fit")
    return record
