"""Forecasts the size and the build time of a database from builds of a sample of its entries.

The core builds the sample in a scratch directory. Parents that the sample lacks are replaced by entries of the class
glue, as slapd itself has them, and are built alone, too: what a build of the sample has more than that one is what the
entries of the sample take. The disk of the database is asked how fast it writes once the caches in front of it (a
controller's, a hypervisor's, credits of a cloud) are full.
"""

from __future__ import annotations

import base64
import functools
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loader import dn, resources
from loader.errors import Cancelled, EmptyInput, LoaderError
from loader.mdb import contents, copy, meta
from loader.mdb.meta import DATA
from loader.operations.sizing import model
from loader.operations.sizing.model import Forecast, Growth
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from loader.sinks.mdb import BuildRules, Target
from loader.sources import sampling
from loader.sources.location import LdifFiles
from loader.sources.sampling import Sample, SampleSize, SizeClass
from loader.storage import files, held, holders, temporary

LARGEST = 24  # times the LDIF: no database takes more, with every attribute indexed
_EMPTY = 1 << 20  # bytes of a database with all tables and no entries, at most
_COMPRESSED = 20  # times smaller than LDIF its compressed form may be
_OF_FILES = SampleSize(5000, 0.0, seconds=10.0)

_ROOM = 1 << 44  # bytes: maxsize of the sample's database
TIMED = 1.0  # seconds
_TIMED_SHARE, _TIMED_MOST = (0.1, 3.0)  # of the whole build; seconds: a long one is worth a better answer
_NOW = "20260101000000Z"
_GLUE = """objectClass: glue
structuralObjectClass: glue
entryUUID: {uuid}
entryCSN: 20000101000000.000000Z#000000#000#000000
createTimestamp: 20000101000000Z
modifyTimestamp: 20000101000000Z

"""
LONGEST = 5.0  # seconds that the disk is measured
MOST = 2 << 30  # bytes that are written to measure it
_LEAST = 64 << 20  # bytes: the time of a smaller write is mostly its fsync
_DISK_SHARE = 8  # this part of a load is written
_PREFIX = ".ditseed-write-"


@dataclass(frozen=True)
class SampleBuild:
    """A finished one."""

    directory: Path
    entries: int
    rejected: int
    seconds: float


def at_most(given: LdifFiles) -> int:
    """Bytes that a database of these files cannot exceed, from their sizes alone."""
    paths = given.paths()
    factor = _COMPRESSED if any(map(sampling.is_compressed, paths)) else 1
    return _EMPTY + sum(path.stat().st_size for path in paths) * factor * LARGEST


def of_files(target: Target, given: LdifFiles, meter: Meter) -> Forecast:
    """The size only. Raises EmptyInput, NotProven, and what reading LDIF raises."""
    sample = sampling.of_files(given.paths(), given.entries(), _OF_FILES, meter)
    return forecast(sample, target, meter, timed=0.0)


def forecast(sample: Sample, target: Target, meter: Meter, timed: float = TIMED, disk: Path | None = None) -> Forecast:
    """The sample is built twice for `timed` / 2 seconds, or longer for a large whole: the duration of one short build
    says little about the next one. With `timed` 0 it is built once. `disk`: the directory whose writing speed is
    measured. Raises EmptyInput if no entry of the sample belongs into the database, NotProven, NoSpace."""
    with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
        return _forecast(sample, target, scratch, meter, timed, disk)


def _forecast(sample: Sample, target: Target, scratch: Path, meter: Meter, timed: float, disk: Path | None) -> Forecast:
    above, text = _inputs(sample, target, scratch)
    build = functools.partial(_timed, target, meter=meter, timed=timed)
    before = build(above, scratch / "parents", factor=1.0) if above else None
    after = build([*above, text], scratch / "sample", factor=sample.factor)
    sampled = after.entries - (before.entries if before else 0)
    if sampled <= 0:
        raise EmptyInput(path=f"the sample, {target.settings.suffixes[0]} and below")
    growth = _growth(target, before, after, sampled, max(sampled, sample.common))
    tables = model.tables(growth)
    found = Forecast(
        entries=sample.total,
        is_counted=sample.is_counted,
        sampled=sampled,
        rejected=after.rejected,
        how=sample.how,
        bytes=sum(table.bytes for table in tables),
        seconds=_seconds(before, after, growth.factor),
        tables=tables,
    )
    larger, apart = 0.0, scratch / "larger"  # seconds; a directory
    apart.mkdir(mode=0o700)
    for size_class in sample.larger:
        found, seconds = _with_larger(found, size_class, target, apart, meter)
        larger += seconds
    if not timed:
        return replace(found, seconds=found.seconds + larger)
    rate = rate_for(after.directory / DATA, disk, found.bytes, meter) if disk else None
    # At another moment: how fast a processor of a shared host is changes from second to second.
    later = build([*above, text], scratch / "sample", factor=sample.factor)
    again = _seconds(before, later, growth.factor)
    # A sample fits into the caches in front of a disk; the whole need not.
    writing = found.bytes / rate if rate else 0.0
    return replace(found, seconds=max((found.seconds + again) / 2 + larger, writing))


