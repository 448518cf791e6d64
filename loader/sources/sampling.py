"""A sample of the records of LDIF or of a database, spread evenly over all of it: windows of a few dozen records each.

The first records only would be biased: containers, old accounts and service entries come first. Files are read at
even places, and databases at even entry IDs; what is compressed is read to its end, for its records can only be found
from the one before.
"""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import zstandard

from loader import dn, ldif, units
from loader.errors import EmptyInput
from loader.piped import piped
from loader.progress import Meter
from loader.sources import mdb
from loader.sources.mdb import Part

_SIP = 4 << 10  # bytes
WINDOW = 64 << 10  # bytes of LDIF that are taken together: children stand near their parents
_RECORD = 1024  # bytes, roughly
_HEAD = 1 << 20  # bytes by which the mean record of a file is judged
_COMPRESSED = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b")


@dataclass(frozen=True)
class SampleSize:
    """At least so many records, and at least that share of all; but some `most` at most, which are held in memory."""

    records: int = 10_000
    share: float = 0.01
    most: int = 300_000

    def of(self, total: float) -> float:
        """How many of so many records."""
        return min(max(self.records, total * self.share), self.most)


@dataclass(frozen=True)
class Sample:
    """`text`: whole records. `total`: records of all, `is_counted`: or as the mean of the sample has it. `notes`: what
    it does not show of the entries."""

    text: bytes
    names: Sequence[str]  # DNs of its records
    total: int
    is_counted: bool
    how: str
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.is_counted and len(self.names) == self.total


def of_files(paths: Sequence[Path], known: int | None, wanted: SampleSize, meter: Meter) -> Sample:
    """Of LDIF files. `known`: records of all, if a manifest tells. Raises EmptyInput, LdifSyntax and what else reading
    LDIF raises."""
    origin = ", ".join(map(str, paths))
    if any(map(is_compressed, paths)):
        return _of_stream(paths, wanted, meter)
    size = sum(path.stat().st_size for path in paths)
    step = _step(paths, size, wanted)
    if step <= WINDOW:
        return _of_stream(paths, wanted, meter)
    text = b"".join(_windows(paths, step))
    found = _names(text, origin)
    total = known or round(size * len(found) / len(text))
    how = f"windows of {WINDOW >> 10} KiB at {size // step + 1} even places of the files"
    return Sample(text, found, total, known is not None, how)


