"""How a live server's tree is divided among connections: into pieces, by ranges of entryUUIDs whose bounds a sample
tells; who reads which piece; and how fast.

What slapd charges for decides how the tree is cut (back-mdb; `bin/bench export` measures it):

- An entry that a filter turns away costs a sixth of one that is sent. So each of a few pieces may look at every entry,
  and as many pieces as connections is the best number.
- An inequality on an indexed attribute unites the IDs of its keys one by one (`inequality_candidates`): quadratic up to
  131,072 IDs, 17 seconds of processor time for entryCSNs of ten years before the first entry comes. Behind a NOT slapd
  asks no index, so every range here is written with NOT.
- `(!(entryUUID>=x))` is true of an entry without entryUUID too: each entry is in exactly one piece.

An entryUUID never changes, so an entry stays in one piece whatever happens to it while the tree is read.
"""

from __future__ import annotations

import datetime
import math
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeVar

from loader import csn, defaults
from loader.errors import Cancelled, LoaderError, NoSuchBase
from loader.ldif import Counters
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.session import Attributes, Session, first_value, session

SAMPLE = 2000  # entries
_SHOWN = ("entryUUID", "entryCSN", "userPassword", "objectClass", "hasSubordinates")
_HOLDERS = {b"person", b"organizationalperson", b"inetorgperson", b"simplesecurityobject"}
_PROVED = 3  # entries of the sample for which the server must say that each is in exactly one piece


@dataclass(frozen=True)
class Piece:
    """A piece of the tree: one search."""

    name: str
    search: Search


@dataclass(frozen=True)
class Plan:
    """How the tree is cut; `how` is for people, and the manifest."""

    partitions: tuple[Piece, ...]
    how: str

    @property
    def cut(self) -> list[Piece]:
        """Without those of `subentry_pieces`, which are small."""
        return [one for one in self.partitions if not one.search.subentries]

    @property
    def may_repeat(self) -> bool:
        """Whether an entry that changes or moves meanwhile may be in two pieces: not where entryUUIDs divide them."""
        cut = self.cut
        return len(cut) > 1 and not all("(entryUUID>=" in one.search.where for one in cut)


@dataclass(frozen=True)
class Sample:
    """The first entries of a tree: `whole` when these are all."""

    entries: Sequence[tuple[str, Attributes]]
    whole: bool

    def values(self, attribute: str) -> list[str]:
        """The first value of each entry that has the attribute."""
        return [value for _, entry in self.entries if (value := first_value(entry, attribute))]

    def stamps(self) -> list[tuple[str, str]]:
        """entryUUID and entryCSN ("" without) of each entry that has the former."""
        both = ((first_value(entry, "entryuuid"), first_value(entry, "entrycsn")) for _, entry in self.entries)
        return [(uuid, stamp) for uuid, stamp in both if uuid]

    def containers(self) -> list[str]:
        """entryUUIDs of entries that have others below them: a parent of many is among the first, as a rule."""
        inner = (entry for _, entry in self.entries if first_value(entry, "hassubordinates") == "TRUE")
        return [uuid for entry in inner if (uuid := first_value(entry, "entryuuid"))]

    def lack_passwords(self) -> bool:
        """Are there entries that could hold a userPassword, and not one shows it?"""
        classes = {value.lower() for _, entry in self.entries for value in entry["objectclass"]}
        return not self.values("userpassword") and not classes.isdisjoint(_HOLDERS)


def sample(server: Session, base: str) -> Sample:
    """The first entries, in the order of the server. Raises NoSuchBase, LimitTooLow."""
    entries, whole = server.first(base, SAMPLE, _SHOWN)
    return Sample([(dn, {"objectclass": [], **shown}) for dn, shown in entries], whole)


