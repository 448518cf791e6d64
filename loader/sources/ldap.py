"""Source: a live server, read by searches side by side, each a restartable piece (`planner.py` cuts them).

No pages are asked for as long as no limit demands them: a page costs a round trip, and slapd's time besides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from loader import defaults, dn, overlays
from loader.errors import LimitTooLow, LoaderError, ServerRefused, ServerSilent
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.session import Session
from loader.server.wire import Feed, Part, Reader, reading
from loader.sources.planner import Piece
from loader.sources.scheduling import LONGEST_PAUSE, RateLimit
from loader.storage import files

# Entries a page, tried in turn when a limit is met; 0 is without pages. Some servers limit the page (389-DS).
PAGES = (0, 1000, 200)
Result = TypeVar("Result")
# contextCSN of the start is put in when shards are arranged.
DROPPED = (*overlays.COMPUTED, overlays.CONTEXT_CSN)


def fetch(connection: Connection, asked: Search, target: Path, meter: Meter) -> Part:
    """One search into `target`, which is there once it is whole, however often the connection breaks."""
    beside = target.with_name("partial-" + target.name)

    found = _searching(connection, asked, meter, lambda reader, asked: reader.file(asked, beside, DROPPED))
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


def with_retries(attempt: Callable[[], Result], meter: Meter, retries: int = defaults.RETRIES) -> Result:
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


# --- limits ----------------------------------------------------------------------------------------------------------
#
# Do the server's limits let the tree be read? Asked by --dry-run; a reading itself is told of them at once.
#
# slapd tells a limit only by ending a search: nothing but a search finds it out. One without attributes shows a
# hundred thousand entries in half a second, so a limit below that (the default is 500) is found; one above it is met
# while reading, after that many entries.


LOOKED = 100_000  # entries


def require_readable(server: Session, base: str, partitions: Iterable[Piece], page: int) -> None:
    """Raises LimitTooLow where a partition cannot be read with `page`, nor with the smaller pages that a reading tries.

    Where the whole tree is shown, so is every part of it. What a server refuses for other reasons (OpenDJ wants a
    privilege for searches without an index) is left to the reading, which knows ways around.
    """
    try:
        server.require_shown(Search(base, page=page), LOOKED)
    except LimitTooLow:
        for one in partitions:
            _require_part(server, one.search, page)
    except ServerRefused:
        pass


def _require_part(server: Session, asked: Search, page: int) -> None:
    *others, last = page_sizes(page)
    for size in others:
        try:
            server.require_shown(replace(asked, page=size), LOOKED)
            return
        except LimitTooLow:
            continue
        except ServerRefused:
            return
    server.require_shown(replace(asked, page=last), LOOKED)


# --- narrowing -------------------------------------------------------------------------------------------------------
#
# What a partial replica wants of a server: which entries below a base, and which attributes of them.


# What the reading itself needs of an entry: to know it again, to tell which of two is newer, to note containers.
NEEDED = ("entryUUID", "entryCSN", "hasSubordinates")
_ON_THE_WIRE = {"subordinate": "children"}


@dataclass(frozen=True)
class Narrowing:
    """`scope` as a syncrepl has it; `attributes`: what to ask for."""

    base: str
    where: str
    scope: str
    attributes: tuple[str, ...]
    excluded: tuple[str, ...] = ()  # of those that come, not stored

    def wants(self, attribute: str) -> bool:
        """Does the replica store it? Of an object class that is listed, every attribute may be one that it does."""
        if attribute.lower() in map(str.lower, self.excluded):
            return False
        listed = {name.lower() for name in self.attributes}
        return attribute.lower() in listed or any(name[0] in "*+@" for name in listed)

    @property
    def is_flat(self) -> bool:
        """Nothing in scope can move with a container above it that is in scope, too."""
        return self.scope in ("base", "one")

    def of(self, asked: Search) -> Search:
        """The same search, for what is wanted only. Below other places than the base the scope is the search's own."""
        attributes = (*self.attributes, *(one for one in NEEDED if one not in self.attributes))
        scope = asked.scope
        if dn.key(asked.base) == dn.key(self.base) and scope == "sub":
            scope = _ON_THE_WIRE.get(self.scope, self.scope)
        where = f"(&{_enclosed(self.where)}{asked.where})"
        return dataclasses.replace(asked, where=where, scope=scope, attributes=attributes)

    def partitions(self, cut: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Of a whole tree's: each narrowed, or one where the scope is not a whole subtree."""
        if self.is_flat:
            return (Piece("all", self.of(Search(self.base))),)
        found = (one for one in cut if self.scope == "sub" or one.search.scope != "base")
        return tuple(Piece(one.name, self.of(one.search)) for one in found)


def _enclosed(where: str) -> str:
    """slapd takes a single item without parentheses."""
    return where if where.startswith("(") else f"({where})"
