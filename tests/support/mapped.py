"""Opens an environment in the test's own process, which ditseed does only in child processes; or in another process.
Measures how far the readers of an environment lag behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from loader.mdb import environment, isolated, meta, readers
from loader.mdb.environment import Environment
from tests.support.processes import announced

_READING = """
import lmdb, sys
with lmdb.open(sys.argv[1], readonly=True, max_readers=int(sys.argv[2]), max_dbs=64) as opened, opened.begin():
    print("reads", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened(place: Path, writable: bool = False) -> Iterator[Environment]:
    isolated._inside = True
    try:
        with environment.opened(place, writable) as found:
            isolated._inside = False
            yield found
    finally:
        isolated._inside = False


def read_by_another(place: Path, most: int = 126) -> AbstractContextManager[subprocess.Popen[str]]:
    """Yields a process that holds a reader slot, and is killed when the body ends. `most`: the number of slots."""
    return announced(_READING, place, most)


def oldest_lag(directory: Path) -> int:
    """Returns the number of transactions since the snapshot of the oldest living reader."""
    last = meta.read_meta(directory).txnid
    snapshots = [slot.txnid for slot in readers.slots(directory) if slot.is_alive and slot.txnid is not None]
    return max((last - txnid for txnid in snapshots), default=0)
