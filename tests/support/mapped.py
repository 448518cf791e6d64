"""Opens an environment in the test's own process, which ditseed does only in child processes; or in another process.
Measures how far the readers of an environment lag behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.mdb import environment, isolated, meta, readers
from loader.mdb.environment import Environment

_READING = """
import lmdb, sys
with lmdb.open(sys.argv[1], readonly=True, max_readers=int(sys.argv[2]), max_dbs=8) as opened, opened.begin():
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


@contextmanager
def read_by_another(place: Path, most: int = 126) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process that holds a reader slot until it is killed or the body ends. `most`: the number of slots."""
    command = [sys.executable, "-c", _READING, str(place), str(most)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reads\n"
        yield reader


def oldest_lag(directory: Path) -> int:
    """Returns the number of transactions since the snapshot of the oldest living reader."""
    last = meta.read_meta(directory).txnid
    snapshots = [slot.txnid for slot in readers.slots(directory) if slot.is_alive and slot.txnid is not None]
    return max((last - txnid for txnid in snapshots), default=0)
