"""Sink: changes of an existing database whose slapd is stopped: a provider's changed entries, and rebuilt indexes.

Each change is durable, and is made completely or not at all. The native core uses LMDB, which maps the file, so a disk
error kills the process with a signal. Therefore the core runs in a child process.
"""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader import _native, plain
from loader.child import Child
from loader.errors import EntryRefused, LoaderError, NotProven, OtherFormat, RefreshRefused
from loader.ldif import with_counters
from loader.mdb import isolated, meta
from loader.mdb.environment import alone, reached
from loader.progress import Meter, WholeFile
from loader.sinks import mdb

_ADVICE = "Start slapd, which may be able to do it, or seed the replica anew (ditseed replica seed --replace)."
_COUNTS = ("added", "modified", "renamed", "deleted", "kept")
_EVERY = 0.25  # seconds between two reports of progress


@dataclass(frozen=True)
class Resources:
    """Limits of the work. `memory`: bytes. `jobs`: threads. `scratch`: an existing directory for temporary files."""

    memory: int
    jobs: int
    scratch: Path


@dataclass(frozen=True)
class SyncResult:
    """The provider's changes, in the form of the arguments of `_native.refresh`."""

    changed: Sequence[Path]
    present: Path | None
    deleted: Sequence[Path]
    lost: Sequence[bytes]
    reached: Sequence[str]
    claimed: Sequence[str]


@dataclass(frozen=True)
class RefreshTask:
    """The arguments of `refresh`. `now`: the time in generated attributes, in createTimestamp's format."""

    directory: Path
    spec: mdb.TargetSpec
    sent: SyncResult
    now: str
    means: Resources


@dataclass(frozen=True)
class Applied:
    """`counts`: entries by kind of change. `unsettled`: 16-byte entryUUIDs; if there are any, nothing was changed."""

    counts: dict[str, int]
    unsettled: list[bytes]


@dataclass(frozen=True)
class IndexTask:
    """A rebuild of the indexes that `spec` has for `attributes`. `spec.map_size` limits the size of the file."""

    directory: Path
    spec: mdb.TargetSpec
    attributes: tuple[str, ...]
    means: Resources


def refresh(task: RefreshTask, allowed: Callable[[], None], meter: Meter) -> Applied:
    """Applies a provider's changes in one transaction. `allowed` runs concurrently; the core commits only if `allowed`
    raises nothing.

    Raises RefreshRefused, EntryRefused, MapFull, MdbDamaged, NotProven, OtherFormat.
    """
    with _process(_refresh, task, meter) as process:
        with ThreadPoolExecutor(1) as pool:
            allowing = pool.submit(_allow, allowed, process.child)
            answer = process.answer()
        allowing.result()
        isolated.finish(process.child, task.directory)
    return Applied({name: answer[name] for name in _COUNTS}, [bytes.fromhex(one) for one in answer["unsettled"]])


def rebuild(task: IndexTask, meter: Meter) -> None:
    """Rebuilds indexes in a directory that no slapd has open: appends the new tables to the file, then writes the meta
    page that makes them valid.

    Raises NotProven, MapFull, NoSpace, MdbDamaged, TargetInUse.
    """
    with _process(_reindex, task, meter) as process:
        process.answer()
        isolated.finish(process.child, task.directory)


class _Process:
    """The child process's reported progress, with the interface that `Meter` expects of a native call."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.entries, self.bytes, self.stage = 0, 0, ("", 0, 0)
        self.files: Sequence[WholeFile] = ()
        self.open_ends: Sequence[str] = ()

    def cancel(self) -> None:
        self.child.kill()

    def answer(self) -> dict[str, Any]:
        """Reads progress until the child process ends; returns its last line, or {} if it printed nothing."""
        assert self.child.process.stdout is not None
        report: dict[str, Any] = {}
        for line in self.child.process.stdout:
            report = json.loads(line)
            if "stage" in report:
                self.entries, self.bytes, self.stage = report["entries"], report["bytes"], tuple(report["stage"])
        return report


@contextmanager
def _process(work: Callable[[str], dict[str, Any]], task: object, meter: Meter) -> Iterator[_Process]:
    with isolated.started(work, base64.b64encode(pickle.dumps(task)).decode()) as child:
        process = _Process(child)
        with meter.counting(process), meter.following(process):
            yield process


def _allow(allowed: Callable[[], None], child: Child) -> None:
    """Writes the byte that the core awaits before a commit; if `allowed` raises, the core reads end of file instead."""
    assert child.process.stdin is not None
    with contextlib.suppress(BrokenPipeError), contextlib.closing(child.process.stdin) as stdin:
        allowed()
        stdin.write(b"1")


# --- in the child process ------------------------------------------------------------------------


def _refresh(pickled: str) -> dict[str, Any]:
    task: RefreshTask = pickle.loads(base64.b64decode(pickled))
    file_format = meta.read_meta(task.directory).format
    if file_format != 1:  # the core changes files of LMDB 0.9 only
        path = meta.data_file(task.directory)
        raise OtherFormat(path=path, found=file_format, who="ditseed refresh", needed=1)
    database = mdb.database(task.spec.target())

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "build.unproven":
            return RefreshRefused(path=task.directory, reason=error.message, advice=_ADVICE)
        if error.code == "build.rejected":
            where = "in what the provider sent"
            return EntryRefused(dn=error.dn or "", reason=error.message, where=where, way_out="")
        return mdb.failure(error, task.directory, task.spec.map_size)

    with (
        _reporting("apply") as meter,
        with_counters(meter, str(task.directory), translate) as counters,
        meter.following(counters),
        reached(task.directory, writable=True) as directory,
    ):
        done = _native.refresh(
            directory,
            database,
            counters,
            **vars(task.sent),
            allowed=0,  # stdin: see _allow
            now=task.now,
            **vars(task.means),
        )
    counts = {name: getattr(done, name) for name in _COUNTS}
    return {**counts, "unsettled": [one.hex() for one in done.unsettled]}


def _reindex(pickled: str) -> dict[str, Any]:
    task: IndexTask = pickle.loads(base64.b64decode(pickled))
    database = mdb.database(task.spec.target())

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.code == "build.too_many":
            return NotProven(reason=error.message)
        if failure := mdb.failure(error, task.directory, task.spec.map_size):
            return failure
        if error.errno is None:
            return None
        path = Path(plain.with_operator_paths(error.path)) if error.path else task.directory
        return meta.system_error(error.errno, path)

    with (
        _reporting("indexes") as meter,
        with_counters(meter, str(task.directory), translate) as counters,
        meter.following(counters),
        alone(task.directory) as directory,
    ):
        _native.reindex(meta.data_file(directory), database, counters, attributes=task.attributes, **vars(task.means))
    return {}


@contextmanager
def _reporting(step: str) -> Iterator[Meter]:
    """Prints the meter's progress for the parent process while the body runs."""
    meter, ended = Meter(step), threading.Event()

    def report() -> None:
        while True:
            isolated.say({"entries": meter.entries, "bytes": meter.bytes, "stage": meter.stage})
            if ended.wait(_EVERY):
                return

    reporter = threading.Thread(target=report)
    reporter.start()
    try:
        yield meter
    finally:
        ended.set()
        reporter.join()
