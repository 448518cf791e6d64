"""How a live server's tree is cut into pieces that connections read side by side: ranges of entryUUIDs, their bounds
from a sample.

What slapd charges for decides (back-mdb; `bin/bench export` measures it):

- An entry that a filter turns away costs a sixth of one that is sent. So each of a few pieces may look at every entry,
  and as many pieces as connections is the best number.
- An inequality on an indexed attribute unites the IDs of its keys one by one (`inequality_candidates`): quadratic up to
  131,072 IDs, 17 seconds of processor time for entryCSNs of ten years before the first entry comes. Behind a NOT slapd
  asks no index, so every range here is written with NOT.
- `(!(entryUUID>=x))` is true of an entry without entryUUID too: each entry is in exactly one piece.

An entryUUID never changes, so an entry is in one piece whatever happens to it while we read. Where they lie is told
from the first entries alone (`spread.py`), whatever the size of the tree.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loader import csn
from loader.errors import NoSuchBase
from loader.server.options import Search
from loader.server.searches import Attributes, first_value
from loader.server.session import Session

SAMPLE = 2000  # entries
_LOOKED = ("entryUUID", "entryCSN", "userPassword", "objectClass", "hasSubordinates")
_PROVED = 3  # entries of the sample for which the server must say that each is in exactly one piece


@dataclass(frozen=True)
class Piece:
    """A piece of the tree: one search."""

    name: str
    search: Search


@dataclass(frozen=True)
class Plan:
    """How the tree is cut."""

    partitions: tuple[Piece, ...]
    how: str  # for people, and the manifest

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
        found = (entry[attribute][0] for _, entry in self.entries if entry.get(attribute))
        return [value.decode("utf-8", "replace") for value in found]

    def stamps(self) -> list[tuple[str, str]]:
        """entryUUID and entryCSN ("" without) of each entry that has the former."""
        return [
            (uuid, first_value(entry, "entrycsn"))
            for _, entry in self.entries
            if (uuid := first_value(entry, "entryuuid"))
        ]

    def containers(self) -> list[str]:
        """entryUUIDs of entries that have others below them: a parent of many is among the first, as a rule."""
        inner = (one for one in self.entries if first_value(one[1], "hassubordinates") == "TRUE")
        return [uuid for _, entry in inner if (uuid := first_value(entry, "entryuuid"))]

    def lack_passwords(self) -> bool:
        """There are entries that could hold a userPassword, and not one shows it."""
        holders = (b"person", b"organizationalperson", b"inetorgperson", b"simplesecurityobject")
        classes = {value.lower() for _, entry in self.entries for value in entry["objectclass"]}
        return not self.values("userpassword") and not classes.isdisjoint(holders)


def sample(server: Session, base: str) -> Sample:
    """A look at the first entries, in the order of the server. Raises NoSuchBase, LimitTooLow."""
    entries, whole = server.first(base, SAMPLE, _LOOKED)
    return Sample([(dn, {"objectclass": [], **found}) for dn, found in entries], whole)


def plan(server: Session, base: str, looked: Sample, pieces: int, now: Sequence[str], entries: int | None) -> Plan:
    """The pieces. `now`: the contextCSN; `entries`: in the whole tree, if that is known."""
    if pieces == 1:
        return Plan((Piece("all", Search(base)),), "one piece")
    found = looked.stamps()
    if len(found) < len(looked.entries):
        return _by_subtree(server, base)
    try:
        lie = spread(found, now, len(found) if looked.whole else entries)
    except ValueError:  # an entryUUID that is none
        return _by_subtree(server, base)
    partitions = tuple(
        Piece(f"range-{number:05}", Search(base, where)) for number, where in enumerate(filters(lie, pieces))
    )
    if not _understood(server, partitions, looked):
        return _by_subtree(server, base)
    return Plan(partitions, f"{pieces} ranges of entryUUID ({lie.why})")


def _understood(server: Session, partitions: Sequence[Piece], looked: Sample) -> bool:
    """Does the server find entries that we know in exactly one piece each?"""
    return all(_in_one(server, partitions, dn) for dn, _ in looked.entries[:: max(1, len(looked.entries) // _PROVED)])


def _in_one(server: Session, partitions: Sequence[Piece], dn: str) -> bool:
    """An entry that left its place meanwhile says nothing."""
    try:
        return sum(server.matches(dn, one.search.where) for one in partitions) == 1
    except NoSuchBase:
        return True


def _by_subtree(server: Session, base: str) -> Plan:
    """The base, its children that are leaves, and one piece for each child that has entries below it."""
    inner = server.children_with_children(base)
    pieces = [Piece("base", Search(base, scope="base"))]
    if inner:
        leaves = Search(base, "(!(hasSubordinates=TRUE))", scope="one")
        pieces.append(Piece("leaves", leaves))
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
        """Of those in the run."""
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
    own = [(place, owner == piece) for place, owner in cuts]
    ends = [
        one for number, one in enumerate(own) if not number or one[1] != own[number - 1][1]
    ]  # where it begins or ends to be true
    return _tree(ends) or EVERYTHING


def _tree(windows: Sequence[tuple[int, bool]]) -> str | None:
    """A filter for windows that are true and false in turn; "" when all are true, None when none is."""
    if len(windows) == 1:
        return "" if windows[0][1] else None
    middle = len(windows) // 2
    low, high = windows[:middle], windows[middle:]
    asked = f"(entryUUID>={uuid.UUID(int=high[0][0])})"
    found = [
        *_branch(f"(!{asked})", _tree(low), needed=len(low) > 2 or low[-1][1]),
        *_branch(f"(!(!{asked}))", _tree(high), needed=len(high) > 2 or high[0][1]),
    ]
    return found[0] if len(found) == 1 else f"(|{''.join(found)})"


def _branch(guard: str, inner: str | None, needed: bool) -> Iterator[str]:
    """A half of a tree. A guard is needed where the half is true next to the cut, and saves time where it is large."""
    if inner is None:
        return
    if not inner:
        yield guard
    else:
        yield f"(&{guard}{inner})" if needed else inner


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


def _run(pace: _UuidRate, loaded: _BulkLoad | None, share: float, entries: int | None) -> UuidDistribution:
    """`loaded`: by the CSNs."""
    # Twice what the pace says: too long does less harm than too short.
    paced = 2 * pace.each * share * entries if entries else None
    if loaded and (loaded.over or (paced and paced / 4 < loaded.turns < paced)):
        return UuidDistribution("loaded in bulk", 1.0, pace.start, loaded.turns, loaded.turns, _PREDICTED)
    limit = loaded.turns if loaded else float("inf")
    if paced:
        length = min(paced, limit)
        return UuidDistribution("loaded in bulk", 1.0, pace.start, length, length, _GUESSED)
    most = min(1.0, limit)
    least = min(max(pace.each * _FEW, 1e-6), most / 2)
    return UuidDistribution("loaded in bulk", 1.0, pace.start, least, most, _UNKNOWN, _LEAST_UNKNOWN)


@dataclass(frozen=True)
class _BulkLoad:
    """A bulk load as the CSNs tell: its length in turns, and whether its server ID has rested since."""

    turns: float
    over: bool


def _loaded(found: Sequence[tuple[str, str]], now: Sequence[str]) -> _BulkLoad | None:
    """None where entryUUIDs and entryCSNs were not made together, or the server keeps no contextCSN."""
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
    return _BulkLoad(turns, over=known[sid] < max(known.values())) if turns > 0 else None


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
