"""Divides a live server's tree among connections. Cuts the tree into pieces by ranges of entryUUID, whose bounds are
estimated from a sample; assigns the pieces to connections; and limits the rate of reading.

The cost of searches in back-mdb decides how the tree is cut (`bin/bench export` measures the cost):

- Rejecting an entry by the filter costs a sixth of sending an entry. So a few searches may each evaluate every entry,
  and the best number of pieces is the number of connections.
- For an inequality on an indexed attribute, slapd merges the IDs of the keys one by one (`inequality_candidates`). Up
  to 131,072 IDs, the time of the merge is quadratic: with entryCSNs of ten years it takes 17 seconds of processor time
  before the first entry is sent. For a NOT slapd uses no index, so every filter here uses NOT.
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
from itertools import pairwise

from msgspec import Struct
from msgspec import field as struct_field

from loader import defaults
from loader.errors import Cancelled, LoaderError, NoSuchBase
from loader.ldif import Counters
from loader.progress import Meter
from loader.server.options import Search
from loader.server.session import Attributes, Session, first_value

SAMPLE = 2000  # maximum number of sampled entries
_SAMPLE_ATTRIBUTES = ("entryUUID", "userPassword", "objectClass", "hasSubordinates")
_PASSWORD_CLASSES = {b"person", b"organizationalperson", b"inetorgperson", b"simplesecurityobject"}
_TESTS = 3  # number of sampled entries for which the server must confirm that exactly one piece's filter matches


class Piece(Struct, frozen=True):
    """A part of the tree that one search reads."""

    name: str
    search: Search


class FirstEntries(Struct, frozen=True):
    """The first entries of a tree, as a sample. `whole`: whether the tree has no further entries."""

    entries: Sequence[tuple[str, Attributes]]
    whole: bool

    def uuids(self) -> list[uuid.UUID] | None:
        """Returns the entryUUIDs; None if an entry has no entryUUID, or a value that is not a UUID."""
        try:
            return [uuid.UUID(first_value(entry, "entryuuid")) for _, entry in self.entries]
        except ValueError:
            return None

    def containers(self) -> list[str]:
        """Returns the entryUUIDs of the entries with children."""
        containers = (entry for _, entry in self.entries if first_value(entry, "hassubordinates") == "TRUE")
        return [uuid for entry in containers if (uuid := first_value(entry, "entryuuid"))]

    def lacks_passwords(self) -> bool:
        """Returns whether no entry shows a userPassword, although the object classes of some entries allow it."""
        classes = {value.lower() for _, entry in self.entries for value in entry["objectclass"]}
        has_password = any(first_value(entry, "userpassword") for _, entry in self.entries)
        return not has_password and not classes.isdisjoint(_PASSWORD_CLASSES)


def sample(server: Session, base: str) -> FirstEntries:
    """Returns the first entries below `base`, in the server's order. Raises NoSuchBase, LimitTooLow."""
    entries, whole = server.first(base, SAMPLE, _SAMPLE_ATTRIBUTES)
    return FirstEntries([(dn, {"objectclass": [], **shown}) for dn, shown in entries], whole)


