"""What a partial replica wants of a server: which entries below a base, and which attributes of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from loader import dn
from loader.server.search import Search
from loader.sources.planner import Piece

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
