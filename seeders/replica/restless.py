"""Containers that move while a refresh reads: what was found below them may have been found under a name of before.

An entry that changed is sent with its DN of that moment. Where a container above it is renamed at the same time, DNs
of two moments come together. So what lies below a container that changed since is read again, until a look finds none
that changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loader import csn, dn
from loader.errors import NoSuchBase, TreeRestless
from loader.operations import moved
from loader.progress import Meter
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import first_value, session
from loader.sources import ldap as source

LOOKS = 50  # a tree whose containers change after so many looks is being rebuilt, not used
_TOGETHER = 100  # entryUUIDs in one filter
_PLACE = ("entryUUID", "entryCSN", "hasSubordinates")


@dataclass
class ChangedContainers:
    """`files`: LDIF of what was read again, later ones newer. `lost`: entryUUIDs of entries without a place, for they
    changed after the claimed contextCSN, or are gone: syncrepl will tell of them."""

    connection: Connection
    base: str
    directory: Path
    claimed: Sequence[str]
    meter: Meter
    files: list[Path] = field(default_factory=list)
    lost: set[bytes] = field(default_factory=set)
    _since: Sequence[str] = ()

    def settle(self, reached: Sequence[str]) -> None:
        """Until no container changed since the last look. `reached`: what is read again changed after that.

        Raises TreeRestless.
        """
        since = self._since or self.claimed
        for _ in range(LOOKS):
            with session(self.connection) as server:
                now = moved.context_csns(server, self.base)
            tops = [] if now == list(since) else self._changed(since, now)
            if not tops:
                self._since = now
                return
            for top in tops:
                self._below(top, moved.newer(reached, now))
            since = now
        raise TreeRestless(base=self.base, passes=LOOKS)

    def _changed(self, since: Sequence[str], now: Sequence[str]) -> list[str]:
        """DNs of the containers that changed after the first of two contextCSNs. The suffix is none: it cannot be
        renamed, and all is below it."""
        asked, look = Search(self.base), self.directory / "again-look.ldif"
        where = (self.connection, asked, (since, now), look, self.meter)
        root = dn.key(self.base)
        names = [name for name in moved.changed_containers(*where) if dn.key(name) != root]
        return moved.topmost(names)

    def _below(self, top: str, where: str) -> None:
        """Reads again what changed there, the container itself among it."""
        try:
            self._read(Search(top, where))
        except NoSuchBase:
            return  # it moved once more, which the next look finds

    def _read(self, asked: Search) -> Path:
        path = self.directory / f"again-{len(self.files):05}.ldif"
        source.fetch(self.connection, asked, path, self.meter)
        self.files.append(path)
        return path

    def look_up(self, unsettled: Sequence[bytes]) -> bool:
        """Finds out about entries that found no place; whether it read anything. What changed after the claimed
        contextCSN, or is gone, needs no place, unless something is below it. The others are read again with all above
        them."""
        self.lost.difference_update(unsettled)
        anything = False
        for at in range(0, len(unsettled), _TOGETHER):
            wanted = unsettled[at : at + _TOGETHER]
            needed = self._needed(wanted)
            self.lost.update(set(wanted) - needed.keys())
            if needed:
                self._above(list(needed.values()))
                self._read(Search(self.base, _any_of(list(needed))))
                anything = True
        return anything

    def _needed(self, wanted: Sequence[bytes]) -> dict[bytes, str]:
        """entryUUID -> DN of those that must have a place."""
        with session(self.connection) as server:
            found = server.find(self.base, _any_of(wanted), _PLACE)
        claimed = csn.by_server(self.claimed)
        return {
            uuid.UUID(first_value(entry, "entryuuid")).bytes: name
            for name, entry in found
            if first_value(entry, "hassubordinates") == "TRUE"
            or csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), claimed)
        }

    def _above(self, names: Sequence[str]) -> None:
        """Reads what is between entries and the base."""
        root, above = dn.key(self.base), set()
        for name in names:
            parent = dn.parent(name)
            while parent and dn.key(parent) != root and parent not in above:
                above.add(parent)
                parent = dn.parent(parent)
        for name in sorted(above):
            try:
                self._read(Search(name, scope="base"))
            except NoSuchBase:
                continue  # it moved once more


def _any_of(uuids: Sequence[bytes]) -> str:
    terms = "".join(f"(entryUUID={uuid.UUID(bytes=one)})" for one in uuids)
    return f"(|{terms})"
