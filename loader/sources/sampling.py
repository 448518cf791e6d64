"""Samples records evenly from LDIF or from a database, to estimate the size of a database with all records.

The first records alone would be biased: containers, old accounts and service entries come first. Choosing records by
byte position would be biased, too: a few large records (a group with all members, photos) can contain most of the
bytes. So records are classified by size. Every nth common record (up to a page long) is taken. From each class of
larger records, a few megabytes are taken, or all records if they are few. Each sample is scaled to its class."""

from __future__ import annotations

import gzip
import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import zstandard
from msgspec import Struct
from msgspec.structs import replace

from loader import dn, ldif, units
from loader.errors import Cancelled, EmptyInput, LdifSyntax, LdifUnreadable
from loader.progress import Meter
from loader.sources import mdb
from loader.sources.mdb import Part

COMMON = 4 << 10  # maximum bytes of a common record; larger records are in classes by the bits of their size
_LARGE = 8 << 20  # bytes of LDIF that are taken from each class of larger records
_CHUNK = 1 << 20  # bytes per read
_SMALL_READ = 4 << 10  # bytes of a compressed file per read
_MAGICS = (b"\x28\xb5\x2f\xfd", b"\x1f\x8b")  # the first bytes of a zstd and of a gzip file


class SampleSize(Struct, frozen=True):
    """The size of a sample, which is kept in memory: at least `records` records and the fraction `share` of all
    records, but at most about `most` records. The reading of files stops after `seconds`, and the rest is extrapolated.
    If there are more than `whole` bytes of uncompressed LDIF, only `windows` windows of _CHUNK bytes are read."""

    records: int = 10_000
    share: float = 0.01
    most: int = 300_000
    seconds: float = math.inf
    whole: int = 4 << 30
    windows: int = 1024

    def of(self, total: float) -> float:
        return min(max(self.records, total * self.share), self.most)


class SizeClass(Struct, frozen=True):
    """A class of large records. `text`: the sampled ones as LDIF. `names`: their DNs. `total`: records in the class."""

    text: bytes
    names: Sequence[str]
    total: int


class Sample(Struct, frozen=True):
    """A sample. `text`: LDIF of common records. `names`: their DNs. `total`: number of records in the source, which is
    an estimate if `is_counted` is False. `how`: the method in words. `notes`: limitations. `larger`: large records."""

    text: bytes
    names: Sequence[str]
    total: int
    is_counted: bool
    how: str
    notes: tuple[str, ...] = ()
    larger: tuple[SizeClass, ...] = ()

    @property
    def common(self) -> int:
        """The number of records that `text` represents."""
        return max(len(self.names), self.total - sum(size_class.total for size_class in self.larger))

    @property
    def ldif_bytes(self) -> int:
        """An estimate of the bytes of LDIF of all records."""
        larger = sum(len(each.text) * each.total / len(each.names) for each in self.larger)
        return round(len(self.text) * max(1.0, self.common / len(self.names)) + larger)


