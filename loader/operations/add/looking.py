"""A load into a running server, looked at from outside."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import xxhash

from loader.defaults import state_dir
from loader.run.steps import RunStatus, status_of

# Of loader/native/load/src/journal.rs: kind, first position, the one after the last, and XXH3 of these.
_RECORD = struct.Struct("<4Q")
_SETTLED = (2, 3, 4)  # added, present, replaced
JOURNAL = "journal"


def loads_of(uri: str) -> list[RunStatus]:
    """The loads of `ditseed add` to that server whose state is kept here, newest first."""
    found = [status_of(path) for path in (state_dir() / "add").glob("*")]
    ours = [one for one in found if one is not None and one.options.get("uri") == uri]
    return sorted(ours, key=lambda one: -one.heard)


def settled(load: RunStatus) -> int:
    """Entries that are done: on the server, or rejected once the load is through."""
    done = load.found("load")
    return done["read"] if done is not None else sum(_runs(load.directory / JOURNAL))


def expected(load: RunStatus) -> int | None:
    """Entries of the input; None while that is not known."""
    scan = load.found("scan")
    return scan["entries"] if scan else None


def _runs(journal: Path) -> Iterator[int]:
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return
    whole = len(content) // _RECORD.size * _RECORD.size  # the last record may be half written
    for at in range(0, whole, _RECORD.size):
        kind, first, end, check = _RECORD.unpack_from(content, at)
        if kind in _SETTLED and xxhash.xxh3_64_intdigest(content[at : at + 24]) == check:
            yield end - first