def _with_larger(
    found: Forecast, size_class: SizeClass, target: Target, scratch: Path, meter: Meter
) -> tuple[Forecast, float]:
    """What entries of another size add to the database, and the seconds that they take."""
    above, text = _inputs(size_class, target, scratch)
    before = _built(target, above, scratch / "parents", meter) if above else None
    after = _built(target, [*above, text], scratch / "sample", meter)
    sampled = after.entries - (before.entries if before else 0)
    if sampled <= 0:
        return replace(found, rejected=found.rejected + after.rejected), 0.0
    growth = _growth(target, before, after, sampled, max(sampled, size_class.total), is_added=True)
    tables = tuple(model.added(found.tables, model.tables(growth)))
    seconds = max(0.0, after.seconds - (before.seconds if before else 0.0)) * growth.factor
    added = replace(
        found,
        sampled=found.sampled + sampled,
        rejected=found.rejected + after.rejected,
        bytes=sum(one.bytes for one in tables),
        tables=tables,
    )
    return added, seconds


def _seconds(before: SampleBuild | None, after: SampleBuild, factor: float) -> float:
    """Of a build of so many times the entries; what the parents alone take is taken once."""
    fixed = before.seconds if before else 0.0
    return fixed + (after.seconds - fixed) * factor


def _inputs(sample: Sample | SizeClass, target: Target, scratch: Path) -> tuple[list[Path], Path]:
    """The parents that it lacks, if there are any, and itself."""
    missing = sampling.parents(sample.names, target.settings.suffixes[0])
    above, text = scratch / "parents.ldif", scratch / "sample.ldif"
    files.write_durably(above, b"".join(map(_stand_in, missing)), 0o600)
    files.write_durably(text, sample.text, 0o600)
    return [above] if missing else [], text


def _growth(
    target: Target, before: SampleBuild | None, after: SampleBuild, sampled: int, wanted: int, is_added: bool = False
) -> Growth:
    return Growth(
        before=contents.table_sizes(before.directory) if before else None,
        after=contents.table_sizes(after.directory, before.directory if before else None),
        sampled=sampled,
        wanted=wanted,
        longest=(1 << target.settings.idlexp) - 1,
        is_added=is_added,
    )


def _stand_in(name: str) -> bytes:
    coded = base64.b64encode(name.encode("utf-8", "surrogateescape")).decode()
    known = uuid.uuid5(uuid.NAMESPACE_X500, dn.key(name))
    return f"dn:: {coded}\n{_GLUE.format(uuid=known)}".encode()


def _timed(target: Target, inputs: list[Path], place: Path, meter: Meter, timed: float, factor: float) -> SampleBuild:
    """The last one, with the seconds that three of four take at most: a long build meets slow moments, too. The first
    counts only where there is no other, for it finds nothing ready. `factor`: by how much the whole is larger."""
    made, began = _built(target, inputs, place, meter), time.monotonic()
    if not timed:
        return made
    timed = max(timed, min(_TIMED_MOST, _TIMED_SHARE * factor * made.seconds)) / 2
    found: list[SampleBuild] = []
    while not found or time.monotonic() - began < timed:
        found.append(_built(target, inputs, place, meter))
    taken = sorted(one.seconds for one in found)
    return replace(found[-1], seconds=taken[3 * (len(taken) - 1) // 4])


def _built(target: Target, inputs: list[Path], place: Path, meter: Meter) -> SampleBuild:
    files.remove_tree(place)
    place.mkdir(mode=0o700)
    means = mdb.Resources(
        memory=resources.sorting_memory(), jobs=resources.processors(), scratch=place, rejects=place / "rejects.ldif"
    )
    target = replace(target, map_size=_ROOM)
    rules = BuildRules(now=_NOW, value_check="skip", check_schema=False, max_rejects=1 << 31)
    started = time.monotonic()
    built = mdb.build(target, inputs, place / DATA, rules, means, meter)
    return SampleBuild(place, built.entries, built.rejected, time.monotonic() - started)


@contextmanager
def unnamed_file(directory: Path) -> Iterator[int]:
    """In `directory`, which slapd's account may own. It has lost its name before anything is written, so its blocks end
    with the process, however that ends. Raises LoaderError, OSError."""
    with held.scratch(directory, _PREFIX) as home:
        descriptor = home.create("written")
        home.remove("written")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(data: Path, target: int, most: int, meter: Meter) -> int:
    """Copies the beginning of a data file there, by the engine that clones, fsync included; how many bytes."""
    facts = meta.read_meta(data)
    pages = max(min(facts.used, most) // facts.page_size, 2)
    place, head = Path(f"/proc/self/fd/{target}"), bytes(2 * facts.page_size)
    copy.plain(data, place, head, pages * facts.page_size, None, meter)
    return pages * facts.page_size


def rate_for(data: Path, directory: Path, load: int, meter: Meter) -> float | None:
    """Bytes a second, of a load of `load` bytes: an eighth of it is written, `data` again and again. None: that is too
    little to tell, a slapd would have to wait for it, there is no room, or nothing can be written there. Raises
    Cancelled."""
    wanted = min(load // _DISK_SHARE, MOST)
    inner = Meter(meter.name)
    try:
        if wanted < _LEAST or files.free_bytes(directory) < 2 * MOST:
            return None
        holders.require_unused(directory)
        with unnamed_file(directory) as target, meter.cancelling(inner.cancel):
            return _sustained(data, target, wanted, inner)
    except Cancelled:
        raise
    except (LoaderError, OSError):
        return None


def _sustained(data: Path, target: int, wanted: int, meter: Meter) -> float:
    began, written = time.monotonic(), 0
    while written < wanted and time.monotonic() - began < LONGEST:
        written += write(data, target, wanted - written, meter)
    return written / max(time.monotonic() - began, 1e-3)
