"""Reads a back-mdb database through the native core, without configuration and schema. slapd may be running."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from loader import _native, defaults, ldif
from loader._native import Counters, Dump, EntryDigests, Exported, Sample
from loader.errors import LoaderError, MdbDamaged, NoEntry, NotLmdb, ReaderGone, SystemFailed
from loader.mdb import meta, snapshot
from loader.progress import Meter
from loader.storage.files import require_readable

__all__ = ["Exported", "Sample"]


class Part(Struct, frozen=True):
    """The part of a database to read. `base`: its top entry (None or "": all). `after`: omits entries up to this ID."""

    directory: Path
    base: str | None = None
    after: int = 0


class LdifFormat(Struct, frozen=True):
    """How an export writes its LDIF. The native core reads these fields. `compress`: with zstd. `as_slapcat`, only for
    a stream: write the entries in the order of their IDs, and fold lines after this many characters (0: never)."""

    compress: bool = False
    as_slapcat: int | None = None


PLAIN = LdifFormat()


def is_database(path: Path) -> bool:
    return (path / meta.DATA).exists()


def export(part: Part, output: Path, ldif_format: LdifFormat, jobs: int, meter: Meter) -> Exported:
    """Writes LDIF files to the empty directory `output`. No entry is in an earlier file than its parent."""
    with _reading(part, meter, jobs, counted=True) as (dump, counters):
        return dump.export(output, ldif_format, counters)


def stream(
    part: Part, descriptor: int, jobs: int, meter: Meter, ldif_format: LdifFormat = PLAIN, scratch: Path | None = None
) -> Exported:
    """Writes one stream of LDIF, parents first. `scratch`: directory for entries that precede their parents. Raises
    ReaderGone if the reader closes the pipe. After any other error, the end of the stream is invalid LDIF."""
    scratch = scratch or Path(tempfile.gettempdir())
    with _reading(part, meter, jobs, origin="standard output", counted=True) as (dump, counters):
        return dump.stream(descriptor, ldif_format, scratch, counters)


def digest(part: Part, tree: EntryDigests, meter: Meter) -> None:
    with _reading(part, meter) as (dump, counters):
        dump.digest(tree, counters)


def sample(part: Part, least: int, share: float, most: int, meter: Meter) -> Sample:
    """Returns a sample of the entries: at least `least` and the fraction `share` of all entries, but at most `most`."""
    with _reading(part, meter, jobs=1) as (dump, counters):
        return dump.sample(counters, least=least, share=share, most=most)


def find(part: Part, names: Sequence[str]) -> bytes:
    """Returns the entries with these DNs as LDIF. Omits missing DNs."""
    with _reading(part, Meter("find")) as (dump, counters):
        return dump.pick(names, counters)


@contextmanager
def _reading(
    part: Part, meter: Meter, jobs: int | None = None, origin: str | None = None, counted: bool = False
) -> Iterator[tuple[Dump, Counters]]:
    """Opens a snapshot for the body, and converts the core's errors to LoaderErrors. `origin`: name for errors that
    concern no file. `counted`: set `meter.total`."""
    require_database(part.directory)
    path = part.directory / meta.DATA

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "ldif.pipe":
            return ReaderGone(path=origin, what="LDIF")
        if ldif.is_disk_failure(error):
            return SystemFailed(path=error.path or path, reason=error.message)
        if error.code == "build.damaged":
            return MdbDamaged(path=path, reason=str(error).removeprefix(f"{path}: "))
        return NoEntry(path=path, dn=part.base) if error.code == "mdb.no_such_base" else None

    with snapshot.protected(part.directory) as opened:
        if counted and not part.base and not part.after:
            meter.total = opened.entries() or meter.total
        jobs = jobs or defaults.processors()
        dump = Dump(opened.path, txn=opened.txn, base=part.base or None, jobs=jobs, after=part.after)
        with ldif.with_counters(meter, origin or str(path), translate) as counters:
            yield dump, counters


def require_database(directory: Path) -> None:
    """Raises NoSuchPath, NotPermitted, NotLmdb, MdbProtected or MdbDamaged if there is no readable database."""
    require_readable(directory)
    if not is_database(directory):
        raise NotLmdb(path=directory, reason=f"it contains no {meta.DATA}")
    require_readable(directory / meta.DATA)
    meta.read_meta(directory)
