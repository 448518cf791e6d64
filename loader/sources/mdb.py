"""Source: a back-mdb database, read from its pages by the native core, beside a running slapd too.

No configuration and no schema is needed. The door to the part of loader._native that reads databases.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, ldif, resources
from loader._native import Counters, Dump, EntryDigests, Exported, Sample
from loader.errors import LoaderError, MdbDamaged, NoEntry, NotLmdb, ReaderGone, SystemFailed
from loader.mdb import meta, snapshot
from loader.progress import Meter
from loader.storage.files import require_readable

__all__ = ["Exported", "Sample"]

DATA = "data.mdb"


@dataclass(frozen=True)
class Part:
    """A database directory, and the entry below which it is read (None, or the empty DN: all of it)."""

    directory: Path
    base: str | None = None


def is_database(path: Path) -> bool:
    return (path / DATA).exists()


def export(part: Part, output: Path, compress: bool, jobs: int, meter: Meter) -> Exported:
    """Shards in the empty directory `output`, in the order of their names: parents first."""
    with _reading(part, meter, jobs, counted=True) as (dump, counters):
        return dump.export(output, counters, compress=compress)


def stream(
    part: Part, descriptor: int, compress: bool, jobs: int, meter: Meter, scratch: Path | None = None
) -> Exported:
    """All of it as one stream of LDIF, parents first. Raises ReaderGone; where it ends early otherwise, its end is none
    that a reader of LDIF takes. `scratch`: a directory for entries that have to wait for their parents."""
    scratch = scratch or Path(tempfile.gettempdir())
    with _reading(part, meter, jobs, origin="standard output", counted=True) as (dump, counters):
        return dump.stream(descriptor, scratch, counters, compress=compress)


def digest(part: Part, tree: EntryDigests, meter: Meter) -> None:
    """Add all of it to `tree`."""
    with _reading(part, meter) as (dump, counters):
        dump.digest(tree, counters)


def sample(part: Part, least: int, share: float, most: int, meter: Meter) -> Sample:
    """At least so many entries, and that share of all, but at most so many."""
    with _reading(part, meter, jobs=1) as (dump, counters):
        return dump.sample(counters, least=least, share=share, most=most)


def find(part: Part, names: Sequence[str]) -> bytes:
    """The entries of these DNs as LDIF, as far as they are there."""
    with _reading(part, Meter("find")) as (dump, counters):
        return dump.pick(names, counters)


@contextmanager
def _reading(
    part: Part, meter: Meter, jobs: int | None = None, origin: str | None = None, counted: bool = False
) -> Iterator[tuple[Dump, Counters]]:
    """A snapshot of it, held as long as the body runs; the core's errors made ours, of `origin` where they name no
    file."""
    require_database(part.directory)
    path = part.directory / DATA
    with snapshot.held(part.directory) as held:
        if counted and not part.base:
            meter.total = held.entries() or meter.total
        counters = Counters()
        base = part.base or None
        dump = Dump(held.path, txn=held.txn, base=base, jobs=jobs or resources.processors())
        with meter.counting(counters):
            try:
                yield dump, counters
            except _native.NativeError as error:
                raise _ours(error, path, part.base, origin) from error


def _ours(error: _native.NativeError, path: Path, base: str | None, origin: str | None) -> LoaderError:
    if error.code == "ldif.pipe":
        return ReaderGone(path=origin, what="LDIF")
    if ldif.of_the_disk(error):
        return SystemFailed(path=error.path or path, reason=error.message)
    if error.code == "build.damaged":
        return MdbDamaged(path=path, reason=str(error).removeprefix(f"{path}: "))
    if error.code == "mdb.no_such_base":
        return NoEntry(path=path, dn=base)
    return ldif.as_loader_error(error, origin or str(path))


def require_database(directory: Path) -> None:
    """Raises NoSuchPath, NotPermitted, NotLmdb, MdbProtected, MdbDamaged."""
    require_readable(directory)
    if not is_database(directory):
        raise NotLmdb(path=directory, reason=f"it holds no {DATA}")
    require_readable(directory / DATA)
    meta.read_meta(directory)
