"""A backup repository: one directory a backup, whole once it bears its name, with a manifest. Nothing else is state.

REPO/20261121T070501Z-dc-example-dc-com/   data.mdb.zst  manifest.json  config.ldif
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loader import dn
from loader.errors import ManifestBroken, NoSuchBackup, NoSuchPath
from loader.storage.files import PARTIAL, explained
from loader.storage.files import read as read_file

MANIFEST, CONFIG, LOCK = "manifest.json", "config.ldif", "lock"
FORMAT = 1
LATEST = "latest"
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Backup:
    """What a manifest holds. Sizes in bytes, times in UTC.

    The CSNs were read just before the snapshot, so it may hold a little more than they say, never less.
    """

    id: str
    made: str
    seconds: float
    host: str
    source: str
    suffix: str
    entries: int
    context_csns: tuple[str, ...]  # stored in the suffix entry
    newest_csns: tuple[str, ...]  # with those of entries changed since
    txnid: int
    lmdb_format: int
    page_size: int
    map_size: int
    machine: str  # LMDB files do not cross from one kind to another
    source_apparent: int
    source_allocated: int
    data_bytes: int
    stored_bytes: int
    file: str
    compression: str
    data_sha256: str  # of the data.mdb
    file_sha256: str  # of the file as it lies in the repository
    with_config: bool
    ditseed: str
    format: int = FORMAT

    @property
    def when(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.made)

    def text(self) -> bytes:
        return (json.dumps(dataclasses.asdict(self), indent=2) + "\n").encode()


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def new_id(repo: Path, when: datetime.datetime, suffix: str) -> str:
    """Time and suffix; a number behind it for a second one within the second."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-").lower() or "root"
    name = f"{when.strftime(_TIME)}-{slug[:100]}"
    number = 2
    while (repo / name).exists():
        name = f"{name.removesuffix(f'-{number - 1}')}-{number}"
        number += 1
    return name


def read(directory: Path) -> Backup:
    """The manifest of one backup. Raises ManifestBroken."""
    path = directory / MANIFEST
    try:
        facts = json.loads(read_file(path))
        if facts["format"] != FORMAT:
            raise ManifestBroken(
                path=path, reason=f"format {facts['format']}, this ditseed reads {FORMAT}"
            )
        for key in ("context_csns", "newest_csns"):
            facts[key] = tuple(facts[key])
        found = Backup(**facts)
        if found.id != directory.name or Path(found.file).name != found.file:
            raise ManifestBroken(path=path, reason="is not the manifest of this directory")
        found.when.timestamp()
        return found
    except FileNotFoundError:
        raise ManifestBroken(path=path, reason="is missing") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestBroken(path=path, reason=f"not a manifest: {error}") from error


@dataclass(frozen=True)
class Listing:
    """All whole backups, the oldest first, and what could not be read."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]


def listing(repo: Path, suffix: str | None = None) -> Listing:
    """Raises NoSuchPath. Unfinished ones (NAME.partial) are not there."""
    found: list[Backup] = []
    broken: list[ManifestBroken] = []
    with explained(repo):
        if not repo.is_dir():
            raise NoSuchPath(path=repo)
        for directory in sorted(_directories(repo)):
            try:
                found.append(read(directory))
            except ManifestBroken as error:
                broken.append(error)
    kept = [one for one in found if suffix is None or dn.key(one.suffix) == dn.key(suffix)]
    return Listing(tuple(sorted(kept, key=lambda one: (one.made, one.id))), tuple(broken))


def _directories(repo: Path) -> Iterator[Path]:
    """By the shape of the name: other directories in the repository are nobody's business."""
    for path in repo.iterdir():
        if re.match(r"\d{8}T\d{6}Z-", path.name) and path.is_dir() and path.suffix != PARTIAL:
            yield path


def find(repo: Path, name: str, suffix: str | None = None) -> Backup:
    """By id, or the latest (of a suffix). Raises NoSuchBackup, ManifestBroken."""
    if name != LATEST:
        if Path(name).name != name or not (repo / name).is_dir() or name.endswith(PARTIAL):
            raise NoSuchBackup(path=repo, name=name)
        return read(repo / name)
    backups = listing(repo, suffix).backups
    if not backups:
        raise NoSuchBackup(path=repo, name="at all" if suffix is None else f"of {suffix}")
    return backups[-1]


def leftovers(repo: Path) -> list[Path]:
    """What interrupted runs left."""
    return sorted(repo.glob(f"[0-9]*Z-*{PARTIAL}"))
