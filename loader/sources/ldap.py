"""Reads a live server. Concurrent searches each read a piece of the tree (`planner.py`), and can be repeated.

Paged results cost a round trip and time in slapd per page, so they are requested only if a limit requires them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from loader import defaults, dn, ldif, overlays
from loader.errors import LimitTooLow, LoaderError, NoSuchBase, ServerRefused, ServerSilent
from loader.ldif import EntryDigests
from loader.progress import Meter
from loader.server import questions
from loader.server.options import Connection, Search
from loader.server.session import Session, session
from loader.server.wire import Channel, Counters, Feed, Part, reading
from loader.sources import Entries
from loader.sources.planner import LONGEST_PAUSE, Piece, RateLimit
from loader.storage import files

# Page sizes in entries, from the first attempt to the last; 0: no paging. A search that meets a limit is repeated with
# the next size. There are several sizes, because 389-DS also limits the size of pages.
PAGES = (0, 1000, 200)
_POLL = 0.01  # seconds between two checks of the limits of `fetch_for`
Result = TypeVar("Result")
# Attributes that are not written. The suffix entry later gets the contextCSN of the start of the export.
DROPPED = (*overlays.COMPUTED, overlays.CONTEXT_CSN)


def fetch(connection: Connection, query: Search, target: Path, meter: Meter) -> Part:
    """Writes a search's entries to `target`, which appears only when complete. Retries after lost connections."""
    partial_file = target.with_name("partial-" + target.name)
    part = _search(connection, query, meter, lambda channel, query, _: channel.file(query, partial_file, DROPPED))
    files.publish(partial_file, target)
    return part


def fetch_for(
    seconds: float, connection: Connection, searches: Mapping[Path, Search], meter: Meter, most: float = math.inf
) -> tuple[int, float, bool]:
    """Runs searches in parallel until `seconds` have passed, or `most` bytes of LDIF have arrived. `searches`: target
    file -> search. Returns the number of entries, the seconds, and whether all entries were read."""
    search_meter = Meter(meter.name)
    with ThreadPoolExecutor(len(searches)) as pool, meter.cancelling(search_meter.cancel):
        fetches = [pool.submit(fetch, connection, query, target, search_meter) for target, query in searches.items()]
        is_complete = False
        while not is_complete and search_meter.seconds < seconds and search_meter.bytes < most:
            is_complete = not wait(fetches, _POLL).not_done
        result = search_meter.entries, search_meter.seconds, is_complete
        if not is_complete:
            search_meter.cancel()
        for future in fetches:
            with suppress(*([] if is_complete or meter.cancelled.is_set() else [LoaderError])):
                future.result()
    return result


def fetch_part(
    connection: Connection,
    query: Search,
    directory: Path,
    name: str,
    *,
    compress: bool,
    meter: Meter,
    pace: RateLimit | None = None,
    retries: int = defaults.RETRIES,
) -> Part:
    """Writes the entries to LDIF files of up to 64 MiB, each with a `.rows` file. Retries after lost connections."""

    def search(channel: Channel, query: Search, counters: Counters) -> Part:
        with pace.limiting(counters) if pace else nullcontext():
            return channel.part(query, directory, name, DROPPED, compress)

    return _search(connection, query, meter, search, retries)


def feed(
    connection: Connection,
    query: Search,
    target: Feed,
    notes: Path,
    *,
    copy: Path | None,
    meter: Meter,
    pace: RateLimit,
) -> int:
    """Sends a search's entries to `target`, and returns their number. Does not retry after a lost connection. `notes`
    and `copy` are as in `Channel.feed`, but `copy` appears only when it is complete."""
    partial_copy = copy.with_name("partial-" + copy.name) if copy else None

    def search(channel: Channel, query: Search, counters: Counters) -> int:
        try:
            with pace.limiting(counters):
                return channel.feed(query, target, notes, DROPPED, partial_copy)
        except BaseException:  # another attempt sends the same entries again
            target.repeat()
            raise

    entries = _search(connection, query, meter, search, retries=0)
    if partial_copy and copy:
        files.publish(partial_copy, copy)
    return entries


def _search(
    connection: Connection,
    query: Search,
    meter: Meter,
    search: Callable[[Channel, Search, Counters], Result],
    retries: int = defaults.RETRIES,
) -> Result:
    """Runs a search. Repeats the search after a lost connection, and with smaller pages if it meets a limit."""

    def attempt(query: Search) -> Result:
        with reading(connection, meter, query.base) as (channel, counters):
            return search(channel, query, counters)

    return _in_pages(query, query.page, lambda query: with_retries(partial(attempt, query), meter, retries), meter)


