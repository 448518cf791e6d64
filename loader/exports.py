"""LDIF input named by an operator: files, directories, and exports, which must match their manifest.json."""

from __future__ import annotations

import dataclasses
import json
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from loader import ldif, typed
from loader.errors import ManifestBroken
from loader.progress import Meter
from loader.storage import files
from loader.typed import Count, Csn, Digest32, Name, Unfit

FORMAT = 3
FILE = "manifest.json"


@dataclass(frozen=True)
class ShardFile:
    """One LDIF file of an export. `checksum`: XXH3 (128 bits, `xxhsum -H2`) of the file as stored, possibly compressed;
    it reveals damage, not forgery. `content_checksum`: of the entries, independent of their order."""

    name: Name
    bytes: Count
    checksum: Digest32
    entries: Count
    content_checksum: Digest32


@dataclass(frozen=True)
class Manifest:
    """An export. `shards`: in loading order, parents first. Their entries and content checksums add up to those of the
    export, so that a shard removed from the list is noticed."""

    base: str
    entries: Count
    content_checksum: Digest32  # of the entries, independent of their order
    context_csns: tuple[Csn, ...]  # contextCSN of the provider when the export began
    shards: tuple[ShardFile, ...]
    source: str
    started: str  # UTC
    finished: str
    partitions: str  # how the tree was partitioned, as text for people
    duplicates: Count = 0
    dropped: Count = 0  # entries left out because their parent was gone at the end
    notes: tuple[str, ...] = ()  # text for people: data that may be missing
    hidden: tuple[str, ...] = ()  # the notes that make the export unfit for a replica
    format: int = FORMAT

    def paths(self, directory: Path) -> list[Path]:
        return [directory / shard.name for shard in self.shards]

    def text(self) -> bytes:
        return (json.dumps(dataclasses.asdict(self), indent=2) + "\n").encode()


def checksum(path: Path) -> str:
    """Returns the XXH3 of a file as stored, 32 hexadecimal digits."""
    digest = xxhash.xxh3_128()
    with files.reading(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def total(checksums: Iterable[str]) -> str:
    """Returns the sum of content checksums, modulo 2^128: the content checksum of all their entries together."""
    return f"{sum(int(text, 16) for text in checksums) % (1 << 128):032x}"


def read(directory: Path) -> Manifest | None:
    """Returns the manifest of an export directory, or None. Raises ManifestBroken if it is invalid."""
    path = directory / FILE
    try:
        manifest = typed.read(path, Manifest, FORMAT)
    except FileNotFoundError:
        return None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    names = [shard.name for shard in manifest.shards]
    entries = sum(shard.entries for shard in manifest.shards)
    if len({*names}) != len(names):
        reason = "names a file twice"
    elif {".", ".."} & {*names}:
        reason = "names a directory"
    elif entries != manifest.entries:
        reason = f"promises {manifest.entries:,} entries, but the files on its list hold {entries:,}"
    elif total(shard.content_checksum for shard in manifest.shards) != manifest.content_checksum:
        reason = "the content checksums of the files on its list do not add up to that of the whole"
    else:
        return manifest
    raise ManifestBroken(path=path, reason=reason)


def require(directory: Path) -> Manifest:
    """Returns the manifest of a finished export. Raises ManifestBroken if it is missing or invalid."""
    manifest = read(directory)
    if manifest is None:
        reason = "is missing, though the export there has ended; --restart makes it again"
        raise ManifestBroken(path=directory / FILE, reason=reason)
    return manifest


def require_there(manifest: Manifest, directory: Path, which: Sequence[ShardFile] | None = None) -> None:
    """Raises ManifestBroken unless every shard is a regular file of the right size in `directory`. Reads no file."""
    for shard in manifest.shards if which is None else which:
        path = directory / shard.name
        try:
            status = path.lstat()
        except FileNotFoundError:
            raise ManifestBroken(path=path, reason="is missing") from None
        if not stat.S_ISREG(status.st_mode):
            raise ManifestBroken(path=path, reason="is not a regular file")
        if status.st_size != shard.bytes:
            raise ManifestBroken(path=path, reason=f"has {status.st_size:,} bytes, the manifest says {shard.bytes:,}")


# --- LDIF to be read -------------------------------------------------------------------------------
#
# All LDIF is read through these functions. When the files are listed, names, sizes and sums are compared with the
# manifest. When the core has read the files, so are the checksums that it computed meanwhile.

RUN_DIR = ".ditseed"  # run directory of an export, in the export directory


def files_of(given: Iterable[Path]) -> list[Path]:
    """Returns the LDIF files in loading order. A directory stands for the shards of its manifest, or without a
    manifest for the LDIF files in it, sorted by name. Raises ManifestBroken, UsageProblem."""
    return [path for source in given for path in _files(source, _manifest(source))]


def entries(given: Sequence[Path]) -> int | None:
    """Returns the number of entries, or None unless every argument has a manifest."""
    manifests = [manifest for manifest in map(_manifest, given) if manifest]
    complete = manifests and len(manifests) == len(given)
    return sum(manifest.entries for manifest in manifests) if complete else None


def require_entries(given: Sequence[Path], read: int) -> None:
    """Raises ManifestBroken if the manifests promise another number of entries than `read`."""
    promised = entries(given)
    if promised not in (None, read):
        reason = f"promises {promised:,} entries, but {read:,} were read"
        raise ManifestBroken(path=given[0] / FILE, reason=reason)


@contextmanager
def held(given: Sequence[Path], meter: Meter) -> Iterator[list[Path]]:
    """Yields the LDIF files, which the body must read completely by native calls that count into `meter`.

    Raises ManifestBroken after the body if a shard differed from its manifest, or was not read to its end.
    """
    manifests = {path: _manifest(path) for path in given}
    before = len(meter.files)
    yield [file for path in given for file in _files(path, manifests[path])]
    expected = {
        str(path / shard.name): shard for path, manifest in manifests.items() if manifest for shard in manifest.shards
    }
    read = [file for file in meter.files[before:] if file[0] in expected]
    for path, size, checksum in read:
        shard = expected[path]
        if (size, checksum) != (shard.bytes, shard.checksum):
            raise ManifestBroken(path=path, reason="is not as the manifest says: other checksum")
    for path in expected.keys() - {path for path, _, _ in read}:
        raise ManifestBroken(path=path, reason="was not read to its end")


def _files(path: Path, manifest: Manifest | None) -> list[Path]:
    return manifest.paths(path) if manifest else ldif.files_of([path])


def _manifest(path: Path) -> Manifest | None:
    """Returns the manifest of an export; None for other LDIF. Raises ManifestBroken."""
    if not path.is_dir():
        return None
    manifest = read(path)
    if manifest is not None:
        require_there(manifest, path)
    elif (path / RUN_DIR).is_dir():
        raise ManifestBroken(path=path / FILE, reason="is missing: the export there has not ended")
    return manifest
