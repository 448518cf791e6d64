"""The transaction of a refresh, in a process apart: LMDB does it, which maps the database."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.child import Child
from loader.errors import Cancelled
from loader.mdb import isolated
from loader.progress import Meter, WholeFile
from loader.sinks import changes, mdb

_COUNTS = ("added", "modified", "renamed", "deleted", "kept")
_EVERY = 0.25  # seconds between two words of how far it is
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
    asked = base64.b64encode(pickle.dumps(task)).decode()
    with isolated.started(_work, asked) as child, _followed(child, meter) as remote:
        with ThreadPoolExecutor(1) as pool:
            allowing = pool.submit(_allow, allowed, child)
            answer = remote.listen()
        error = allowing.exception()
        if error is not None:
            raise error
        isolated.finish(child, task.directory)
    unsettled = [bytes.fromhex(one) for one in answer["unsettled"]]
    return Applied({name: answer[name] for name in _COUNTS}, unsettled)


def _allow(allowed: Callable[[], None], child: Child) -> None:
    """Its input gets a byte once `allowed` has returned, and ends without one when it raised."""
    assert child.process.stdin is not None
    with contextlib.closing(child.process.stdin) as told, contextlib.suppress(BrokenPipeError):
        allowed()
        told.write(_MAY)
        told.flush()


class _Remote:
    """What the child has counted so far, as `Meter` wants it of a native call."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.entries, self.bytes, self.stage = 0, 0, ("", 0, 0)
        self.files: Sequence[WholeFile] = ()  # it reads no LDIF
        self.open_ends: Sequence[str] = ()

    def cancel(self) -> None:
        self._child.kill()

    def listen(self) -> dict[str, Any]:
        """Its last word."""
        assert self._child.process.stdout is not None
        heard: dict[str, Any] = {}
        for line in self._child.process.stdout:
            heard = json.loads(line)
            if "stage" in heard:
                self.entries, self.bytes = heard["entries"], heard["bytes"]
                name, done, total = heard["stage"]
                self.stage = name, done, total
        return heard


@contextmanager
def _followed(child: Child, meter: Meter) -> Iterator[_Remote]:
    remote = _Remote(child)
    with meter.counting(remote), meter.following(remote):
        yield remote


# --- in the process apart ------------------------------------------------------------------------


def _work(asked: str) -> dict[str, Any]:
    task: Task = pickle.loads(base64.b64decode(asked))
    known = mdb.database(task.given.target())
    meter, ended = Meter("apply"), threading.Event()
    teller = threading.Thread(target=_tell, args=(meter, ended))
    teller.start()
    try:
        done = changes.apply(
            task.directory,
            known,
            task.given.map_size,
            task.told,
            task.now,
            task.means,
            _may,
            meter,
        )
    finally:
        ended.set()
        teller.join()
    counts = {name: getattr(done, name) for name in _COUNTS}
    return {**counts, "unsettled": [one.hex() for one in done.unsettled]}


def _may() -> None:
    if sys.stdin.buffer.read(1) != _MAY:
        raise Cancelled(signal="whoever asked for it")


def _tell(meter: Meter, ended: threading.Event) -> None:
    while True:
        isolated.say({"entries": meter.entries, "bytes": meter.bytes, "stage": meter.stage})
        if ended.wait(_EVERY):
            return
