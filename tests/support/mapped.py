"""Opens an environment in the test's own process; ditseed does that only in child processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.mdb import environment, isolated
from loader.mdb.environment import Environment


@contextmanager
def opened(place: Path, writable: bool = False) -> Iterator[Environment]:
    isolated._inside = True
    try:
        with environment.opened(place, writable) as found:
            isolated._inside = False
            yield found
    finally:
        isolated._inside = False
