"""An environment opened by the test itself, in its own process; ditseed does so only in processes apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.mdb import apart, environment
from loader.mdb.environment import Environment


@contextmanager
def opened(place: Path, writable: bool = False) -> Iterator[Environment]:
    apart._inside = True
    try:
        with environment.opened(place, writable) as found:
            apart._inside = False
            yield found
    finally:
        apart._inside = False