def of_files(paths: Sequence[Path], known: int | None, wanted: SampleSize, meter: Meter) -> Sample:
    """Returns a sample of LDIF files. `known`: number of records according to manifests, or None. Raises EmptyInput if
    there are no records; LdifTruncated, LdifUnreadable."""
    origin, size = ", ".join(map(str, paths)), sum(path.stat().st_size for path in paths)
    sampler = _Sampler(wanted)
    if size > wanted.whole and not any(map(is_compressed, paths)):
        for batch in _windows(paths, size // wanted.windows):
            sampler.take(batch)
        how = f"{units.number(wanted.windows)} windows of {_CHUNK >> 20} MiB, evenly distributed over the files"
        return sampler.sample(origin, how, size / (wanted.windows * _CHUNK), known)
    until, bytes_before = time.monotonic() + wanted.seconds, 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            try:
                for batch in _batches(_decompress(file).read, to_end=True):
                    if meter.cancelled.is_set():
                        raise Cancelled(signal="the timeout of this step")
                    records = _entries(batch)
                    meter.add(len(records), sum(map(len, records)))
                    sampler.take(records)
                    if time.monotonic() > until:
                        bytes_read = sum(subset.bytes + 2 * subset.count for subset in sampler.classes)
                        how = f"the first {units.size(bytes_read)} of LDIF"
                        scale = max(1.0, size / (bytes_before + file.tell()))
                        return sampler.sample(origin, how, scale, known)
            except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
                raise LdifUnreadable(path=path, reason=str(error)) from error
            bytes_before += file.tell()
    if zstd := [path for path in paths if _magic(path).startswith(_MAGICS[0])]:
        with suppress(LdifSyntax):  # the load reports syntax errors, and may accept URLs, which `scan` refuses
            ldif.scan(zstd, Meter("scan"))  # raises LdifTruncated if a file ends within a frame; zstandard ignores this
    return sampler.sample(origin, "all of it was read", 1.0, None)


def of_part(paths: Sequence[Path], total: float, wanted: SampleSize, how: str, is_counted: bool = True) -> Sample:
    """Returns a sample of files with some of `total` records, such as the output of a search. The last record of a file
    may be incomplete. Raises EmptyInput if there are no records."""
    sampler = _Sampler(wanted)
    for path in paths:
        with path.open("rb") as file:
            for batch in _batches(file.read):
                sampler.take(batch)
    scale = max(1.0, total / max(1, sum(subset.count for subset in sampler.classes)))
    sample = sampler.sample(", ".join(map(str, paths)), how, scale, None)
    return replace(sample, is_counted=is_counted)


def count(path: Path) -> int:
    """Returns the number of complete records in a file."""
    with path.open("rb") as file:
        return sum(map(len, _batches(file.read)))


class _ClassSample:
    """A sample of a size class: every `each`th record. While `is_full` returns True, every other record is dropped."""

    def __init__(self, is_full: Callable[[_ClassSample], bool]) -> None:
        self.records: list[bytes] = []
        self.each = 1
        self.record_bytes = self.count = self.bytes = 0
        self._is_full = is_full

    def take(self, records: Sequence[bytes]) -> None:
        chosen = records[-self.count % self.each :: self.each]
        self.records += chosen
        self.record_bytes += sum(map(len, chosen))
        self.count += len(records)
        self.bytes += sum(map(len, records))
        while self._is_full(self):
            self.records, self.each = self.records[::2], self.each * 2
            self.record_bytes = sum(map(len, self.records))


class _Sampler:
    """Receives all records, and keeps a sample of each size class."""

    def __init__(self, wanted: SampleSize) -> None:
        self._size = wanted
        self._longest_step = 1 / wanted.share if wanted.share else math.inf
        self._common_sample = _ClassSample(self._is_enough)
        self._larger_samples: dict[int, _ClassSample] = {}

    def _is_enough(self, common: _ClassSample) -> bool:
        count, wanted = len(common.records), self._size
        enough = count > 2 * wanted.records and 2 * common.each <= self._longest_step
        return enough or count > 2 * wanted.most

    def _is_large(self, subset: _ClassSample) -> bool:
        count = len(subset.records)
        return count > 1 and (subset.record_bytes > 2 * _LARGE or count > 2 * self._size.most)

    def take(self, records: list[bytes]) -> None:
        if len(max(records, key=len, default=b"")) > COMMON:
            for record in (record for record in records if len(record) > COMMON):
                bits = len(record).bit_length()
                self._larger_samples.setdefault(bits, _ClassSample(self._is_large)).take([record])
            records = [record for record in records if len(record) <= COMMON]
        self._common_sample.take(records)

    @property
    def classes(self) -> list[_ClassSample]:
        return [self._common_sample, *self._larger_samples.values()]

    def sample(self, origin: str, how: str, scale: float, known: int | None) -> Sample:
        """Returns the sample. The source has `scale` records per received record. `known`: as in `of_files`."""
        kept_classes = [subset for subset in self.classes if subset.records]
        if not kept_classes:
            raise EmptyInput(path=origin)
        # Classes of which all records were kept are combined, because they need no scaling of their own.
        whole = [subset for subset in kept_classes if subset.each == 1]
        groups = [[subset] for subset in kept_classes if subset.each > 1] + ([whole] if whole else [])
        groups.sort(key=lambda group: (group[0] is not self._common_sample, -group[0].count))
        classes = []
        for group in groups:
            text = b"".join(record + b"\n\n" for subset in group for record in subset.records)
            names, subset = _names(text, origin), group[0]
            weight = scale * (subset.bytes / subset.record_bytes if subset.each > 1 else 1)
            classes.append(SizeClass(text, names, max(len(names), round(len(names) * weight))))
        first, *larger = classes
        if self._common_sample.each > 1:
            how = f"one record in {self._common_sample.each}; {how}"
        elif larger:
            how = f"some of the large records; {how}"
        total = known or round(sum(subset.count for subset in self.classes) * scale)
        is_counted = scale == 1.0 or known is not None
        return Sample(first.text, first.names, total, is_counted, how, larger=tuple(larger))


def _entries(records: list[bytes]) -> list[bytes]:
    """Returns the records without comments, version lines and extra blank lines."""
    if all(record.startswith(b"dn:") for record in records):
        return records
    stripped = (record.strip(b"\n") for record in records)
    return [record for record in stripped if b"dn:" in record[:COMMON].lower()]


def _batches(read: Callable[[int], bytes], to_end: bool = False) -> Iterator[list[bytes]]:
    """Yields records without the blank lines that end them. Yields a last record without a blank line only with
    `to_end`. Reads CR LF as LF."""
    rest: list[bytes] = []
    while chunk := read(_CHUNK):
        if chunk.endswith(b"\r"):
            chunk += read(1)
        chunk = chunk.replace(b"\r\n", b"\n")
        if rest and rest[-1].endswith(b"\n") and chunk.startswith(b"\n"):
            rest[-1], chunk = rest[-1][:-1], b"\n" + chunk
        end = chunk.rfind(b"\n\n")
        if end < 0:
            rest.append(chunk)
            continue
        whole = b"".join([*rest, chunk[:end]])
        rest = [chunk[end + 2 :]]
        yield whole.split(b"\n\n")
    if to_end and (last := b"".join(rest)):
        yield [last]


def _windows(paths: Sequence[Path], step: int) -> Iterator[list[bytes]]:
    """Divides the concatenated files into equal steps. Yields the records that begin in a window in the middle of each
    step. The last record of a window is read to its end, so that large records are not underrepresented."""
    start = 0
    for path in paths:
        size = path.stat().st_size
        with path.open("rb", buffering=0) as file:
            first = -(-(start - step // 2) // step)
            for position in range(max(0, first) * step + step // 2 - start, size, step):
                file.seek(position)
                chunk = file.read(_CHUNK).replace(b"\r\n", b"\n")
                begin = chunk.find(b"\n\n") + 2 if position else 0
                if begin == 1:  # the window is inside a record
                    continue
                chunks = [chunk[begin:]]
                while (more := file.read(_CHUNK).replace(b"\r\n", b"\n")) and (end := more.find(b"\n\n")) < 0:
                    chunks.append(more)
                chunks.append(more[:end] if more else b"")
                yield _entries(b"".join(chunks).split(b"\n\n"))
        start += size


def _decompress(file: IO[bytes]) -> IO[bytes]:
    """Returns the decompressed content. Reads little ahead, so that the position in `file` shows the progress."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(_MAGICS[0]):
        return zstandard.ZstdDecompressor().stream_reader(file, read_size=_SMALL_READ, read_across_frames=True)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if magic.startswith(_MAGICS[1]) else file


def of_database(directory: Path, wanted: SampleSize, meter: Meter) -> Sample:
    """Returns a sample of a database; slapd may be running. Raises MdbDamaged, NotLmdb, NotPermitted, EmptyInput."""
    sample = mdb.sample(Part(directory), wanted.records, wanted.share, wanted.most, meter)
    names = _names(sample.text, str(directory))
    how = "all of it" if sample.windows is None else f"{units.number(sample.windows)} windows of entry IDs"
    total = len(names) if sample.windows is None else max(sample.records, len(names))
    return Sample(sample.text, names, total, True, how)


def is_compressed(path: Path) -> bool:
    return _magic(path).startswith(_MAGICS)


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _names(text: bytes, origin: str) -> list[str]:
    names = [name for name, _ in ldif.records(text, origin, most=1 << 32)]
    if not names:
        raise EmptyInput(path=origin)
    return names


def parents(names: Sequence[str], suffix: str) -> list[str]:
    """Returns the DNs of missing ancestors of `names`, from `suffix` down, parents first."""
    keys = {dn.key(name) for name in names}
    missing: dict[str, str] = {}
    for name in filter(lambda name: dn.is_below(name, suffix), names):
        while dn.key(name) != dn.key(suffix):
            name = dn.parent(name)
            key = dn.key(name)
            if key in keys or key in missing:
                break
            missing[key] = name
    return sorted(missing.values(), key=lambda name: dn.key(name).count(","))