def plan(
    server: Session, base: str, sampled: FirstEntries, pieces: int, entries: int | None
) -> tuple[list[Piece], str]:
    """Divides the tree. Returns its pieces, and a description of the division for messages and for the manifest.
    `entries`: the tree's entry count; None if unknown."""
    if pieces == 1:
        return [Piece("all", Search(base))], "one piece"

    def in_one(name: str) -> bool:
        """Returns whether exactly one range matches the entry; True if the entry was moved or deleted meanwhile."""
        try:
            return sum(server.matches(name, piece.search.where) for piece in ranges) == 1
        except NoSuchBase:
            return True

    if (uuids := sampled.uuids()) is not None:
        distribution = spread(uuids, len(uuids) if sampled.whole else entries)
        wheres = enumerate(filters(distribution, pieces))
        ranges = [Piece(f"range-{number:05}", Search(base, where)) for number, where in wheres]
        if all(in_one(name) for name, _ in sampled.entries[:: max(1, len(sampled.entries) // _TESTS)]):
            return ranges, f"{pieces} ranges of entryUUID ({distribution.why})"

    root, inner = Piece("base", Search(base, scope="base")), server.children_with_children(base)
    if not inner:
        return [root, Piece("children", Search(base, scope="children"))], "one piece"
    leaves = Piece("leaves", Search(base, "(!(hasSubordinates=TRUE))", scope="one"))
    subtrees = (Piece(f"subtree-{number:05}", Search(name)) for number, name in enumerate(inner))
    return [root, leaves, *subtrees], f"{len(inner)} subtrees"


def expected(server: Session, base: str) -> int | None:
    """Returns the server's own entry count of the database with `base`; None if the count cannot be read."""
    try:
        return server.entry_count(base)
    except NoSuchBase:
        return None


# --- windows ---------------------------------------------------------------------------------------------------------
#
# entryUUIDs form a ring of 2^128 numbers. The functions here divide the ring into windows, assign each window to a
# piece, and build each piece's filter.
#
# slapd evaluates a piece's filter on every entry. Each comparison costs about a thirtieth of sending an entry, and more
# with access rules. So adjacent windows of a piece are merged. A filter is a decision tree of negated `entryUUID>=`
# assertions; assertions that change nothing are omitted.


RING = 1 << 128  # number of possible UUIDs
EVERYTHING = "(objectClass=*)"
_STEPS = 140  # number of bisection steps, which suffices even for the shortest arc, _LEAST


class UuidDistribution(Struct, frozen=True):
    """An estimate of the distribution of entryUUIDs on the ring. Offsets and lengths are in turns of the ring.

    The fraction `share` of the entryUUIDs is in an arc that begins at `start` and is between `least` and `most` long.
    The other entryUUIDs are spread evenly. Each piece gets `each` windows; all pieces together, at least `all`."""

    why: str
    share: float = 0.0
    start: int = 0
    least: float = 1.0
    most: float = 1.0
    each: int = 1
    all: int = 0

    def below(self, offset: float) -> float:
        """Returns the fraction of all entryUUIDs that are within `offset` (at most 1) after the start."""
        if self.least < self.most:  # the logarithm of the length is assumed to be evenly distributed
            long = math.log(self.most / self.least)
            more = min(long, math.log(max(offset / self.least, 1)))
            on_arc = (min(1.0, offset / self.least) + more) / (1 + long)
        else:
            turns = int(self.most)
            on_arc = (turns * offset + min(offset, self.most - turns)) / self.most
        return self.share * on_arc + (1 - self.share) * offset

    def cuts(self, pieces: int) -> list[tuple[int, int]]:
        """Returns the start and the piece number of each window, in ascending order of the starts."""
        count = max(self.each * pieces, self.all)
        cuts = []
        for number in range(count):
            low, high = 0.0, 1.0 if number else 0.0
            for _ in range(_STEPS):
                middle = (low + high) / 2
                low, high = (middle, high) if self.below(middle) < number / count else (low, middle)
            # Windows go to the pieces 0 1 2 2 1 0 0 1 ..., so that a rising or falling density is divided evenly.
            turn, owner = divmod(number, pieces)
            cuts.append(((self.start + int(high * RING)) % RING, pieces - 1 - owner if turn % 2 else owner))
        return sorted(cuts)


def filters(spread: UuidDistribution, pieces: int) -> list[str]:
    """Returns one filter per piece. Each entry, even without entryUUID, matches exactly one of the filters."""
    cuts = spread.cuts(pieces)
    if cuts[0][0] > 0:
        cuts.insert(0, (0, cuts[-1][1]))  # the last window continues at the beginning of the ring
    result = []
    for piece in range(pieces):
        marks = [(start, owner == piece) for start, owner in cuts]
        bounds = [*marks[:1], *(window for before, window in pairwise(marks) if window[1] != before[1])]
        result.append(_tree(bounds) or EVERYTHING)
    return result


def _tree(windows: Sequence[tuple[int, bool]]) -> str | None:
    """Returns a filter that matches the windows marked True; "" if all entries match, None if no entry matches.
    Adjacent windows have different marks."""
    if len(windows) == 1:
        return "" if windows[0][1] else None
    middle = len(windows) // 2
    low, high = windows[:middle], windows[middle:]
    is_high = f"(entryUUID>={uuid.UUID(int=high[0][0])})"
    branches = []
    for guard, half, next_to_cut in ((f"(!{is_high})", low, low[-1][1]), (f"(!(!{is_high}))", high, high[0][1])):
        inner = _tree(half)
        # The guard ends a match next to the cut. Without such a match, it saves comparisons in a large half.
        if inner is not None:
            branches.append(guard if not inner else f"(&{guard}{inner})" if len(half) > 2 or next_to_cut else inner)
    return branches[0] if len(branches) == 1 else f"(|{''.join(branches)})"


# --- spread ----------------------------------------------------------------------------------------------------------
#
# The functions here estimate the distribution of a tree's entryUUIDs on the ring from the tree's first entries.
#
# Random UUIDs are spread evenly. UUIDs of version 1 (slapd's own) count units of 100 ns in their first 32 bits, which
# wrap around every 429 s. So they are spread evenly, too, if the tree grew over time. A bulk load of less than 429 s
# fills only an arc of the ring, which begins with the first entries. The length of the arc is roughly the distance
# between two of the first entries times the number of entries. If the number of entries is unknown, all orders of
# magnitude between _FEW and _MANY are assumed to be equally likely.


# UUID versions whose first bits depend neither on the time nor on the host (RFC 9562).
_EVEN_VERSIONS = frozenset({3, 4, 5, 8})
_RARE = 20  # UUIDs of a kind that fewer than 1 in 20 entries have may all be in one piece
_GAP = 0.05  # turns; 2,000 evenly distributed UUIDs leave no gap this large
_FEW = 1e3  # entries; an arc with fewer entries need not be divided evenly
_MANY = 1e9  # number of entries of the largest tree that is expected
_LONG = 3.0  # turns; UUIDs on a longer arc, which overlaps itself, count as spread evenly
_LEAST = 2.0**-126  # turns; minimum length of an arc

EVENLY = UuidDistribution("spread evenly")


def spread(uuids: Sequence[uuid.UUID], entries: int | None) -> UuidDistribution:
    """Estimates the distribution of the tree's entryUUIDs from the first ones that the server returns, in its order.
    `entries`: number of entries in the tree; None if unknown."""
    timed = [each for each in uuids if each.version == 1]
    rest = [each for each in uuids if each.version != 1]
    rare_count = len(uuids) // _RARE
    if len(rest) > rare_count and {each.version for each in rest} - _EVEN_VERSIONS and _gap(rest) > _GAP:
        # The UUIDs come from a counter, or are of a version that begins with the time.
        why, numbers = "in ascending order", sorted(each.int for each in uuids)
    elif len(timed) > rare_count and _gap(timed) > _GAP:
        why, numbers = "loaded in bulk", sorted(each.time << 96 for each in timed)
    else:
        return EVENLY
    outliers = len(numbers) // 20  # for example, the entry of the suffix may be days older
    core = numbers[outliers : len(numbers) - outliers]
    start, pace = core[0] % RING, (core[-1] - core[0]) / RING / len(core)  # turns between two entries
    share = len(numbers) / len(uuids)
    if pace * len(numbers) > 1:
        return UuidDistribution("several bulk loads", each=8, all=32)
    if not entries:
        least = min(0.5, max(_LEAST, pace * _FEW))
        return UuidDistribution(why, share, start, least, min(1.0, max(2 * least, pace * _MANY)), each=8, all=32)
    # Twice the length that the pace implies, because an overestimate does less harm than an underestimate.
    length = max(_LEAST, 2 * pace * share * entries)
    return EVENLY if length > _LONG else UuidDistribution(why, share, start, length, length, each=4)


def _gap(uuids: Sequence[uuid.UUID]) -> float:
    """Returns the length, in turns, of the largest arc of the ring that contains none of `uuids`."""
    if not uuids:
        return 1.0
    offsets = sorted(each.int / RING for each in uuids)
    return max(1 + offsets[0] - offsets[-1], *(after - before for before, after in pairwise(offsets)), 0.0)


# --- schedule --------------------------------------------------------------------------------------------------------
#
# The functions here assign pieces to connections to one or several servers. If a server fails, the next free connection
# reads the piece. The failed server is tried again after growing pauses.


LONGEST_PAUSE = 5.0  # maximum seconds between two attempts
_POLL = 0.5  # seconds after which an idle connection looks for a piece again


class ConnectionSlot(Struct, frozen=True):
    """A connection that `schedule` may use. `server`: index of its server. `number`: its index at this server."""

    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.server}-{self.number}"


# Reads a whole piece and stores it. Raises a retryable LoaderError if the server fails. May raise any error if the
# meter is cancelled.
ReadPiece = Callable[[ConnectionSlot, Piece, Meter], None]


def schedule(pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], read: ReadPiece, meter: Meter) -> None:
    """Reads all pieces and counts their entries in `meter`. Raises the first error that is not retryable, or the last
    error if every connection has had more than RETRIES consecutive failures."""
    state = _Schedule(read, meter, list(pieces), len(pieces), len(slots))
    threads = [threading.Thread(target=state.work, args=(slot,), daemon=True) for slot in slots]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as stop:
        state.give_up(stop)
        for thread in threads:
            thread.join()
        raise
    if state.error:
        raise state.error
    if state.unread:
        raise Cancelled(signal="the timeout of this step")


class _Schedule(Struct):
    """The state that the threads of the connections share, guarded by `changed`. `alive`: number of connections that
    have not given up. `running`: meters of the pieces that are being read."""

    read: ReadPiece
    meter: Meter
    waiting: list[Piece]
    unread: int
    alive: int
    running: list[Meter] = []
    error: BaseException | None = None
    changed: threading.Condition = struct_field(default_factory=threading.Condition)

    @property
    def is_over(self) -> bool:
        return not self.unread or self.error is not None or self.meter.cancelled.is_set()

    def give_up(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            for meter in self.running:
                meter.cancel()
            self.changed.notify_all()

    def work(self, slot: ConnectionSlot) -> None:
        failures = 0  # consecutive failures
        try:
            while failures <= defaults.RETRIES and (piece := self._next()) is not None:
                failure = self._try(slot, piece)
                failures = failures + 1 if failure else 0
                if failure:
                    self._pause(failure, failures)
        except BaseException as error:
            self.give_up(error)

    def _next(self) -> Piece | None:
        """Waits for a piece. Returns None if all pieces are read or reading has been stopped."""
        with self.changed:
            while not self.is_over:
                if self.waiting:
                    return self.waiting.pop(0)
                self.changed.wait(_POLL)
        return None

    def _try(self, slot: ConnectionSlot, piece: Piece) -> LoaderError | None:
        """Reads the piece. After a retryable error, puts the piece back and returns the error; otherwise None."""
        meter, failure = Meter(piece.name), None
        with self.changed:
            self.running.append(meter)
            if self.error:
                meter.cancel()
        try:
            with self.meter.counting(meter):
                self.read(slot, piece, meter)
        except LoaderError as error:
            if not error.retryable:
                raise
            failure = error
        with self.changed:
            self.running.remove(meter)
            if failure:
                self.waiting.insert(0, piece)
            else:
                self.unread -= 1
            self.changed.notify_all()
        return failure

    def _pause(self, error: LoaderError, failures: int) -> None:
        self.meter.note = f"{error}; trying again"
        with self.changed:
            if failures > defaults.RETRIES:
                self.alive -= 1
                if not self.alive:
                    raise error
                return
            until = time.monotonic() + min(LONGEST_PAUSE, 0.5 * 2 ** (failures - 1))
            while time.monotonic() < until and not self.is_over:
                self.changed.wait(_POLL)


class RateLimit:
    """The rate limit of all connections of an export. `rate`: entries per second; 0: no limit."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._readers: list[Counters] = []
        self._lock = threading.Lock()

    @contextmanager
    def limiting(self, counters: Counters) -> Iterator[None]:
        """Limits the rate of a connection during the body. All current connections have equal shares of the rate."""
        self._share(self._readers.append, counters)
        try:
            yield
        finally:
            self._share(self._readers.remove, counters)

    def _share(self, change: Callable[[Counters], None], reader: Counters) -> None:
        with self._lock:
            change(reader)
            for counters in self._readers:
                counters.limit(max(1, self._rate // len(self._readers)) if self._rate else 0)