def plan(server: Session, base: str, looked: Sample, pieces: int, now: Sequence[str], entries: int | None) -> Plan:
    """The pieces. `now`: the contextCSN; `entries`: in the whole tree, if that is known."""
    if pieces == 1:
        return Plan((Piece("all", Search(base)),), "one piece")
    stamps = looked.stamps()
    if len(stamps) < len(looked.entries):
        return _by_subtree(server, base)
    try:
        lie = spread(stamps, now, len(stamps) if looked.whole else entries)
    except ValueError:  # an entryUUID that is none
        return _by_subtree(server, base)
    ranges = enumerate(filters(lie, pieces))
    partitions = tuple(Piece(f"range-{number:05}", Search(base, where)) for number, where in ranges)
    proofs = looked.entries[:: max(1, len(looked.entries) // _PROVED)]
    if not all(_in_one(server, partitions, dn) for dn, _ in proofs):
        return _by_subtree(server, base)
    return Plan(partitions, f"{pieces} ranges of entryUUID ({lie.why})")


def _in_one(server: Session, partitions: Sequence[Piece], dn: str) -> bool:
    """Does the server find the entry in exactly one piece? An entry that was moved meanwhile says nothing."""
    try:
        return sum(server.matches(dn, one.search.where) for one in partitions) == 1
    except NoSuchBase:
        return True


def _by_subtree(server: Session, base: str) -> Plan:
    """The base, its children that are leaves, and one piece for each child that has entries below it."""
    inner = server.children_with_children(base)
    pieces = [Piece("base", Search(base, scope="base"))]
    if inner:
        pieces.append(Piece("leaves", Search(base, "(!(hasSubordinates=TRUE))", scope="one")))
        pieces += [Piece(f"subtree-{n:05}", Search(dn)) for n, dn in enumerate(inner)]
    else:
        pieces.append(Piece("children", Search(base, scope="children")))
    return Plan(tuple(pieces), f"{len(inner)} subtrees" if inner else "one piece")


def subentry_pieces(base: str, subentries: bool) -> list[Piece]:
    """What no search for entries shows. slapd finds them by its index of objectClass."""
    return [Piece("subentries", Search(base, subentries=True))] if subentries else []


def expected(server: Session, base: str) -> int | None:
    """How many entries the server says it has in the database of `base`; None when it does not tell."""
    try:
        return server.counted(base)
    except NoSuchBase:
        return None


# --- windows ---------------------------------------------------------------------------------------------------------
#
# Windows on the ring of entryUUIDs: where they end, who reads which, and the filter of what one reads.
#
# slapd evaluates the filter of a piece on every entry, so each comparison counts: about a thirtieth of what it takes
# to send an entry, more with access rules. Windows of one piece that touch are one, and a filter is a decision tree
# of `entryUUID>=` behind NOT, without a guard where it would say nothing new.


RING = 1 << 128  # of UUIDs as numbers
EVERYTHING = "(objectClass=*)"
_STEPS = 140  # halvings that find a share, also in a run that is next to nothing


@dataclass(frozen=True)
class UuidDistribution:
    """How entryUUIDs lie on their ring, as far as is known. Offsets and lengths are in turns of it.

    A `share` of them makes a run that begins at `start` and is between `least` and `most` long; the others are
    anywhere. `each`: windows for each piece, more where less is known; `all`: in all, at least.
    """

    why: str
    share: float = 0.0
    start: int = 0
    least: float = 1.0
    most: float = 1.0
    each: int = 1
    all: int = 0

    def below(self, offset: float) -> float:
        """The share of all UUIDs within `offset` (at most 1) behind the start."""
        return self.share * self._run(offset) + (1 - self.share) * offset

    def _run(self, offset: float) -> float:
        """The share of the run within `offset`."""
        if self.least < self.most:  # any length is as likely as its double
            long = math.log(self.most / self.least)
            more = min(long, math.log(max(offset / self.least, 1)))
            return (min(1.0, offset / self.least) + more) / (1 + long)
        turns = int(self.most)
        return (turns * offset + min(offset, self.most - turns)) / self.most

    def cuts(self, pieces: int) -> list[tuple[int, int]]:
        """Where windows begin, in order, and the piece that each belongs to."""
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
    """There and back: 0 1 2 2 1 0 0 1 ..., so that what grows or falls along the ring is shared out evenly."""
    for number in range(count):
        turn, place = divmod(number, pieces)
        yield pieces - 1 - place if turn % 2 else place


def filters(spread: UuidDistribution, pieces: int) -> list[str]:
    """One for each piece. Of them exactly one is true of any entry, also of one without entryUUID."""
    cuts = spread.cuts(pieces)
    if cuts[0][0] > 0:
        cuts.insert(0, (0, cuts[-1][1]))  # the last window goes on behind the end of the ring
    return [_filter(cuts, piece) for piece in range(pieces)]


def _filter(cuts: Sequence[tuple[int, int]], piece: int) -> str:
    """True of the windows of one piece."""
    own = [(start, owner == piece) for start, owner in cuts]
    bounds = [*own[:1], *(window for before, window in pairwise(own) if window[1] != before[1])]
    return _tree(bounds) or EVERYTHING


def _tree(windows: Sequence[tuple[int, bool]]) -> str | None:
    """A filter for windows that are true and false in turn; "" when all are true, None when none is."""
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
    """A half of a tree. A guard is needed where the half is true next to the cut, and saves time where it is large."""
    if inner is None:
        return []
    if not inner:
        return [guard]
    return [f"(&{guard}{inner})" if needed else inner]


# --- spread ----------------------------------------------------------------------------------------------------------
#
# How the entryUUIDs of a tree lie on their ring, told from its first entries.
#
# Random ones are spread evenly, and so are those of version 1 (slapd's own) of a tree that grew: their first 32 bits
# count 100 ns, and come round every 429 s. A tree that was loaded in bulk within less fills a part of the ring: a run
# that begins with the first entries. Where it ends follows from the contextCSN when the load came last of its server
# ID, else roughly from the pace of the first entries and the number of all.


# UUIDs whose first bits say nothing of when or where they were made (RFC 9562).
_EVEN_VERSIONS = frozenset({3, 4, 5, 8})
_TURN = (1 << 32) / 1e7  # seconds
_GAP = 0.05  # turns; 2,000 even UUIDs leave none as large
_SAME = 5.0  # seconds from an entryUUID to the entryCSN made with it
_FEW = 1000  # entries: it matters little how they are shared out
_MANY = 3.0  # turns; a run that is longer is even
_LEAST = 2.0**-126  # turns
_PREDICTED, _GUESSED, _UNKNOWN = 2, 4, 8  # windows for each piece
_LEAST_UNKNOWN = 32  # windows in all

EVENLY = UuidDistribution("spread evenly")


@dataclass(frozen=True)
class _UuidRate:
    """Of a run: where it begins, and turns of the ring from one of its entries to the next."""

    start: int
    each: float

    @classmethod
    def of(cls, numbers: Sequence[int]) -> _UuidRate:
        """From numbers that grow from entry to entry. Outliers are left out: the suffix may be older by days."""
        ordered = sorted(numbers)
        aside = len(ordered) // 20
        core = ordered[aside : len(ordered) - aside]
        return cls(core[0] % RING, (core[-1] - core[0]) / RING / len(core))


def spread(found: Sequence[tuple[str, str]], now: Sequence[str], entries: int | None) -> UuidDistribution:
    """`found`: entryUUID and entryCSN ("" without) of the first entries, in the order of the server. `now`: the
    contextCSN. `entries`: in the whole tree, if that is known. ValueError for what is no UUID or no CSN."""
    uuids = [uuid.UUID(one) for one, _ in found]
    timed = [one for one in uuids if one.version == 1]
    others = [one for one in uuids if one.version != 1]
    if {one.version for one in others} - _EVEN_VERSIONS and _gap(others) > _GAP:
        return _run_of_numbers(uuids, entries)
    if not timed or _gap(timed) <= _GAP:
        return EVENLY
    pace, share = _UuidRate.of([one.time << 96 for one in timed]), len(timed) / len(uuids)
    if pace.each * len(timed) > 1:
        return UuidDistribution("several bulk loads", each=_UNKNOWN, all=_LEAST_UNKNOWN)
    run = _run(pace, _loaded(found, now), share, entries)
    return EVENLY if run.least > _MANY else replace(run, share=share)


def _run(pace: _UuidRate, loaded: tuple[float, bool] | None, share: float, entries: int | None) -> UuidDistribution:
    """`loaded`: as the CSNs tell."""
    # Twice what the pace says: too long does less harm than too short.
    paced = 2 * pace.each * share * entries if entries else None
    turns, over = loaded or (math.inf, False)
    if loaded and (over or (paced and paced / 4 < turns < paced)):
        return UuidDistribution("loaded in bulk", 1.0, pace.start, turns, turns, _PREDICTED)
    if paced:
        length = min(paced, turns)
        return UuidDistribution("loaded in bulk", 1.0, pace.start, length, length, _GUESSED)
    most = min(1.0, turns)
    least = min(max(pace.each * _FEW, 1e-6), most / 2)
    return UuidDistribution("loaded in bulk", 1.0, pace.start, least, most, _UNKNOWN, _LEAST_UNKNOWN)


def _loaded(found: Sequence[tuple[str, str]], now: Sequence[str]) -> tuple[float, bool] | None:
    """The length of a bulk load in turns, as the CSNs tell, and whether its server ID has rested since. None where
    entryUUIDs and entryCSNs were not made together, or the server keeps no contextCSN."""
    stamps = [(uuid.UUID(text), stamp) for text, stamp in found if csn.server_id(stamp)]
    # slapd's UUIDs count from an epoch of their own, so only what stays the same between both clocks tells.
    apart = {
        stamp: (csn.time(stamp) - datetime.datetime.min).total_seconds() - one.time / 1e7
        for one, stamp in stamps
        if one.version == 1
    }
    middle = sorted(apart.values())[len(apart) // 2] if apart else 0.0
    together = sorted(stamp for stamp, one in apart.items() if abs(one - middle) < _SAME)
    if len(together) < len(found) / 2:
        return None
    (sid, _), *_ = Counter(csn.server_id(stamp) for stamp in together).most_common(1)
    known = csn.by_server(now)
    if sid is None or sid not in known:
        return None
    lasted = csn.time(known[sid]) - csn.time(together[len(together) // 20])
    turns = lasted.total_seconds() / _TURN
    return (turns, known[sid] < max(known.values())) if turns > 0 else None


def _run_of_numbers(uuids: Sequence[uuid.UUID], entries: int | None) -> UuidDistribution:
    """Of a counter, or of a kind of UUID that begins with the time."""
    if not entries:
        return UuidDistribution("unknown order")
    pace = _UuidRate.of([one.int for one in uuids])
    length = min(1.0, max(_LEAST, 2 * pace.each * entries))
    return UuidDistribution("in ascending order", 1.0, pace.start, length, length, _GUESSED)


def _gap(uuids: Sequence[uuid.UUID]) -> float:
    """The largest part of the ring without one of them."""
    if not uuids:
        return 1.0
    places = sorted(one.int / RING for one in uuids)
    return max(1 + places[0] - places[-1], *(after - before for before, after in pairwise(places)), 0.0)


# --- schedule --------------------------------------------------------------------------------------------------------
#
# Shares pieces out among connections, perhaps to several servers.
#
# A piece whose server fails is read by whoever is free; a server that fails is tried again after a pause, which grows.
# When no piece is left, a free connection begins a copy of one that another server is slow with, if it is expected to
# be through sooner. Whoever ends first has read it, the other is cancelled, and what it read is thrown away.


LONGEST_PAUSE = 5.0  # seconds between two tries
_LOOK = 0.5  # seconds between two looks of a connection that has nothing to do
_SOONER = 1.25  # how many times as long a piece must still take as its copy would

Result = TypeVar("Result")


@dataclass(frozen=True)
class ConnectionSlot:
    """A connection to be: `number` tells those to one `server` (a position in somebody's list) apart."""

    server: int
    number: int

    def __str__(self) -> str:
        return f"{self.server}-{self.number}"


@dataclass(frozen=True)
class Callbacks(Generic[Result]):
    """How a piece is read. `read` returns when it is read whole, or raises: a retryable LoaderError when the server
    failed, any error once its meter is cancelled. `keep` is called once for each piece, `discard` for each try that
    came to nothing, in the thread that read."""

    read: Callable[[ConnectionSlot, Piece, Meter], Result]
    keep: Callable[[ConnectionSlot, Piece, Result], None]
    discard: Callable[[ConnectionSlot, Piece], None]


@dataclass(eq=False)
class _Attempt:
    slot: ConnectionSlot
    piece: Piece
    meter: Meter

    def seconds_left(self, size: float) -> float:
        """For so many entries. It is never taken for nearly done: a line may stall."""
        read = max(self.meter.entries, size / 20)
        return max(size - read, size / 20) * self.meter.seconds / read


def schedule(
    pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], reading: Callbacks[Result], meter: Meter
) -> None:
    """Reads all pieces; what is read counts in `meter`. Raises the first error that is not retryable, or the last one
    when every connection has failed RETRIES times in turn."""
    _Schedule(pieces, slots, reading, meter).run()


class _Schedule(Generic[Result]):
    """What the connections, each with a thread of its own, know of each other; under `_changed`."""

    def __init__(
        self, pieces: Sequence[Piece], slots: Sequence[ConnectionSlot], reading: Callbacks[Result], meter: Meter
    ) -> None:
        self._slots, self._reading, self._meter = slots, reading, meter
        self._waiting = list(pieces)
        self._unread = len(pieces)
        self._running: list[_Attempt] = []
        self._rates: dict[int, float] = {}  # entries a second of a connection, by server
        self._sizes: list[int] = []  # entries of the pieces that were read
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
            for attempt in self._running:
                attempt.meter.cancel()
            self._changed.notify_all()

    @property
    def _is_over(self) -> bool:
        return not self._unread or self._error is not None or self._meter.cancelled.is_set()

    def _work(self, slot: ConnectionSlot) -> None:
        failures = 0  # in turn
        try:
            while failures <= defaults.RETRIES and (attempt := self._begin(slot)) is not None:
                error = self._try(attempt)
                if error is None:
                    failures = 0
                elif self._is_failure(attempt, error):
                    failures += 1
                    self._pause(error, failures)
        except BaseException as error:
            self._give_up(error)

    def _begin(self, slot: ConnectionSlot) -> _Attempt | None:
        """The next piece to read, as soon as there is one; None when all are read, or no more shall be."""
        with self._changed:
            while not self._is_over:
                piece = self._waiting.pop(0) if self._waiting else self._slow(slot)
                if piece is not None:
                    attempt = _Attempt(slot, piece, Meter(piece.name))
                    self._running.append(attempt)
                    return attempt
                self._changed.wait(_LOOK)
        return None

    def _slow(self, slot: ConnectionSlot) -> Piece | None:
        """A piece of another server that `slot` would be through with sooner."""
        rate = self._rates.get(slot.server)
        if not rate or not self._sizes:
            return None
        size = sum(self._sizes) / len(self._sizes)
        alone = [
            one
            for one in self._running
            if one.slot.server != slot.server and sum(other.piece is one.piece for other in self._running) == 1
        ]
        slowest = max(alone, key=lambda one: one.seconds_left(size), default=None)
        if slowest is None or slowest.seconds_left(size) < _SOONER * size / rate:
            return None
        return slowest.piece

    def _try(self, attempt: _Attempt) -> Exception | None:
        """Returns why it came to nothing; None where the piece is read and kept."""
        try:
            with self._meter.counting(attempt.meter):
                result = self._reading.read(attempt.slot, attempt.piece, attempt.meter)
                if not self._is_first(attempt):
                    raise _Superseded
        except (LoaderError, _Superseded) as error:
            self._reading.discard(attempt.slot, attempt.piece)
            return error
        self._reading.keep(attempt.slot, attempt.piece, result)
        with self._changed:
            self._unread -= 1
            self._changed.notify_all()
        return None

    def _is_first(self, attempt: _Attempt) -> bool:
        """Has it ended before any other try of the piece? Then those are cancelled."""
        with self._changed:
            if attempt not in self._running:
                return False
            for one in [one for one in self._running if one.piece is attempt.piece]:
                self._running.remove(one)
                if one is not attempt:
                    one.meter.cancel()
            self._sizes.append(attempt.meter.entries)
            self._rates[attempt.slot.server] = attempt.meter.entries / max(attempt.meter.seconds, 1e-3)
        return True

    def _is_failure(self, attempt: _Attempt, error: Exception) -> bool:
        """Has its server failed? Then the piece is for whoever is free. False where another try was sooner."""
        with self._changed:
            if attempt not in self._running:
                return False
            self._running.remove(attempt)
            if not isinstance(error, LoaderError) or not error.retryable:
                raise error
            if not any(one.piece is attempt.piece for one in self._running):
                self._waiting.insert(0, attempt.piece)
            self._changed.notify_all()
        return True

    def _pause(self, error: Exception, failures: int) -> None:
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


class _Superseded(Exception):
    """Another try of the piece has ended before."""


# --- pace ------------------------------------------------------------------------------------------------------------
#
# How fast a live server is read: as fast as can be, at most so many entries a second, and slower while it is busy.


LOOKS = 1.0  # seconds between two looks at the server's latency
SLOWEST = 500  # entries a second; below it an export would never end
FASTER = 1.25  # at each look that finds the server at ease


class RateLimit:
    """Shared by all connections of a reading. `rate` in entries a second; 0 is as fast as can be."""

    def __init__(self, max_rate: int = 0) -> None:
        self.max_rate = max_rate
        self.rate = max_rate
        self._readers: list[Counters] = []
        self._lock = threading.Lock()

    @contextmanager
    def over(self, counters: Counters) -> Iterator[None]:
        """One more connection, of which each gets its share."""
        with self._lock:
            self._readers.append(counters)
            self._share()
        try:
            yield
        finally:
            with self._lock:
                self._readers.remove(counters)
                self._share()

    def set(self, rate: int) -> None:
        with self._lock:
            self.rate = rate
            self._share()

    def _share(self) -> None:
        for counters in self._readers:
            counters.limit(max(1, self.rate // len(self._readers)) if self.rate else 0)

    @property
    def entries(self) -> int:
        """Read so far by the connections that stand."""
        with self._lock:
            return sum(counters.entries for counters in self._readers)


@contextmanager
def rate_limit(pace: RateLimit, connection: Connection, latency: float | None) -> Iterator[None]:
    """Meanwhile, slow down when the server takes longer than `latency` seconds to answer a small question, and speed
    up again when it does not. None: never mind."""
    if latency is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        before = pace.entries
        while not ended.wait(LOOKS):
            now = pace.entries
            pace.set(_next_rate(pace, max(0, now - before) / LOOKS, _latency(connection, ended) > latency))
            before = now

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _next_rate(pace: RateLimit, measured: float, slow: bool) -> int:
    """Half of what it was while the server is slow, else a little more up to the limit."""
    if slow:
        return max(SLOWEST, int((min(pace.rate, measured) if pace.rate else measured) / 2))
    if not pace.rate:
        return pace.max_rate
    faster = int(pace.rate * FASTER) + 1
    if pace.max_rate:
        return min(faster, pace.max_rate)
    return faster if measured > pace.rate / 2 else 0  # the server gives no more than that anyway


def _latency(connection: Connection, ended: threading.Event) -> float:
    """Seconds until the root DSE is read over a connection of its own; without end when it cannot be."""
    begun = time.monotonic()
    try:
        with session(connection, ended) as server:
            server.read("", ["1.1"])
    except LoaderError:
        return float("inf")
    return time.monotonic() - begun
