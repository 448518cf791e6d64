"""The manifest of an export: what the shards hold, in what order, and as of when. `manifest.json` beside them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from loader.errors import ManifestBroken
from loader.storage import files

FORMAT = 2
FILE = "manifest.json"


@dataclass(frozen=True)
class ShardFile:
    """One LDIF file of the export. `checksum` is of the file as it lies on the disk (XXH3 of 128 bits, `xxhsum -H2`):
    it tells a damaged file, not a forged one."""

    name: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Manifest:
    """An export. Shards stand in loading order: parents first."""

    base: str
    entries: int
    content_checksum: str  # order-free, of the entries
    context_csns: tuple[str, ...]  # of the provider when the export began
    shards: tuple[ShardFile, ...]
    source: str
    started: str  # UTC
    finished: str
    partitions: str  # how it was cut, for people
    duplicates: int = 0
    dropped: int = 0  # their parent was gone when the reading ended
    notes: tuple[str, ...] = ()  # for people: what may be missing
    hidden: tuple[str, ...] = ()  # of the notes, those for which no replica should be made of it
    format: int = FORMAT

    def paths(self, directory: Path) -> list[Path]:
        return [directory / shard.name for shard in self.shards]

    def text(self) -> bytes:
        return (json.dumps(dataclasses.asdict(self), indent=2) + "\n").encode()


def describe(path: Path, checksum: str | None = None) -> ShardFile:
    """A finished shard; `checksum` when it is known already."""
    return ShardFile(path.name, path.stat().st_size, checksum or _digest(path))


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with files.reading(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def read(directory: Path) -> Manifest | None:
    """The manifest of an export directory; None where there is none. ManifestBroken when it cannot be trusted."""
    path = directory / FILE
    if not path.is_file():
        return None
    try:
        facts = json.loads(files.read(path))
        if facts["format"] != FORMAT:
            raise ManifestBroken(
                path=path, reason=f"format {facts['format']}, this ditseed reads {FORMAT}"
            )
        shards = tuple(ShardFile(**shard) for shard in facts.pop("shards"))
        for name in ("context_csns", "notes", "hidden"):
            facts[name] = tuple(facts.get(name, ()))
        return Manifest(**facts, shards=shards)
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestBroken(path=path, reason=f"not a manifest: {error}") from error


def require(directory: Path) -> Manifest:
    """That of an export that has just ended. Raises ManifestBroken where somebody has taken it away again."""
    found = read(directory)
    if found is None:
        raise ManifestBroken(path=directory / FILE, reason="is missing")
    return found


def check(manifest: Manifest, directory: Path, which: Sequence[ShardFile] | None = None) -> None:
    """Every shard is there, of its size and checksum. Raises ManifestBroken."""
    for shard in manifest.shards if which is None else which:
        path = directory / shard.name
        if shard.name != Path(shard.name).name:
            raise ManifestBroken(
                path=directory / FILE, reason=f"names a file elsewhere: {shard.name}"
            )
        if not path.is_file():
            raise ManifestBroken(path=path, reason="is missing")
        if path.stat().st_size != shard.bytes or describe(path).checksum != shard.checksum:
            raise ManifestBroken(path=path, reason="is not as the manifest says")
