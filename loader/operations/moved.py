"""What moved while a live server was read.

Whoever renames a container moves all its children, and those keep their entryCSN: syncrepl does not send them. The
reading notes where it met each container (`NAME.inner` beside a part); one whose entryCSN is not newer than the
contextCSN of before stood there all the time. After the reading, what lies below a container that has moved since, or
that nobody knows the place of, is read again, until a look finds nothing new. A container that merely changed costs
nothing: it is syncrepl's."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from loader import csn, dn
from loader.errors import MissingParents, NoContextCSN, NoSuchBase, SharedUuid, TreeRestless
from loader.progress import Meter
from loader.run.log import killpoint
from loader.server.options import Connection, Search
from loader.server.session import Session, first_value, session
from loader.sinks.mdb import Orphan
from loader.sources import ldap as source
from loader.sources import location
from loader.sources.ldap import Narrowing

LOOK = "look.ldif"  # among the parts: the containers that changed
INNER_NOTES = ".inner"
INNER = "(hasSubordinates=TRUE)"
LOOKS = 20  # a tree whose containers still move after so many looks is being rebuilt, not used
_LATELY = datetime.timedelta(hours=1)
_NAMES_ONLY = ("entryUUID", "entryCSN")

Answer = TypeVar("Answer")


@dataclass
class MovedContainers:
    """Reads again what moved into `late-NNNNN` files in `parts`, where the notes are; a later file is newer."""

    connection: Connection
    base: str
    page: int
    compress: bool
    parts: Path
    began: Sequence[str]  # contextCSN of before the reading
    meter: Meter
    subentries: bool  # the server shows them on request
    narrowing: Narrowing | None = None  # what of it is wanted at all
    _placed: dict[str, str] = field(default_factory=dict)  # entryUUID -> where it was read again

    def context_csns(self) -> list[str]:
        """As the server has it now."""
        return self._asking(lambda server: context_csns(server, self.base))

    def settle(self, since: Sequence[str]) -> list[str]:
        """Until no container is elsewhere than where its children were read; the contextCSN of the last look.

        `since`: a contextCSN of before the last look. Raises TreeRestless.
        """
        for _ in range(LOOKS):
            now = self.context_csns()
            moved = self._moved(self._changed(since, now))
            if not moved:
                return now
            for top in topmost(list(moved)):
                if self.read_below(top):
                    self._place({name: moved[name] for name in moved if dn.is_below(name, top)})
            since = now
        raise TreeRestless(base=self.base, passes=LOOKS)

    def _asking(self, question: Callable[[Session], Answer]) -> Answer:
        """Put a small question to the server, again when the connection breaks."""

        def attempt() -> Answer:
            with session(self.connection) as server:
                return question(server)

        return source.with_retries(attempt, self.meter)

    def _changed(self, since: Sequence[str], now: Sequence[str]) -> dict[str, str]:
        """DN -> entryUUID of containers that changed after `since`; `now`: a contextCSN of before this look."""
        asked = Search(self.base, page=self.page)
        look = self.parts / LOOK
        return changed_containers(self.connection, asked, (since, now), look, self.meter)

    def _moved(self, changed: Mapping[str, str]) -> dict[str, str]:
        """Those that are not where they were when the reading began, or when they were read again."""
        known = {**self._stood(list(changed)), **self._placed}
        root = dn.key(self.base)
        return {
            name: uuid for name, uuid in changed.items() if known.get(uuid) != dn.key(name) and dn.key(name) != root
        }

    def _stood(self, names: Sequence[str]) -> dict[str, str]:
        """entryUUID -> where it stood all the time until it was met, of containers at these places. Of one that had
        changed already when it was met nobody knows."""
        stood, seen = {}, csn.by_server(self.began)
        for path in sorted(self.parts.glob(f"part-*{INNER_NOTES}")) if names else ():
            for name, entry in location.find(path, names).items():
                if csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), seen):
                    stood[first_value(entry, "entryuuid")] = name
        return stood

    def _place(self, read: Mapping[str, str]) -> None:
        self._placed.update({uuid: dn.key(name) for name, uuid in read.items()})

    def read_below(self, top: str) -> bool:
        """The whole subtree, as `read_again`."""
        if self.subentries:
            self.read_again(Search(top, page=self.page, subentries=True))
        return self.read_again(Search(top, page=self.page))

    def read_again(self, asked: Search) -> bool:
        """False when there is no such entry any more: then it moved on, which the next look shows, or was deleted."""
        number = len(list(self.parts.glob(f"late-*{INNER_NOTES}")))
        name = f"late-{number:05}"
        if self.narrowing:
            asked = self.narrowing.of(asked)
        try:
            source.fetch_part(self.connection, asked, self.parts, name, compress=self.compress, meter=self.meter)
        except NoSuchBase:
            return False
        return True

    def missed(self, orphans: Sequence[Orphan], since: Sequence[str]) -> list[str]:
        """Below what to read again for entries whose parent is nowhere: a container that was renamed there and back.

        One that was deleted, or that moved by itself, is syncrepl's. One that still stands where it was read has a
        parent that is hidden from us, and to leave it out would lose it: MissingParents.
        """
        hidden, again = [], []
        found = self._asking(lambda server: [self._now(server, one) for one in orphans])
        for (parent, name, _), places in zip(orphans, found, strict=True):
            for place, own in places:
                if dn.key(place) == dn.key(name):
                    hidden.append(parent)
                elif csn.is_covered_by(own, csn.by_server(since)):
                    again.append(dn.parent(place))
        if hidden:
            raise MissingParents(count=len(hidden), first=hidden[0])
        return topmost(list(dict.fromkeys(again)))

    def require_renamed(self, uuids: Sequence[str]) -> None:
        """Of entryUUIDs that were met under more than one DN: each is that of one entry. Raises SharedUuid."""
        distinct = list(dict.fromkeys(uuids))
        self._asking(lambda server: require_none(server, self.base, distinct, self.subentries))

    def _now(self, server: Session, orphan: Orphan) -> list[tuple[str, dict[str, str]]]:
        """Where that entry is now, and its entryCSN; nowhere when it was deleted."""
        _, name, uuid = orphan
        if not uuid:
            return [(name, {})] if server.exists(name) else []
        asked = (self.base, f"(entryUUID={uuid})", ["entryCSN"])
        found = server.find(*asked)
        if not found and self.subentries:
            found = server.find(*asked, subentries=True)
        return [(place, csn.by_server(value.decode() for value in entry.get("entrycsn", []))) for place, entry in found]


def context_csns(server: Session, base: str) -> list[str]:
    """contextCSN of the suffix that holds `base`; empty on a server that keeps none."""
    for suffix in server.naming_contexts():
        if dn.is_below(base, suffix):
            try:
                return server.context_csns(suffix)
            except NoContextCSN:
                return []
    return []


def changed_containers(
    connection: Connection, asked: Search, between: tuple[Sequence[str], Sequence[str]], look: Path, meter: Meter
) -> dict[str, str]:
    """DN -> entryUUID of the containers that changed after the first of two contextCSNs; the second is of before this
    look. `asked`: below which base, in pages of which size. `look`: a file for what is found."""
    since, now = between
    where = f"(&{newer(since, now)}{INNER})"
    source.fetch(connection, replace(asked, where=where, attributes=_NAMES_ONLY), look, meter)
    seen = csn.by_server(since)
    return {
        name: first_value(entry, "entryuuid")
        for name, entry in location.entries(look)
        if not csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), seen)
    }


def newer(since: Sequence[str], now: Sequence[str]) -> str:
    """A filter that is true of whatever changed between two contextCSNs, and of little else.

    An entry that changed bears a CSN of a server ID whose CSN in the contextCSN has moved, and a later one than stood
    there (syncprov takes no earlier one). A server ID that was not in the contextCSN may bring changes of any age: they
    come from another provider. Where none has moved, a change may be visible a moment before the contextCSN tells.

    slapd is quick to find the latest entryCSNs in its index, and slow to gather those of months; behind a NOT it looks
    at every entry instead (sources/planner.py).
    """
    before = csn.by_server(since)
    changed = {sid for sid, one in csn.by_server(now).items() if before.get(sid) != one}
    if not changed <= before.keys():
        return "(objectClass=*)"
    newest = max(before.values())
    oldest = min((before[sid] for sid in changed), default=newest)
    if csn.time(newest) - csn.time(oldest) < _LATELY:
        return f"(entryCSN>={oldest})"
    return f"(!(!(entryCSN>={oldest})))"


def topmost(names: Sequence[str]) -> list[str]:
    """Without those that lie below another: their subtree is read with it."""
    return [name for name in names if not any(other != name and dn.is_below(name, other) for other in names)]


# --- twins -----------------------------------------------------------------------------------------------------------
#
# Entries that share their entryUUID. No server makes such entries, but slapadd takes them, and each is one of its
# own.
#
# A reading that meets an entryUUID under two DNs takes it for one entry that was renamed meanwhile. Only the server
# can tell: where an entry still stands at both, neither DN is a former one of the other.


AT_ONCE = 200  # entryUUIDs in one search


def require_none(server: Session, base: str, uuids: Sequence[str], subentries: bool) -> None:
    """Raises SharedUuid if the server has two entries with one of these entryUUIDs. `subentries`: it shows them on
    request."""
    for at in range(0, len(uuids), AT_ONCE):
        _require_none(server, base, uuids[at : at + AT_ONCE], subentries)


def _require_none(server: Session, base: str, uuids: Sequence[str], subentries: bool) -> None:
    places: dict[str, list[str]] = {}
    where = "(|{})".format("".join(f"(entryUUID={uuid})" for uuid in uuids))
    for shown in (False, True) if subentries else (False,):
        for name, entry in server.find(base, where, ["entryUUID"], subentries=shown):
            places.setdefault(first_value(entry, "entryuuid"), []).append(name)
    for uuid, names in places.items():
        # A search that goes through the tree while an entry is renamed may have met it twice.
        still = [name for name in dict.fromkeys(names) if len(names) > 1 and _is(server, name, uuid)]
        if len(still) > 1:
            raise SharedUuid(uuid=uuid, first=still[0], dn=still[1])


def _is(server: Session, name: str, uuid: str) -> bool:
    try:
        return server.matches(name, f"(entryUUID={uuid})")
    except NoSuchBase:
        return False


# --- reread ----------------------------------------------------------------------------------------------------------
#
# What a live server has moved while it was read: looked for when all has been read, and again for entries whose
# parent is nowhere.


_LATE = "late-*.ldif*"


@dataclass
class Reread:
    """Reads again below containers that have moved; each call names the files of what it read. Called by a builder as
    `loader.sinks.mdb.LiveSource` says.

    `began`: the contextCSN of before the reading. `since`: that of before the last look; empty where the server has
    none.
    """

    containers: MovedContainers
    began: Sequence[str]
    since: Sequence[str]
    _told: set[Path] = field(default_factory=set)
    _rounds: int = 0

    def __post_init__(self) -> None:
        self._told = set(self._late())

    def __call__(self, orphans: Sequence[Orphan]) -> list[Path]:
        return self.for_orphans(orphans) if orphans else self.look()

    def look(self) -> list[Path]:
        """When all has been read."""
        killpoint("stream.read")
        if self.containers.context_csns() != self.since:
            self._settle()
        killpoint("stream.settled")
        return self._new()

    def for_orphans(self, orphans: Sequence[Orphan]) -> list[Path]:
        """No files: nothing can be done for them, and syncrepl will tell the consumer of it.

        Raises MissingParents, TreeRestless.
        """
        self._rounds += 1
        if self._rounds > LOOKS:
            raise TreeRestless(base=self.containers.base, passes=LOOKS)
        if self._rounds == 1:
            # A change is seen a moment before the contextCSN tells of it, and that moment was this one.
            self._settle()
            found = self._new()
            if found:
                return found
        again = self.containers.missed(orphans, self.began)
        for top in again:
            self.containers.read_below(top)
        if again:
            self._settle()
        return self._new()

    def _settle(self) -> None:
        if self.since:
            self.since = self.containers.settle(self.since)

    def _late(self) -> list[Path]:
        found = self.containers.parts.glob(_LATE)
        return sorted(path for path in found if path.suffix in (".ldif", ".zst"))

    def _new(self) -> list[Path]:
        """Files that were not told of before, in the order in which they were read."""
        found = [path for path in self._late() if path not in self._told]
        self._told.update(found)
        return found
