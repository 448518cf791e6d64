"""What is in a database, asked in a process apart: for reports and manifests, of files that may be damaged."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader.mdb import context_csn, isolated, names
from loader.mdb.environment import entry_count, opened, require_table

_LOOKED_AT = 5000  # entries, a quarter of a second


@dataclass(frozen=True)
class DatabaseSummary:
    """contextCSN as stored, and the newest CSNs known, each ascending by server ID."""

    entries: int
    suffixes: tuple[str, ...]
    context_csns: tuple[str, ...]
    newest_csns: tuple[str, ...]


def summarise(place: Path, suffix: str | None = None, newest: bool = True) -> DatabaseSummary:
    """Of an environment directory (a live one too) or data file. Raises NotLmdb, MdbDamaged, NotPermitted.

    Without `newest` the newest CSNs are none.
    """
    return _outline(_look(place, suffix, newest))


@contextmanager
def prepared(place: Path) -> Iterator[Callable[[], DatabaseSummary]]:
    """A look, without the newest CSNs, at a file that is not there yet: a process takes its time to start."""
    with isolated.started(_look_later, place) as child:
        yield lambda: _outline(isolated.receive_result(child, place))


def _outline(found: Mapping[str, Any]) -> DatabaseSummary:
    return DatabaseSummary(
        found["entries"],
        *(tuple(found[key]) for key in ("suffixes", "context_csns", "newest_csns")),
    )


@isolated.isolated
def _look(place: Path, suffix: str | None, newest_wanted: bool) -> dict[str, Any]:
    with opened(place) as environment:
        known = tuple(names.suffixes(environment))
    stored = context_csn.stored(place, suffix)
    newest = (_newest(place, suffix) or stored) if newest_wanted else []
    outline = DatabaseSummary(entry_count(place), known, tuple(stored), tuple(newest))
    return dataclasses.asdict(outline)


def _look_later(place: str) -> dict[str, Any]:
    """In the process apart, once its input ends."""
    sys.stdin.buffer.read()
    return _look(Path(place), None, False)


def _newest(place: Path, suffix: str | None) -> list[str]:
    """Only with the index, and of so many entries: a look at a live server must not take minutes."""
    if context_csn.ENTRY not in names.indexed(place):
        return []
    found = context_csn.newest(place, suffix, whole=False, most=_LOOKED_AT)
    return context_csn.ordered(found.values())


@isolated.isolated
def probe(place: Path) -> None:
    """Reads the first and the last record of every table. Raises MdbDamaged, NotLmdb, and what `opened` raises."""
    with opened(place) as environment:
        with environment.begin() as reading:
            found = [bytes(name).rstrip(b"\0").decode() for name, _ in reading.cursor()]
        tables = [require_table(environment, name) for name in found]
        with environment.begin() as reading:
            for one in tables:
                records = reading.cursor(one)
                records.first()
                records.last()
