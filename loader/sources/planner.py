"""How a live server's tree is cut into pieces that are read side by side.

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

from collections.abc import Sequence
from dataclasses import dataclass

from loader.errors import NoSuchBase
from loader.server.search import Search
from loader.server.session import Attributes, Session, first_value
from loader.sources.spread import spread
from loader.sources.windows import filters

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


def plan(
    server: Session,
    base: str,
    looked: Sample,
    pieces: int,
    now: Sequence[str],
    entries: int | None,
) -> Plan:
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
        Piece(f"range-{number:05}", Search(base, where))
        for number, where in enumerate(filters(lie, pieces))
    )
    if not _understood(server, partitions, looked):
        return _by_subtree(server, base)
    return Plan(partitions, f"{pieces} ranges of entryUUID ({lie.why})")


def _understood(server: Session, partitions: Sequence[Piece], looked: Sample) -> bool:
    """Does the server find entries that we know in exactly one piece each?"""
    return all(
        _in_one(server, partitions, dn)
        for dn, _ in looked.entries[:: max(1, len(looked.entries) // _PROVED)]
    )


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