def of_heads(paths: Sequence[Path], known: int | None, wanted: SampleSize) -> Sample:
    """Of compressed LDIF, which is not read to its end: the first records of each file, biased where there are few.
    Raises as `of_files`."""
    origin, each = ", ".join(map(str, paths)), max(WINDOW, wanted.records * _RECORD // len(paths))
    text, read = b"", 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            head = _decompressed(file).read(each)
            read += file.tell()
        text += _whole(head, at_start=True)
    found = _names(text, origin)
    total = known or round(sum(path.stat().st_size for path in paths) * len(found) / read)
    return Sample(text, found, total, known is not None, "the first records of each file")


class _Sips:
    """Little of a file at once, so that a decompressor reads hardly more of it than it needs."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, _SIP))


def _decompressed(file: IO[bytes]) -> IO[bytes]:
    magic = file.read(4)
    file.seek(0)
    sips = cast("IO[bytes]", _Sips(file))
    if magic.startswith(_COMPRESSED[0]):
        return zstandard.ZstdDecompressor().stream_reader(sips, read_across_frames=True)
    if magic.startswith(_COMPRESSED[1]):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=sips))
    return file


def of_beginnings(paths: Sequence[Path], total: int, wanted: SampleSize, how: str) -> Sample:
    """Of files whose last record may be cut, as a search leaves them that was given up: windows at even places.
    `total`: records of the whole. Raises EmptyInput."""
    size = sum(path.stat().st_size for path in paths)
    step = max(WINDOW, _step(paths, size, wanted)) if size else WINDOW
    text = b"".join(_beginnings(paths, step))
    found = _names(text, how)
    return Sample(text, found, max(total, len(found)), True, how)


def of_part(path: Path, parts: int, counted: int | None, how: str) -> Sample:
    """All records of a file, which are those of one of so many parts of as many records each. `counted`: records of all
    parts, where that is known. Raises EmptyInput."""
    text = path.read_bytes()
    found = _names(text, how)
    if counted is None:
        return Sample(text, found, parts * len(found), parts == 1, how)
    return Sample(text, found, max(counted, len(found)), True, how)


def _beginnings(paths: Sequence[Path], step: int) -> Iterator[bytes]:
    """Of each file a window in every step, whole records; all of it where the steps are windows."""
    for path in paths:
        with path.open("rb") as file:
            if step == WINDOW:
                yield _whole(file.read(), at_start=True)
                continue
            size = path.stat().st_size
            for place in range(0, size, step):
                yield _whole(os.pread(file.fileno(), WINDOW, place), place == 0)


def of_database(directory: Path, wanted: SampleSize, meter: Meter) -> Sample:
    """Of a database, beside a running slapd too. Raises MdbDamaged, NotLmdb, NotPermitted, EmptyInput."""
    taken = mdb.sample(Part(directory), wanted.records, wanted.share, wanted.most, meter)
    found = _names(taken.text, str(directory))
    if taken.windows is None:
        return Sample(taken.text, found, len(found), True, "all of it")
    how = f"{units.number(taken.windows)} windows of entry IDs"
    return Sample(taken.text, found, max(taken.records, len(found)), True, how)


def is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(_COMPRESSED)


def _step(paths: Sequence[Path], size: int, wanted: SampleSize) -> int:
    """Bytes from the beginning of a window to that of the next one."""
    heads = []
    for path in (paths[0], paths[-1]):
        with path.open("rb") as file:
            heads.append(file.read(_HEAD))
    records = sum(head.count(b"\n\n") + head.count(b"\n\r\n") for head in heads) or 1
    mean = sum(map(len, heads)) / records
    bytes_wanted = max(wanted.of(size / mean) * mean, WINDOW)
    return int(WINDOW * size / bytes_wanted)


def _windows(paths: Sequence[Path], step: int) -> Iterator[bytes]:
    """The middle of each step, over all files as if they were one."""
    start = 0
    for path in paths:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = -(-(start - step // 2) // step)
            place = max(0, first) * step + step // 2 - start
            while place < size:
                yield _whole(os.pread(file.fileno(), WINDOW, place), place == 0)
                place += step
        start += size


def _whole(text: bytes, at_start: bool = False) -> bytes:
    """The records that are whole in a window, each with its blank line."""
    text = text.replace(b"\r\n", b"\n")
    first = 0 if at_start else text.find(b"\n\n") + 2
    last = text.rfind(b"\n\n") + 2
    return text[first:last] if 2 <= first < last or at_start else b""


def _of_stream(paths: Sequence[Path], wanted: SampleSize, meter: Meter) -> Sample:
    with (
        piped(lambda end: ldif.join(paths, end, meter), "sample") as (descriptor, counted),
        open(descriptor, "rb", closefd=False) as stream,
    ):
        text, sparse = _thinned(stream.read, wanted)
    found = _names(text, ", ".join(map(str, paths)))
    how = "all of it" if sparse == 1 else f"one window of {WINDOW >> 10} KiB in {sparse}"
    return Sample(text, found, counted.result(), True, f"{how}; all was read")


def _thinned(read: Callable[[int], bytes], wanted: SampleSize) -> tuple[bytes, int]:
    """One window of so many, evenly, whatever the length: half of them go whenever there are twice as many records as
    wanted."""
    kept: list[bytes] = []
    sparse, number, records = 1, 0, 0
    sparsest = 1 / wanted.share if wanted.share else math.inf
    while window := read(WINDOW):
        if number % sparse == 0:
            kept.append(window)
            records += window.count(b"\n\n")
            enough = records > 2 * wanted.records and 2 * sparse <= sparsest
            if enough or records > 2 * wanted.most:
                kept, sparse = kept[::2], sparse * 2
                records = sum(one.count(b"\n\n") for one in kept)
        number += 1
    if sparse == 1:
        return b"".join(kept), 1
    return b"".join(_whole(one, place == 0) for place, one in enumerate(kept)), sparse


def _names(text: bytes, origin: str) -> list[str]:
    found = [name for name, _ in ldif.records(text, origin, most=1 << 32)]
    if not found:
        raise EmptyInput(path=origin)
    return found


def parents(sample: Sample, suffix: str) -> list[str]:
    """DNs from `suffix` down that entries of the sample are below, and that are not in it; parents first."""
    present = {dn.key(name) for name in sample.names}
    missing: dict[str, str] = {}
    for name in filter(lambda one: dn.is_below(one, suffix), sample.names):
        while dn.key(name) != dn.key(suffix):
            name = dn.parent(name)
            found = dn.key(name)
            if found in present or found in missing:
                break
            missing[found] = name
    return sorted(missing.values(), key=lambda name: dn.key(name).count(","))
