"""Sink: changes of a provider's entries, into the database of a stopped consumer, in one transaction.

Another door to the part of loader._native that knows databases (see loader/sinks/mdb.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, units
from loader._native import Database, Refreshed
from loader.errors import EntryRefused, LoaderError, MapFull, MdbDamaged, NotProven, OtherFormat, RefreshRefused
from loader.ldif import with_counters
from loader.mdb import meta
from loader.mdb.environment import reached
from loader.progress import Meter

__all__ = ["Refreshed", "SyncResult", "apply"]

_ADVICE = "Start slapd, which may be able to do it, or seed the replica anew (ditseed replica seed --replace)."


@dataclass(frozen=True)
class SyncResult:
    """What the provider told, as `_native.refresh` has it."""

    changed: Sequence[Path]
    present: Path | None
    deleted: Sequence[Path]
    lost: Sequence[bytes]
    reached: Sequence[str]
    claimed: Sequence[str]


@dataclass(frozen=True)
class Resources:
    """What the work may take: bytes, threads, an existing directory for temporary files."""

    memory: int
    jobs: int
    scratch: Path


def _require_writable(directory: Path) -> None:
    """The core changes files of LMDB 0.9 only."""
    found = meta.read_meta(directory).format
    if found != 1:
        path = meta.data_file(directory)
        raise OtherFormat(path=path, found=found, who="ditseed refresh", needed=1)


def apply(
    directory: Path,
    database: Database,
    maxsize: int,
    told: SyncResult,
    now: str,
    means: Resources,
    allowed: Callable[[], None],
    meter: Meter,
) -> Refreshed:
    """All of it or nothing, and durable; nothing where entries are unsettled, or `allowed`, which is called beside the
    work, raises something.

    Raises RefreshRefused, EntryRefused, MapFull, MdbDamaged, NotProven, OtherFormat.
    """
    _require_writable(directory)
    asked = with_counters(meter, str(directory))
    with (
        _beside(allowed) as ready,
        asked as counters,
        meter.following(counters),
        reached(directory, writable=True) as place,
    ):
        try:
            return _native.refresh(
                str(place),
                database,
                counters,
                changed=[str(path) for path in told.changed],
                present=str(told.present) if told.present else None,
                deleted=[str(path) for path in told.deleted],
                lost=list(told.lost),
                reached=list(told.reached),
                claimed=list(told.claimed),
                allowed=ready,
                now=now,
                memory=means.memory,
                jobs=means.jobs,
                scratch=str(means.scratch),
            )
        except _native.NativeError as error:
            ours = _ours(error, directory, maxsize)
            if ours is None:
                raise  # of reading LDIF: counting() knows it
            raise ours from error


@contextmanager
def _beside(allowed: Callable[[], None]) -> Iterator[int]:
    """A descriptor that has a byte once `allowed` has returned, and ends without one when it raised: then that is the
    error."""
    reading, writing = os.pipe()

    def ask() -> None:
        with os.fdopen(writing, "wb") as told:
            allowed()
            told.write(b"1")

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            yield reading
        finally:
            error = asked.exception()
            os.close(reading)
            if error is not None:
                raise error


def _ours(error: _native.NativeError, directory: Path, maxsize: int) -> LoaderError | None:
    if error.code == "build.unproven":
        return RefreshRefused(path=directory, reason=error.message, advice=_ADVICE)
    if error.code == "build.rejected":
        where = "in what the provider sent"
        return EntryRefused(dn=error.dn or "", reason=error.message, where=where, way_out="")
    if error.code == "build.map_full":
        return MapFull(path=directory, map_size=units.size(maxsize))
    if error.code == "build.damaged":
        return MdbDamaged(path=directory, reason=error.message)
    if error.code == "schema.definition":
        return NotProven(reason=error)
    return None
