"""LDIF as an operator names it: files, directories of them, and exports, which are held to their manifests.

The one door for whoever reads LDIF. What a manifest tells without reading (names, sizes, sums) is looked at when the
files are listed; checksums are taken by the core while it reads, and compared when the reading has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import ldif, manifest
from loader.errors import ManifestBroken
from loader.manifest import Manifest, ShardFile
from loader.progress import Meter

RUN_DIR = ".ditseed"  # in the directory of an export: of the run that makes it


@dataclass(frozen=True)
class _NamedInput:
    """What one argument names; `manifest` None: not an export."""

    path: Path
    manifest: Manifest | None

    def files(self) -> list[Path]:
        return self.manifest.paths(self.path) if self.manifest else ldif.files_of([self.path])

    def shards(self) -> Iterator[tuple[str, ShardFile]]:
        if self.manifest:
            for shard in self.manifest.shards:
                yield str(self.path / shard.name), shard


def files_of(given: Iterable[Path]) -> list[Path]:
    """LDIF files in loading order: a directory stands for the shards of its manifest, without one for the LDIF files in
    it, by name. Raises ManifestBroken, UsageProblem."""
    return [path for one in _looked_at(given) for path in one.files()]


def entries(given: Iterable[Path]) -> int | None:
    """How many there are, where manifests tell of all."""
    told = [one.manifest.entries if one.manifest else None for one in _looked_at(given)]
    return sum(one or 0 for one in told) if told and None not in told else None


def require_entries(given: Sequence[Path], read: int) -> None:
    """Were as many read as the manifests promise? Raises ManifestBroken."""
    promised = entries(given)
    if promised not in (None, read):
        path = given[0] / manifest.FILE
        raise ManifestBroken(
            path=path, reason=f"promises {promised:,} entries, but {read:,} were read"
        )


@contextmanager
def held(given: Sequence[Path], meter: Meter) -> Iterator[list[Path]]:
    """The files, to be read from their beginnings to their ends by native calls that count into `meter`.

    Raises ManifestBroken after the body for a shard that was read otherwise than its manifest says, or not to its end.
    """
    looked = _looked_at(given)
    before = len(meter.files)
    yield [path for one in looked for path in one.files()]
    expected = {path: shard for one in looked for path, shard in one.shards()}
    read = [one for one in meter.files[before:] if one[0] in expected]
    for path, size, checksum in read:
        shard = expected[path]
        if (size, checksum) != (shard.bytes, shard.checksum):
            raise ManifestBroken(path=path, reason="is not as the manifest says: other checksum")
    for path in expected.keys() - {path for path, _, _ in read}:
        raise ManifestBroken(path=path, reason="was not read to its end")


def _looked_at(given: Iterable[Path]) -> list[_NamedInput]:
    return [_look(path) for path in given]


def _look(path: Path) -> _NamedInput:
    if not path.is_dir():
        return _NamedInput(path, None)
    found = manifest.read(path)
    if found is not None:
        manifest.require_there(found, path)
    elif (path / RUN_DIR).is_dir():
        raise ManifestBroken(
            path=path / manifest.FILE, reason="is missing: the export there has not ended"
        )
    return _NamedInput(path, found)
