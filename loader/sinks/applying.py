"""The transaction of a refresh, in a process apart."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.child import Child
from loader.errors import Cancelled
from loader.mdb import isolated
from loader.progress import Meter
from loader.sinks import apart, changes, mdb

_COUNTS = ("added", "modified", "renamed", "deleted", "kept")
_MAY = b"1"


@dataclass(frozen=True)
class Task:
    """What `loader.sinks.changes.apply` is told, in a form that goes to another process."""

    directory: Path
    given: mdb.TargetSpec
    told: changes.SyncResult
    now: str
    means: changes.Resources


@dataclass(frozen=True)
class Applied:
    """How many entries were. unsettled: entryUUIDs of 16 bytes; where there are any, nothing was changed."""

    counts: dict[str, int]
    unsettled: list[bytes]


def apply(task: Task, allowed: Callable[[], None], meter: Meter) -> Applied:
    """As `loader.sinks.changes.apply`."""
    with apart.started(_work, task, meter) as remote:
        with ThreadPoolExecutor(1) as pool:
            allowing = pool.submit(_allow, allowed, remote.child)
            answer = remote.listen()
        error = allowing.exception()
        if error is not None:
            raise error
        isolated.finish(remote.child, task.directory)
    unsettled = [bytes.fromhex(one) for one in answer["unsettled"]]
    return Applied({name: answer[name] for name in _COUNTS}, unsettled)


def _allow(allowed: Callable[[], None], child: Child) -> None:
    """Its input gets a byte once `allowed` has returned, and ends without one when it raised."""
    assert child.process.stdin is not None
    with contextlib.closing(child.process.stdin) as told, contextlib.suppress(BrokenPipeError):
        allowed()
        told.write(_MAY)
        told.flush()


# --- in the process apart ------------------------------------------------------------------------


def _work(asked: str) -> dict[str, Any]:
    task: Task = apart.received(asked)
    known = mdb.database(task.given.target())
    with apart.telling("apply") as meter:
        done = changes.apply(task.directory, known, task.given.map_size, task.told, task.now, task.means, _may, meter)
    counts = {name: getattr(done, name) for name in _COUNTS}
    return {**counts, "unsettled": [one.hex() for one in done.unsettled]}


def _may() -> None:
    if sys.stdin.buffer.read(1) != _MAY:
        raise Cancelled(signal="whoever asked for it")
