"""How a live server's tree is cut into pieces that are read side by side.

What slapd charges for decides (back-mdb; `bin/bench export` measures it):

- An entry that a filter turns away costs a sixth of one that is sent. So each of a few pieces may look at every entry,
  and as many pieces as connections is the best number.
- An inequality on an indexed attribute unites the IDs of its keys one by one (`inequality_candidates`): quadratic up to
  131,072 IDs, 17 seconds of processor time for entryCSNs of ten years before the first entry comes. Behind a NOT slapd
  asks no index, so every range here is written with NOT.
- `(!(entryUUID>=x))` is true of an entry without entryUUID too: the first piece is also the rest.

An entryUUID never changes, so an entry is in one piece whatever happens to it while we read.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from loader import csn
from loader.errors import NoSuchBase
from loader.server.search import Search
from loader.server.session import Attributes, Session
from loader.server.wire import Survey

SAMPLE = 2000  # entries
_LOOKED = ("entryUUID", "entryCSN", "userPassword", "objectClass")
_PROVED = 3  # entries of the sample for which the server must say that each is in exactly one piece

# UUIDs whose first bits say nothing of when or where they were made (RFC 9562).
_EVEN_VERSIONS = frozenset({3, 4, 5, 8})
# The first 32 bits of a version 1 UUID come round every 429 s. Those of a tree that grew for longer are even.
_ROUND = datetime.timedelta(hours=1)
# Entries made within so short a time were loaded in bulk, at an even pace.
_BULK = datetime.timedelta(hours=2)


@dataclass(frozen=True)
class Partition:
    """A piece of the tree: one search."""

    name: str
    search: Search


@dataclass(frozen=True)
class Plan:
    """How the tree is cut."""

    partitions: tuple[Partition, ...]
    how: str  # for people, and the manifest

    @property
    def may_repeat(self) -> bool:
        """Whether an entry that changes or moves meanwhile may be in two pieces: not where entryUUIDs divide them."""
        cut = [one for one in self.partitions if not one.search.subentries]
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

    def lack_passwords(self) -> bool:
        """There are entries that could hold a userPassword, and not one shows it."""
        holders = (b"person", b"organizationalperson", b"inetorgperson", b"simplesecurityobject")
        classes = {value.lower() for _, entry in self.entries for value in entry["objectclass"]}
        return not self.values("userpassword") and not classes.isdisjoint(holders)


def sample(server: Session, base: str) -> Sample:
    """A look at the first entries, in the order of the server. Raises NoSuchBase, LimitTooLow."""
    entries, whole = server.first(base, SAMPLE, _LOOKED)
    return Sample([(dn, {"objectclass": [], **found}) for dn, found in entries], whole)


def plan(
    server: Session,
    base: str,
    looked: Sample,
    pieces: int,
    now: Sequence[str],
    entries: int | None,
    survey: Callable[[], Survey],
) -> Plan:
    """The pieces. `now`: the contextCSN; `entries`: in the whole tree, if that is known. `survey` reads every entry's
    entryUUID, and is asked only when nothing else tells where to cut."""
    if pieces == 1:
        return Plan((Partition("all", Search(base)),), "one piece")
    uuids = looked.values("entryuuid")
    if len(uuids) < len(looked.entries):
        return _by_subtree(server, base)
    chosen = _cut(looked, uuids, pieces, now, entries, survey)
    partitions = tuple(
        Partition(f"range-{number:05}", Search(base, where))
        for number, where in enumerate(ranges(chosen.attribute, chosen.cuts))
    )
    if not _understood(server, partitions, looked):
        return _by_subtree(server, base)
    return Plan(partitions, f"{len(partitions)} ranges of {chosen.attribute} ({chosen.why})")


@dataclass(frozen=True)
class _Cuts:
    attribute: str
    cuts: Sequence[str]
    why: str


def _cut(
    looked: Sample,
    uuids: Sequence[str],
    pieces: int,
    now: Sequence[str],
    entries: int | None,
    survey: Callable[[], Survey],
) -> _Cuts:
    if _even([uuid.UUID(value) for value in uuids]):
        return _Cuts("entryUUID", _even_cuts(pieces), "spread evenly")
    seen, end = _times(looked.values("entrycsn")), _times(now)
    if end and entries and _at_an_even_pace(seen, end[-1], entries):
        return _Cuts("entryCSN", _time_cuts(seen[0], end[-1], pieces), "loaded in bulk")
    return _Cuts("entryUUID", survey().cuts(pieces), "every entry counted")


def _even(uuids: Sequence[uuid.UUID]) -> bool:
    """Whether equal ranges of UUIDs hold about as many entries each."""
    timed = [one.time for one in uuids if one.version == 1]  # in 100 ns
    others = {one.version for one in uuids} - {1}
    if timed and datetime.timedelta(microseconds=(max(timed) - min(timed)) / 10) < _ROUND:
        return False
    return others <= _EVEN_VERSIONS


def _times(csns: Sequence[str]) -> list[datetime.datetime]:
    return sorted(csn.time(value) for value in csns if csn.server_id(value))


def _at_an_even_pace(
    seen: Sequence[datetime.datetime], end: datetime.datetime, entries: int
) -> bool:
    """Whether the whole tree was made as fast as its first entries, and nothing happened after that."""
    if not seen or end - seen[0] > _BULK:
        return False
    needed = (seen[-1] - seen[0]) / len(seen) * entries
    return needed / 2 < end - seen[0] < needed * 2


def _even_cuts(pieces: int) -> list[str]:
    return [str(uuid.UUID(int=number * (1 << 128) // pieces)) for number in range(1, pieces)]


def _time_cuts(first: datetime.datetime, last: datetime.datetime, pieces: int) -> list[str]:
    step = (last - first) / pieces
    return [
        f"{first + number * step:%Y%m%d%H%M%S.%fZ}#000000#000#000000" for number in range(1, pieces)
    ]


def ranges(attribute: str, cuts: Sequence[str]) -> Iterator[str]:
    """Filters, of which exactly one is true of any entry."""
    if not cuts:
        yield "(objectClass=*)"
        return
    yield f"(!({attribute}>={cuts[0]}))"
    for low, high in pairwise(cuts):
        yield f"(&(!(!({attribute}>={low})))(!({attribute}>={high})))"
    yield f"(!(!({attribute}>={cuts[-1]})))"


def _understood(server: Session, partitions: Sequence[Partition], looked: Sample) -> bool:
    """Does the server find entries that we know in exactly one piece each?"""
    return all(
        _in_one(server, partitions, dn)
        for dn, _ in looked.entries[:: max(1, len(looked.entries) // _PROVED)]
    )


def _in_one(server: Session, partitions: Sequence[Partition], dn: str) -> bool:
    """An entry that left its place meanwhile says nothing."""
    try:
        return sum(server.matches(dn, one.search.where) for one in partitions) == 1
    except NoSuchBase:
        return True


def _by_subtree(server: Session, base: str) -> Plan:
    """The base, its children that are leaves, and one piece for each child that has entries below it."""
    inner = server.children_with_children(base)
    pieces = [Partition("base", Search(base, scope="base"))]
    if inner:
        leaves = Search(base, "(!(hasSubordinates=TRUE))", scope="one")
        pieces.append(Partition("leaves", leaves))
        pieces += [Partition(f"subtree-{n:05}", Search(dn)) for n, dn in enumerate(inner)]
    else:
        pieces.append(Partition("children", Search(base, scope="children")))
    return Plan(tuple(pieces), f"{len(inner)} subtrees" if inner else "one piece")


def containers(server: Session, base: str) -> list[str]:
    """entryUUIDs of those among the first entries that have others below them: a parent of many is among them, as a
    rule."""
    entries, _ = server.first(base, SAMPLE, ("entryUUID", "hasSubordinates"))
    inner = [entry for _, entry in entries if entry.get("hassubordinates") == [b"TRUE"]]
    return Sample([("", entry) for entry in inner], False).values("entryuuid")


def besides(base: str, subentries: bool) -> list[Partition]:
    """What no search for entries shows. slapd finds them by its index of objectClass."""
    return [Partition("subentries", Search(base, subentries=True))] if subentries else []


def expected(server: Session, base: str) -> int | None:
    """How many entries the server says it has in the database of `base`; None when it does not tell."""
    try:
        return server.counted(base)
    except NoSuchBase:
        return None
