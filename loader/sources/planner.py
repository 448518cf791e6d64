"""Divides a live server's tree among connections: cuts the tree into pieces by ranges of entryUUID, whose bounds are
estimated from a sample; assigns the pieces to connections; and limits the rate of reading.

The cost of a search in slapd decides how the tree is cut (back-mdb; `bin/bench export` measures the cost):

- An entry that the filter rejects costs a sixth of an entry that is sent. So a few searches may each evaluate every
  entry, and the best number of pieces is the number of connections.
- For an inequality on an indexed attribute slapd merges the IDs of the keys one by one (`inequality_candidates`). The
  merge is quadratic up to 131,072 IDs: with entryCSNs of ten years it takes 17 seconds of processor time before the
  first entry is sent. For a NOT slapd uses no index, so every range here is written with NOT.
- `(!(entryUUID>=x))` also matches an entry without entryUUID, so each entry is in exactly one piece.

An entryUUID never changes, so an entry stays in the same piece even if it is modified or moved during the reading.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from loader import defaults
from loader.errors import Cancelled, LoaderError, NoSuchBase
from loader.ldif import Counters
from loader.progress import Meter
from loader.server.options import Search
from loader.server.session import Attributes, Session, first_value

SAMPLE = 2000  # entries
_SHOWN = ("entryUUID", "userPassword", "objectClass", "hasSubordinates")
_HOLDERS = {b"person", b"organizationalperson", b"inetorgperson", b"simplesecurityobject"}
_PROVED = 3  # sampled entries for which the server must confirm that exactly one piece's filter matches


@dataclass(frozen=True)
class Piece:
    """A part of the tree that one search reads."""

    name: str
    search: Search


@dataclass(frozen=True)
class Sample:
    """The first entries of a tree. `whole`: True if the tree has no other entries."""

    entries: Sequence[tuple[str, Attributes]]
    whole: bool

    def uuids(self) -> list[uuid.UUID] | None:
        """Returns the entryUUIDs; None if an entry has none, or one that is not a UUID."""
        try:
            return [uuid.UUID(first_value(entry, "entryuuid")) for _, entry in self.entries]
        except ValueError:
            return None

    def containers(self) -> list[str]:
        """Returns the entryUUIDs of the sampled containers; a large container is usually among the first entries."""
        inner = (entry for _, entry in self.entries if first_value(entry, "hassubordinates") == "TRUE")
        return [uuid for entry in inner if (uuid := first_value(entry, "entryuuid"))]

    def lack_passwords(self) -> bool:
        """Returns True if some entries' classes allow userPassword, but no entry in the sample shows a value."""
        classes = {value.lower() for _, entry in self.entries for value in entry["objectclass"]}
        shown = any(first_value(entry, "userpassword") for _, entry in self.entries)
        return not shown and not classes.isdisjoint(_HOLDERS)


def sample(server: Session, base: str) -> Sample:
    """Returns the first entries below `base`, in the server's order. Raises NoSuchBase, LimitTooLow."""
    entries, whole = server.first(base, SAMPLE, _SHOWN)
    return Sample([(dn, {"objectclass": [], **shown}) for dn, shown in entries], whole)


