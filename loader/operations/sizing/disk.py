"""How fast the disk of a database takes what is written, once the caches in front of it (a controller's, a
hypervisor's, credits of a cloud) have as much as they hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader.errors import Cancelled, LoaderError
from loader.mdb import copy, meta
from loader.progress import Meter
from loader.storage import files, held, holders

LONGEST = 5.0  # seconds
MOST = 2 << 30  # bytes
_LEAST = 64 << 20  # bytes: less than that is mostly the wait for its fsync
_SHARE = 8  # of a load, this part is written for trial
_PREFIX = ".ditseed-write-"


@contextmanager
def unnamed_file(directory: Path) -> Iterator[int]:
    """In `directory`, which slapd's account may own. It has lost its name before anything is written, so its blocks end
    with the process, however that ends. Raises LoaderError, OSError."""
    with held.scratch(directory, _PREFIX) as home:
        descriptor = home.create("written")
        home.remove("written")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(data: Path, target: int, most: int, meter: Meter) -> int:
    """Copies the beginning of a data file there, by the engine that clones, fsync included; how many bytes."""
    facts = meta.read_meta(data)
    pages = max(min(facts.used, most) // facts.page_size, 2)
    place, head = Path(f"/proc/self/fd/{target}"), bytes(2 * facts.page_size)
    copy.plain(data, place, head, pages * facts.page_size, None, meter)
    return pages * facts.page_size


def rate_for(data: Path, directory: Path, load: int, meter: Meter) -> float | None:
    """Bytes a second, of a load of `load` bytes: an eighth of it is written, `data` again and again. None: that is too
    little to tell, a slapd would have to wait for it, there is no room, or nothing can be written there. Raises
    Cancelled."""
    wanted = min(load // _SHARE, MOST)
    inner = Meter(meter.name)
    try:
        if wanted < _LEAST or files.free_bytes(directory) < 2 * MOST:
            return None
        holders.require_unused(directory)
        with unnamed_file(directory) as target, meter.cancelling(inner.cancel):
            return _sustained(data, target, wanted, inner)
    except Cancelled:
        raise
    except (LoaderError, OSError):
        return None


def _sustained(data: Path, target: int, wanted: int, meter: Meter) -> float:
    began, written = time.monotonic(), 0
    while written < wanted and time.monotonic() - began < LONGEST:
        written += write(data, target, wanted - written, meter)
    return written / max(time.monotonic() - began, 1e-3)
