"""Source: a live server, read by searches side by side, each a restartable piece (`planner.py` cuts them).

No pages are asked for as long as no limit demands them: a page costs a round trip, and slapd's time besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from loader import defaults, dn, ldif, overlays
from loader.errors import LimitTooLow, LoaderError, NoSuchBase, ServerRefused, ServerSilent
from loader.ldif import EntryDigests
from loader.progress import Meter
from loader.server import questions
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.server.wire import Feed, Part, Reader, reading
from loader.sources import Entries
from loader.sources.planner import LONGEST_PAUSE, Piece, RateLimit
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

    def attempt(asked: Search) -> Result:
        with reading(connection, meter) as reader:
            return search(reader, asked)

    return _in_pages(asked, asked.page, lambda asked: with_retries(partial(attempt, asked), meter, retries), meter)


def _in_pages(asked: Search, page: int, search: Callable[[Search], Result], meter: Meter | None = None) -> Result:
    """Searches with pages of the chosen size; where a limit is met, with the smaller ones in turn. Raises LimitTooLow
    where the smallest is no help."""
    smaller = [size for size in PAGES[1:-1] if not page or size < page]
    for size in (page, *smaller):
        try:
            return search(replace(asked, page=size))
        except LimitTooLow as error:
            if meter:
                meter.note = f"{error}; asking for smaller pages"
    return search(replace(asked, page=PAGES[-1]))


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


# --- compare ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """A running server, below the base of its connection; or what a search finds there, and no more."""

    connection: Connection
    asked: Search | None = None

    @property
    def label(self) -> str:
        return self.connection.uri or "the default server"

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        searches = [self.asked] if self.asked else self._whole(meter)

        def attempt() -> EntryDigests:
            with ldif.digesting(ignore, meter) as tree, reading(self.connection, meter) as reader:
                for asked in searches:
                    reader.digest(asked, tree)
                return tree

        return with_retries(attempt, meter)

    def _whole(self, meter: Meter) -> list[Search]:
        with session(self.connection, meter.cancelled) as server:
            base = server.base()
            server.read(base, ["1.1"])
            asked = Search(base, attributes=questions.everything(server))
            return [asked, replace(asked, subentries=True)] if server.offers_subentries(base) else [asked]

    def find(self, names: Sequence[str]) -> Entries:
        entries: Entries = {}
        with session(self.connection) as server:
            attributes = self.asked.attributes if self.asked else questions.everything(server)
            for name in names:
                with suppress(NoSuchBase):  # deleted since it was seen
                    entry = server.read(name, attributes)
                    entries[dn.key(name)] = {key: frozenset(values) for key, values in entry.items()}
        return entries


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
    with suppress(ServerRefused):
        try:
            server.require_shown(Search(base, page=page), LOOKED)
        except LimitTooLow:
            for one in partitions:
                _in_pages(one.search, page, lambda asked: _require_part(server, asked))


def _require_part(server: Session, asked: Search) -> None:
    with suppress(ServerRefused):
        server.require_shown(asked, LOOKED)


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
        return replace(asked, where=where, scope=scope, attributes=attributes)

    def partitions(self, cut: tuple[Piece, ...]) -> tuple[Piece, ...]:
        """Of a whole tree's: each narrowed, or one where the scope is not a whole subtree."""
        if self.is_flat:
            return (Piece("all", self.of(Search(self.base))),)
        found = (one for one in cut if self.scope == "sub" or one.search.scope != "base")
        return tuple(Piece(one.name, self.of(one.search)) for one in found)


def _enclosed(where: str) -> str:
    """slapd takes a single item without parentheses."""
    return where if where.startswith("(") else f"({where})"
