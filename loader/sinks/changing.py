"""Changes an existing database whose slapd is stopped: applies changes of a provider, or rebuilds indexes. Each change
is durable, and is made completely or not at all.

The native core runs in a child process, because it uses LMDB, which maps the file: a disk error kills the process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from loader import _native, plain
from loader._native import FoundChanges as FoundChanges
from loader._native import Replayed as Replayed
from loader.child import Child
from loader.errors import EntryRefused, LoaderError, LogUnsuitable, NotProven, OtherFormat, RefreshRefused
from loader.ldif import with_counters
from loader.mdb import isolated, meta
from loader.mdb.environment import exclusive, linked
from loader.progress import Meter
from loader.sinks import mdb
from loader.sinks.mdb import Resources, Target

_ADVICE = "Start slapd, which may be able to apply them, or seed the replica anew (ditseed replica seed --replace)."
NOT_REPLAYED = "Apply the changes to a running server instead: `slapcat` of the log shows them."
_STDIN = 0  # descriptor from which the core reads the byte that `_allow` sends
_COUNTS = ("added", "modified", "renamed", "deleted", "kept")


class SyncResult(Struct, frozen=True):
    """The provider's changes, which lead from the contextCSN `reached` to the contextCSN `claimed`. `changed`: LDIF
    files. `present`: file with the entryUUIDs of the present phase; None if there was no such phase. `deleted`: files
    with entryUUIDs. `lost`: entryUUIDs of changed entries that are no longer in the tree."""

    changed: Sequence[Path]
    present: Path | None
    deleted: Sequence[Path]
    lost: Sequence[bytes]
    reached: Sequence[str]
    claimed: Sequence[str]


class ReplayTask(Struct, frozen=True):
    """The options of a replay by the core. The fields are those of `Options` in `native/replay`."""

    reached: Sequence[str]
    window: str
    until: str
    until_start: str
    skip: Sequence[str]
    log_success: bool
    changed: Path
    deleted: Path
    scratch: Path
    memory: int


class LogQuery(Struct, frozen=True):
    """Selects operations of an accesslog. The fields are those of `Query` in `native/replay`."""

    since: str
    since_start: str
    until: str
    until_start: str
    bases: Sequence[str]
    author: str | None
    last: int


def refresh(
    directory: Path,
    target: Target,
    sent: SyncResult,
    now: str,
    limits: Resources,
    allowed: Callable[[], None],
    meter: Meter,
) -> tuple[dict[str, int], list[bytes]]:
    """Applies a provider's changes in one transaction. Returns the number of entries by kind of change; and the
    entryUUIDs (16 bytes) of entries whose parent is missing or whose DN another entry has. If there are such entries,
    the database is unchanged. `now`: time for generated attributes. `allowed` runs concurrently; if it raises, the core
    does not commit. Raises RefreshRefused, EntryRefused, MapFull, MdbDamaged, NotProven, OtherFormat."""
    process = isolated.started(_refresh, directory, target, sent, now, limits, meter)
    with process as child, ThreadPoolExecutor(1) as pool:
        permission = pool.submit(_allow, allowed, child)
        try:
            counts, unsettled = isolated.receive_result(child, directory, meter)
        finally:
            permission.result()  # raises the error of `allowed`, which caused the child's error
    return counts, [bytes.fromhex(uuid) for uuid in unsettled]


def _allow(allowed: Callable[[], None], child: Child) -> None:
    """Writes the byte for which the core waits before the commit. If `allowed` raises, the core does not commit."""
    assert child.process.stdin is not None
    with contextlib.suppress(BrokenPipeError), contextlib.closing(child.process.stdin) as stdin:
        allowed()
        stdin.write(b"1")


def replay(directory: Path, target: Target, log: Sequence[Path], task: ReplayTask, meter: Meter) -> Replayed:
    """Replays the LDIF files of an accesslog on the entries of a database, which stays unchanged. Writes the changed
    and deleted entries to the files of `task`. Raises LogUnsuitable, MdbDamaged, NoSpace, and the errors of LDIF."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "build.unproven":
            return LogUnsuitable(suffix=target.settings.suffixes[0], reason=error.message, advice=NOT_REPLAYED)
        return mdb.failure(error, directory, target.map_size)

    with with_counters(meter, str(directory), translate) as counters, meter.following(counters):
        return _native.replay(meta.data_file(directory), mdb.Database(target), log, task, counters)


def logged(log: Sequence[Path], query: LogQuery, origin: str, meter: Meter) -> FoundChanges:
    """Finds operations in the LDIF files of an accesslog. Raises the errors of LDIF, which name `origin`."""
    with with_counters(meter, origin) as counters, meter.following(counters):
        return _native.logged(log, query, counters)


# --- in the child process ------------------------------------------------------------------------


def _refresh(
    directory: Path, target: Target, sent: SyncResult, now: str, limits: Resources, meter: Meter
) -> tuple[dict[str, int], list[str]]:
    file_format = meta.read_meta(directory).format
    if file_format != 1:  # the core changes files of LMDB 0.9 only
        raise OtherFormat(path=meta.data_file(directory), found=file_format, who="ditseed refresh", needed=1)
    database = mdb.Database(target)

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "build.unproven":
            return RefreshRefused(path=directory, reason=error.message, advice=_ADVICE)
        if error.code == "build.rejected":
            where = "in the changes of the provider"
            return EntryRefused(dn=error.dn or "", reason=error.message, where=where, way_out="")
        return mdb.failure(error, directory, target.map_size)

    with (
        with_counters(meter, str(directory), translate) as counters,
        meter.following(counters),
        linked(directory, writable=True) as links,
    ):
        result = _native.refresh(links, database, sent, now, limits, _STDIN, counters)
    return {name: getattr(result, name) for name in _COUNTS}, [uuid.hex() for uuid in result.unsettled]


@isolated.isolated
def rebuild(directory: Path, target: Target, attributes: tuple[str, ...], limits: Resources, meter: Meter) -> None:
    """Rebuilds the indexes of `attributes` as `target` configures them. slapd must be stopped. Appends the new tables
    to the file, up to `target.map_size` bytes; then writes the meta page that makes them valid. Raises NotProven,
    MapFull, NoSpace, MdbDamaged, TargetInUse."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "build.too_many":
            return NotProven(reason=error.message)
        if failure := mdb.failure(error, directory, target.map_size):
            return failure
        if error.errno is None:
            return None
        path = Path(plain.with_operator_paths(error.path)) if error.path else directory
        return meta.system_error(error.errno, path)

    database = mdb.Database(target)
    with (
        with_counters(meter, str(directory), translate) as counters,
        meter.following(counters),
        exclusive(directory) as links,
    ):
        _native.reindex(meta.data_file(links), database, attributes, limits, counters)