def _in_pages(query: Search, page: int, search: Callable[[Search], Result], meter: Meter | None = None) -> Result:
    """Searches with pages of `page` entries, then with the smaller sizes of PAGES until the search meets no limit.
    Raises LimitTooLow if even the smallest pages meet a limit."""
    for size in (page, *(size for size in PAGES[1:-1] if not page or size < page)):
        try:
            return search(replace(query, page=size))
        except LimitTooLow as error:
            if meter:
                meter.note = f"{error}; asking for smaller pages"
    return search(replace(query, page=PAGES[-1]))


def with_retries(attempt: Callable[[], Result], meter: Meter, retries: int = defaults.RETRIES) -> Result:
    """Calls `attempt`, and again after each retryable error, with growing pauses. ServerSilent is not retried: each
    attempt would last the full timeout, so twenty attempts would take hours."""
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


class Server(Struct, frozen=True):
    """The entries of a running server that `query` finds, or all entries below the connection's base."""

    connection: Connection
    query: Search | None = None

    @property
    def label(self) -> str:
        return self.connection.uri or "the default server"

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        searches = [self.query] if self.query else []
        if not searches:
            with session(self.connection, meter.cancelled) as server:
                base = server.base()
                server.read(base, ["1.1"])
                whole = Search(base, attributes=questions.everything(server))
                searches = [whole, *([replace(whole, subentries=True)] if server.offers_subentries(base) else [])]

        def attempt() -> EntryDigests:
            base = searches[0].base
            with ldif.digesting(ignore, meter) as tree, reading(self.connection, meter, base) as (channel, _):
                for query in searches:
                    channel.digest(query, tree)
                return tree

        return with_retries(attempt, meter)

    def find(self, names: Sequence[str]) -> Entries:
        entries: Entries = {}
        with session(self.connection) as server:
            attributes = self.query.attributes if self.query else questions.everything(server)
            for name in names:
                with suppress(NoSuchBase):  # deleted in the meantime
                    entry = server.read(name, attributes)
                    entries[dn.key(name)] = {key: frozenset(values) for key, values in entry.items()}
        return entries


# --- limits ----------------------------------------------------------------------------------------------------------


_REQUESTED = 100_000  # number of entries that `require_readable` requests


def require_readable(server: Session, pieces: Iterable[Piece], page: int) -> None:
    """Raises LimitTooLow if a piece meets a limit with pages of `page` entries and with all smaller PAGES.

    A client learns of a limit in slapd only when the limit ends a search. A search without attributes returns 100,000
    entries in half a second, so --dry-run finds any limit below this number (the default is 500). Only the export
    itself can meet a higher limit. Other refusals are ignored, because the export can avoid their causes: OpenDJ, for
    example, requires a privilege for unindexed searches."""

    def look(search: Search) -> None:
        with suppress(ServerRefused):
            deque(server.dns(search, _REQUESTED), maxlen=0)

    for piece in pieces:
        _in_pages(piece.search, page, look)


# --- narrowing -------------------------------------------------------------------------------------------------------
#
# The export reads these attributes to identify an entry, to find the newer of two copies, and to record containers.
NEEDED = ("entryUUID", "entryCSN", "hasSubordinates")
_ON_THE_WIRE = {"subordinate": "children"}


class Narrowing(Struct, frozen=True):
    """The content of a partial replica, as its syncrepl requests it. `where`: filter. `scope`: scope in the terms of
    syncrepl. `excluded`: attributes that are received but not stored."""

    base: str
    where: str
    scope: str
    attributes: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    def may_store(self, attribute: str) -> bool:
        """Returns whether the replica may store the attribute. Any wildcard or object class may include it."""
        if attribute.lower() in map(str.lower, self.excluded):
            return False
        names = {name.lower() for name in self.attributes}
        return attribute.lower() in names or any(name[0] in "*+@" for name in names)

    @property
    def is_flat(self) -> bool:
        """Whether renaming an entry in scope never changes the DN of another entry in scope."""
        return self.scope in ("base", "one")

    def restrict(self, query: Search) -> Search:
        """Returns `query`, restricted to the replica's content. A query with another base keeps its scope."""
        attributes = (*self.attributes, *(name for name in NEEDED if name not in self.attributes))
        scope = query.scope
        if dn.key(query.base) == dn.key(self.base) and scope == "sub":
            scope = _ON_THE_WIRE.get(self.scope, self.scope)
        # In slapd's configuration, a simple filter may lack its parentheses.
        where = self.where if self.where.startswith("(") else f"({self.where})"
        return replace(query, where=f"(&{where}{query.where})", scope=scope, attributes=attributes)

    def pieces(self, whole: Sequence[Piece]) -> list[Piece]:
        """Restricts the pieces of a tree. If the scope is the base or one level, returns a single piece."""
        if self.is_flat:
            return [Piece("all", self.restrict(Search(self.base)))]
        pieces = (piece for piece in whole if self.scope == "sub" or piece.search.scope != "base")
        return [Piece(piece.name, self.restrict(piece.search)) for piece in pieces]