def plan(server: Session, base: str, looked: Sample, pieces: int, entries: int | None) -> tuple[list[Piece], str]:
    """Divides the tree. Returns its pieces, and a description of the division for people and for the manifest.
    `entries`: the tree's entry count, None if unknown."""
    if pieces == 1:
        return [Piece("all", Search(base))], "one piece"
    uuids = looked.uuids()
    if uuids is None:
        return _by_subtree(server, base)
    distribution = spread(uuids, len(uuids) if looked.whole else entries)
    ranges = [
        Piece(f"range-{number:05}", Search(base, where)) for number, where in enumerate(filters(distribution, pieces))
    ]
    proofs = looked.entries[:: max(1, len(looked.entries) // _PROVED)]
    if not all(_in_one(server, ranges, name) for name, _ in proofs):
        return _by_subtree(server, base)
    return ranges, f"{pieces} ranges of entryUUID ({distribution.why})"


def _in_one(server: Session, pieces: Sequence[Piece], name: str) -> bool:
    """Returns True if exactly one piece's filter matches the entry, or if the entry has been moved since the sample."""
    try:
        return sum(server.matches(name, piece.search.where) for piece in pieces) == 1
    except NoSuchBase:
        return True


def _by_subtree(server: Session, base: str) -> tuple[list[Piece], str]:
    """Returns these pieces: the base, the base's children that are leaves, and the subtree of each other child."""
    root, inner = Piece("base", Search(base, scope="base")), server.children_with_children(base)
    if not inner:
        return [root, Piece("children", Search(base, scope="children"))], "one piece"
    leaves = Piece("leaves", Search(base, "(!(hasSubordinates=TRUE))", scope="one"))
    subtrees = (Piece(f"subtree-{number:05}", Search(name)) for number, name in enumerate(inner))
    return [root, leaves, *subtrees], f"{len(inner)} subtrees"


def expected(server: Session, base: str) -> int | None:
    """Returns the server's own count of the entries in the database of `base`; None if the count is not readable."""
    try:
        return server.counted(base)
    except NoSuchBase:
        return None


# --- windows ---------------------------------------------------------------------------------------------------------
#
# entryUUIDs form a ring of 2^128 numbers. This part divides the ring into windows, assigns each window to a piece, and
# builds each piece's filter.
#
# slapd evaluates a piece's filter on every entry, so each comparison counts: it costs about a thirtieth of sending an
# entry, more with access rules. So adjacent windows of a piece are merged, and a filter is a decision tree of negated
# `entryUUID>=` that omits redundant guards.


RING = 1 << 128  # number of possible UUIDs
EVERYTHING = "(objectClass=*)"
_STEPS = 140  # bisection steps; enough even for a run of the length _LEAST


@dataclass(frozen=True)
class UuidDistribution:
    """An estimate of how entryUUIDs are distributed on the ring. Offsets and lengths are in turns of the ring.

    The fraction `share` of the entryUUIDs lies in a run that begins at `start` and is between `least` and `most` long;
    the others are spread evenly. `each`: windows per piece, more if less is known. `all`: minimum total of windows.
    """

    why: str
    share: float = 0.0
    start: int = 0
    least: float = 1.0
    most: float = 1.0
    each: int = 1
    all: int = 0

    def below(self, offset: float) -> float:
        """Returns the fraction of all UUIDs that lie between the start and `offset` (at most 1) after the start."""
        return self.share * self._run(offset) + (1 - self.share) * offset

    def _run(self, offset: float) -> float:
        """Returns the fraction of the run that lies before `offset`."""
        if self.least < self.most:  # the logarithm of the length is taken as evenly distributed
            long = math.log(self.most / self.least)
            more = min(long, math.log(max(offset / self.least, 1)))
            return (min(1.0, offset / self.least) + more) / (1 + long)
        turns = int(self.most)
        return (turns * offset + min(offset, self.most - turns)) / self.most

    def cuts(self, pieces: int) -> list[tuple[int, int]]:
        """Returns (start, piece number) of each window, in ascending order of the starts."""
        count = max(self.each * pieces, self.all)
        offsets = [0.0] + [self._offset(number / count) for number in range(1, count)]
        places = [(self.start + int(offset * RING)) % RING for offset in offsets]
        return sorted(zip(places, _dealt(count, pieces), strict=True))

    def _offset(self, share: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.below(middle) < share else (low, middle)
        return high


def _dealt(count: int, pieces: int) -> Iterator[int]:
    """Yields 0 1 2 2 1 0 0 1 ..., so that a density that rises or falls along the ring is divided evenly."""
    for number in range(count):
        turn, place = divmod(number, pieces)
        yield pieces - 1 - place if turn % 2 else place


def filters(spread: UuidDistribution, pieces: int) -> list[str]:
    """Returns a filter per piece. Exactly one of the filters matches any entry, even an entry without entryUUID."""
    cuts = spread.cuts(pieces)
    if cuts[0][0] > 0:
        cuts.insert(0, (0, cuts[-1][1]))  # the last window continues at the beginning of the ring
    return [_filter(cuts, piece) for piece in range(pieces)]


def _filter(cuts: Sequence[tuple[int, int]], piece: int) -> str:
    """Returns the filter that matches the entryUUIDs in the windows of `piece`."""
    own = [(start, owner == piece) for start, owner in cuts]
    bounds = [*own[:1], *(window for before, window in pairwise(own) if window[1] != before[1])]
    return _tree(bounds) or EVERYTHING


def _tree(windows: Sequence[tuple[int, bool]]) -> str | None:
    """Returns a filter for windows that alternate between true and false; "" if all are true, None if none is true."""
    if len(windows) == 1:
        return "" if windows[0][1] else None
    middle = len(windows) // 2
    low, high = windows[:middle], windows[middle:]
    asked = f"(entryUUID>={uuid.UUID(int=high[0][0])})"
    branches = [
        *_branch(f"(!{asked})", _tree(low), needed=len(low) > 2 or low[-1][1]),
        *_branch(f"(!(!{asked}))", _tree(high), needed=len(high) > 2 or high[0][1]),
    ]
    return branches[0] if len(branches) == 1 else f"(|{''.join(branches)})"


def _branch(guard: str, inner: str | None, needed: bool) -> list[str]:
    """Returns at most one filter. `needed`: the half matches next to the cut, or its size makes a guard worthwhile."""
    if inner is None:
        return []
    if not inner:
        return [guard]
    return [f"(&{guard}{inner})" if needed else inner]


# --- spread ----------------------------------------------------------------------------------------------------------
#
# Estimates the distribution of a tree's entryUUIDs on the ring from the tree's first entries.
#
# Random UUIDs are spread evenly. UUIDs of version 1 (slapd's own) are too if the tree grew over time: their first 32
# bits count units of 100 ns and wrap around every 429 s. A bulk load of less than 429 s fills only a part of the ring:
# a run that begins with the first entries. Its length follows roughly from the pace of the first entries and the total
# number of entries; if that is unknown, any number between _FEW and _MANY is taken as equally likely.


# UUID versions whose first bits depend neither on the time nor on the host (RFC 9562).
_EVEN_VERSIONS = frozenset({3, 4, 5, 8})
_GAP = 0.05  # turns; 2,000 evenly distributed UUIDs leave no gap as large
_FEW = 1e3  # entries; a run of fewer entries need not be divided evenly
_MANY = 1e9  # entries
_LONG = 3.0  # turns; a longer run counts as evenly distributed
_LEAST = 2.0**-126  # turns; the minimum length of a run

EVENLY = UuidDistribution("spread evenly")


def spread(uuids: Sequence[uuid.UUID], entries: int | None) -> UuidDistribution:
    """Estimates the distribution from the first entryUUIDs, in the server's order. `entries`: the tree's entry count;
    None if unknown."""
    timed = [one for one in uuids if one.version == 1]
    others = [one for one in uuids if one.version != 1]
    if {one.version for one in others} - _EVEN_VERSIONS and _gap(others) > _GAP:
        # They come from a counter, or their version begins with the time.
        why, numbers = "in ascending order", [one.int for one in uuids]
    elif timed and _gap(timed) > _GAP:
        why, numbers = "loaded in bulk", [one.time << 96 for one in timed]
    else:
        return EVENLY
    start, pace = _pace(numbers)
    share = len(numbers) / len(uuids)
    if pace * len(numbers) > 1:
        return UuidDistribution("several bulk loads", each=8, all=32)
    if not entries:
        least = min(0.5, max(_LEAST, pace * _FEW))
        return UuidDistribution(why, share, start, least, min(1.0, max(2 * least, pace * _MANY)), each=8, all=32)
    # Twice the length that the pace implies: an overestimate does less harm than an underestimate.
    length = max(_LEAST, 2 * pace * share * entries)
    return EVENLY if length > _LONG else UuidDistribution(why, share, start, length, length, each=4)


def _pace(numbers: Sequence[int]) -> tuple[int, float]:
    """Returns the start of numbers that grow from entry to entry, and the turns of the ring between successive entries.
    Ignores outliers: the suffix may be days older."""
    ordered = sorted(numbers)
    aside = len(ordered) // 20
    core = ordered[aside : len(ordered) - aside]
    return core[0] % RING, (core[-1] - core[0]) / RING / len(core)


def _gap(uuids: Sequence[uuid.UUID]) -> float:
    """Returns the length, in turns, of the largest arc of the ring that contains none of `uuids`."""
    if not uuids:
        return 1.0
    offsets = sorted(one.int / RING for one in uuids)
    return max(1 + offsets[0] - offsets[-1], *(after - before for before, after in pairwise(offsets)), 0.0)


# --- schedule --------------------------------------------------------------------------------------------------------
#
# Assigns pieces to connections, which may lead to several servers. If a server fails, the next free connection reads
# the piece; the failed server is retried after growing pauses.


LONGEST_PAUSE = 5.0  # maximum seconds between two attempts
_LOOK = 0.5  # seconds after which an idle connection looks for work again


@dataclass(frozen=True)
class ConnectionSlot:
    """A future connection. `server`: index in the caller's list. `number`: index among connections to that server."""

    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.server}-{self.number}"


# Reads a whole piece and keeps it. Raises a retryable LoaderError if the server fails, any error if its meter is
# cancelled.
ReadPiece = Callable[[ConnectionSlot, Piece, Meter], None]


def schedule(pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], read: ReadPiece, meter: Meter) -> None:
    """Reads all pieces and counts their entries in `meter`. Raises the first error that is not retryable; raises the
    last error if every connection has exceeded RETRIES consecutive failures."""
    _Schedule(pieces, slots, read, meter).run()


class _Schedule:
    """The state that the connections' threads share, guarded by `_changed`."""

    def __init__(self, pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], read: ReadPiece, meter: Meter) -> None:
        self._slots, self._read, self._meter = slots, read, meter
        self._waiting = list(pieces)
        self._unread = len(pieces)
        self._running: list[Meter] = []
        self._error: BaseException | None = None
        self._alive = len(slots)  # connections that have not given up
        self._changed = threading.Condition()

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, args=(slot,), daemon=True) for slot in self._slots]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as stop:
            self._give_up(stop)
            for thread in threads:
                thread.join()
            raise
        if self._error:
            raise self._error
        if self._unread:
            raise Cancelled(signal="the watch over this step")

    def _give_up(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            for meter in self._running:
                meter.cancel()
            self._changed.notify_all()

    @property
    def _is_over(self) -> bool:
        return not self._unread or self._error is not None or self._meter.cancelled.is_set()

    def _work(self, slot: ConnectionSlot) -> None:
        failures = 0  # consecutive
        try:
            while failures <= defaults.RETRIES and (piece := self._next()) is not None:
                error = self._try(slot, piece)
                failures = failures + 1 if error else 0
                if error:
                    self._pause(error, failures)
        except BaseException as error:
            self._give_up(error)

    def _next(self) -> Piece | None:
        """Waits for a piece; returns None if all pieces are read, or reading has been stopped."""
        with self._changed:
            while not self._is_over:
                if self._waiting:
                    return self._waiting.pop(0)
                self._changed.wait(_LOOK)
        return None

    def _try(self, slot: ConnectionSlot, piece: Piece) -> LoaderError | None:
        """Reads the piece. Returns None, or the retryable error after which the piece waits again."""
        meter, failure = Meter(piece.name), None
        with self._changed:
            self._running.append(meter)
            if self._error:
                meter.cancel()
        try:
            with self._meter.counting(meter):
                self._read(slot, piece, meter)
        except LoaderError as error:
            if not error.retryable:
                raise
            failure = error
        with self._changed:
            self._running.remove(meter)
            if failure:
                self._waiting.insert(0, piece)
            else:
                self._unread -= 1
            self._changed.notify_all()
        return failure

    def _pause(self, error: LoaderError, failures: int) -> None:
        self._meter.note = f"{error}; trying again"
        with self._changed:
            if failures > defaults.RETRIES:
                self._alive -= 1
                if not self._alive:
                    raise error
                return
            until = time.monotonic() + min(LONGEST_PAUSE, 0.5 * 2 ** (failures - 1))
            while time.monotonic() < until and not self._is_over:
                self._changed.wait(_LOOK)


class RateLimit:
    """The limit that all connections of an export share. `rate`: entries per second; 0 means no limit."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._readers: list[Counters] = []
        self._lock = threading.Lock()

    @contextmanager
    def over(self, counters: Counters) -> Iterator[None]:
        """Adds a connection during the body. The rate is divided equally among all connections."""
        self._share(self._readers.append, counters)
        try:
            yield
        finally:
            self._share(self._readers.remove, counters)

    def _share(self, change: Callable[[Counters], None], changed: Counters) -> None:
        with self._lock:
            change(changed)
            for counters in self._readers:
                counters.limit(max(1, self._rate // len(self._readers)) if self._rate else 0)
