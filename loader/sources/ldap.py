"""Source: a live server, read by searches side by side, each a restartable piece (`planner.py` cuts them).

No pages are asked for as long as no limit demands them: a page costs a round trip, and slapd's time besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from loader import defaults, overlays
from loader.errors import LimitTooLow, LoaderError, ServerSilent
from loader.progress import Meter
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.wire import Feed, Part, Reader, reading
from loader.sources.pace import RateLimit
from loader.sources.scheduling import LONGEST_PAUSE
from loader.storage import files

# Entries a page, tried in turn when a limit is met; 0 is without pages. Some servers limit the page (389-DS).
PAGES = (0, 1000, 200)
Result = TypeVar("Result")
# contextCSN of the start is put in when shards are arranged.
DROPPED = (*overlays.COMPUTED, overlays.CONTEXT_CSN)


def fetch(connection: Connection, asked: Search, target: Path, meter: Meter) -> Part:
    """One search into `target`, which is there once it is whole, however often the connection breaks."""
    beside = target.with_name("partial-" + target.name)

    found = _searching(
        connection, asked, meter, lambda reader, asked: reader.file(asked, beside, DROPPED)
    )
    files.publish(beside, target)
    return found


def fetch_part(
    connection: Connection,
    asked: Search,
    directory: Path,
    name: str,
    *,
    compress: bool,
    meter: Meter,
    pace: RateLimit | None = None,
    retries: int = defaults.RETRIES,
) -> Part:
    """One search into files of some tens of megabytes with rows beside them; when the connection breaks, once more."""

    def search(reader: Reader, asked: Search) -> Part:
        with pace.over(reader.counters) if pace else nullcontext():
            return reader.part(asked, directory, name, DROPPED, compress=compress)

    return _searching(connection, asked, meter, search, retries)


def feed(
    connection: Connection,
    asked: Search,
    target: Feed,
    notes: Path,
    *,
    copy: Path | None,
    meter: Meter,
    pace: RateLimit,
) -> int:
    """One search straight to whoever takes from `target`, once; how many entries it found. `notes` as in `Reader.feed`;
    `copy` is there once it is whole. After an error some entries were given."""
    beside = copy.with_name("partial-" + copy.name) if copy else None
    tried = False

    def search(reader: Reader, asked: Search) -> int:
        nonlocal tried
        if tried:
            target.repeat()
        tried = True
        with pace.over(reader.counters):
            return reader.feed(asked, target, notes, DROPPED, beside)

    found = _searching(connection, asked, meter, search, retries=0)
    if beside and copy:
        files.publish(beside, copy)
    return found


def _searching(
    connection: Connection,
    asked: Search,
    meter: Meter,
    search: Callable[[Reader, Search], Result],
    retries: int = defaults.RETRIES,
) -> Result:
    """A whole search, however often the connection breaks, in smaller and smaller pages if a limit demands it."""

    def attempt(page: int) -> Result:
        with reading(connection, meter) as reader:
            return search(reader, replace(asked, page=page))

    *others, last = page_sizes(asked.page)
    for page in others:
        try:
            return with_retries(partial(attempt, page), meter, retries)
        except LimitTooLow as error:
            meter.note = f"{error}; asking for smaller pages"
    return with_retries(partial(attempt, last), meter, retries)


def page_sizes(page: int) -> Sequence[int]:
    """The chosen size, and those to try in turn where a limit is met."""
    return [page, *(smaller for smaller in PAGES[1:-1] if not page or smaller < page), PAGES[-1]]


def with_retries(
    attempt: Callable[[], Result], meter: Meter, retries: int = defaults.RETRIES
) -> Result:
    """Try again after a broken connection, waiting longer each time. A server that was silent for as long as one may be
    has had its time: twenty times as long would be hours."""
    for failures in range(retries):
        try:
            return attempt()
        except LoaderError as error:
            again = error.retryable and not isinstance(error, ServerSilent)
            if not again or meter.cancelled.is_set():
                raise
            meter.note = f"{error}; trying again"
            meter.cancelled.wait(min(LONGEST_PAUSE, 0.5 * 2**failures))
    return attempt()
