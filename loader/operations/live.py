"""Checks a tree that is read from running servers: whether several providers hold the same tree, what they hide, and
which containers moved during the read.

If a container is renamed, its children move but keep their entryCSN, so syncrepl does not send them. The read records
the DN of each container (`NAME.inner` beside a part). If the initial contextCSN covers a container's entryCSN, the
container had that DN from the start. After the read, the subtrees of moved containers are read again, until no other
container has moved. A container with an unknown former DN counts as moved. syncrepl updates containers that changed but
did not move.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from loader import csn, dn, ldif, overlays, units
from loader.errors import (
    HiddenFromAccount,
    LoaderError,
    MissingParents,
    NoContextCSN,
    NoSuchBase,
    NotAsStored,
    OtherTree,
    ReplicasApart,
    ServerDown,
    SharedUuid,
    TreeRestless,
)
from loader.progress import Meter
from loader.run.log import killpoint
from loader.server import visibility
from loader.server.options import Connection, Search, external, find_database, line
from loader.server.session import Attributes, Session, first_value, session
from loader.server.visibility import Relevance, VisibilityReport
from loader.sinks.mdb import Orphan
from loader.sources import ldap as source
from loader.sources import location

if TYPE_CHECKING:
    from loader.operations.export import ExportOptions, Start

LOOK = "look.ldif"  # file with the changed containers, in the directory of the parts
INNER_NOTES = ".inner"
INNER = "(hasSubordinates=TRUE)"
LOOKS = 20  # maximum number of passes; a tree that moves longer is being rebuilt (TreeRestless)
AT_ONCE = 200  # entryUUIDs in one search
COVERING = 60.0  # seconds that one provider has to catch up with the contextCSNs of the others
_LATELY = datetime.timedelta(hours=1)
_NAMES_ONLY = ("entryUUID", "entryCSN")
_INTERVAL = 0.25  # seconds between two polls
_COMPARED = 12  # entries of a sample that are compared between two providers
_TRIES = 5  # maximum number of comparisons of one entry, which may be changing
_NAMED = 8  # attributes named in one message
_ADD_RULE = (
    "{ printf 'dn: %s\\nchangetype: modify\\nadd: olcAccess\\n' \"$DB\"; cat; } <<'EOF'"  # shell; $DB: the database
)

Answer = TypeVar("Answer")


def context_csns(server: Session, base: str) -> list[str]:
    """Returns the contextCSN of the suffix that holds `base`. Returns an empty list if the server stores none."""
    for suffix in server.naming_contexts():
        if dn.is_below(base, suffix):
            try:
                return server.context_csns(suffix)
            except NoContextCSN:
                return []
    return []


# --- moved containers ------------------------------------------------------------------------------------------------


class MovedContainers(Struct):
    """Reads moved subtrees again, into files `late-NNNNN` in `parts`. A file with a higher number was read later.

    `parts` is the directory with the files of the first read and its `.inner` files. `since` is the contextCSN before
    the last pass. It is empty if the server has none."""

    connection: Connection
    options: ExportOptions
    start: Start
    parts: Path
    since: Sequence[str]
    meter: Meter
    _placed: dict[str, str] = {}  # entryUUID of a container -> key of the DN at which it was read again
    _returned: set[Path] = set()
    _rounds: int = 0

    def __post_init__(self) -> None:
        self._new()

    def __call__(self, orphans: Sequence[Orphan]) -> list[Path]:
        """Returns the newly read files. `loader.sinks.mdb.LiveSource` calls this at the end of the read (`read_again`),
        and again if there are orphans."""
        if orphans:
            return self.for_orphans(orphans)
        killpoint("stream.read")
        if self.since and self._context_csns() != self.since:
            self.settle()
        killpoint("stream.settled")
        return self._new()

    def for_orphans(self, orphans: Sequence[Orphan]) -> list[Path]:
        """Returns the newly read files. If there are none, syncrepl will update the orphans. Raises MissingParents if a
        parent is hidden, TreeRestless after LOOKS rounds."""
        self._rounds += 1
        if self._rounds > LOOKS:
            raise TreeRestless(base=self.start.base, passes=LOOKS)
        if self._rounds == 1:
            # A change is visible a moment before the contextCSN covers it, so the last pass may have missed one.
            if self.since:
                self.settle()
            if new := self._new():
                return new
        again = self._missed(orphans)
        for top in again:
            self._read_below(top)
        if again and self.since:
            self.settle()
        return self._new()

    def settle(self) -> None:
        """Reads moved subtrees again until no container has moved since its children were read. Raises TreeRestless if
        containers still move after LOOKS passes."""
        for _ in range(LOOKS):
            now = self._context_csns()
            search, look = Search(self.start.base, page=self.options.page), self.parts / LOOK
            moved = self._moved(changed_containers(self.connection, search, (self.since, now), look, self.meter))
            self.since = now
            if not moved:
                return
            for top in topmost(list(moved)):
                if self._read_below(top):
                    self._placed |= {uuid: dn.key(name) for name, uuid in moved.items() if dn.is_below(name, top)}
        raise TreeRestless(base=self.start.base, passes=LOOKS)

    def require_renamed(self, uuids: Sequence[str]) -> None:
        """Raises SharedUuid if several entries have one of these entryUUIDs. Each was read under several DNs."""
        distinct = list(dict.fromkeys(uuids))
        self._with_session(lambda server: require_unshared(server, self.start.base, distinct, self.start.subentries))

    def _new(self) -> list[Path]:
        """Returns the files that no earlier call returned, in the order in which they were read."""
        late = sorted(path for path in self.parts.glob("late-*.ldif*") if path.suffix in (".ldif", ".zst"))
        new = [path for path in late if path not in self._returned]
        self._returned.update(new)
        return new

    def _with_session(self, question: Callable[[Session], Answer]) -> Answer:
        """Calls `question` with a session of the server. Retries if the connection breaks."""

        def attempt() -> Answer:
            with session(self.connection) as server:
                return question(server)

        return source.with_retries(attempt, self.meter)

    def _context_csns(self) -> list[str]:
        return self._with_session(lambda server: context_csns(server, self.start.base))

    def _moved(self, changed: Mapping[str, str]) -> dict[str, str]:
        """Returns DN -> entryUUID of the changed containers whose DN differs from the DN at which they were last read.
        If a container changed before it was first read, its former DN is unknown, and it counts as moved."""
        places, start_csns = {}, csn.by_server(self.start.context_csns)
        for path in sorted(self.parts.glob(f"part-*{INNER_NOTES}")) if changed else ():
            for name, entry in location.find(path, list(changed)).items():
                if csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), start_csns):
                    places[first_value(entry, "entryuuid")] = name
        places |= self._placed
        root = dn.key(self.start.base)
        return {name: uuid for name, uuid in changed.items() if dn.key(name) not in (places.get(uuid), root)}

    def _read_below(self, top: str) -> bool:
        """Reads the whole subtree again. Returns False if `top` no longer exists. The next pass finds moved entries."""
        exists, compress = False, self.options.compress != "none"
        for subentries in (True, False) if self.start.subentries else (False,):
            search = Search(top, page=self.options.page, subentries=subentries)
            if self.options.narrowing:
                search = self.options.narrowing.restrict(search)
            name = f"late-{len(list(self.parts.glob(f'late-*{INNER_NOTES}'))):05}"
            try:
                source.fetch_part(self.connection, search, self.parts, name, compress=compress, meter=self.meter)
                exists = True
            except NoSuchBase:
                exists = False
        return exists

    def _missed(self, orphans: Sequence[Orphan]) -> list[str]:
        """Returns the subtrees to read again. If an orphan is elsewhere but unchanged, a container above it had another
        name for a time: the orphan's present parent is returned. syncrepl handles orphans that were deleted or renamed
        themselves. Raises MissingParents if an orphan still has its DN: then its parent is hidden."""

        def current(server: Session, name: str, uuid: str) -> list[tuple[str, dict[str, str]]]:
            """Returns the current DNs of an orphan, each with its entryCSN by server ID. A deleted orphan has none."""
            if not uuid:
                return [(name, {})] if server.exists(name) else []
            query = (self.start.base, f"(entryUUID={uuid})", ["entryCSN"])
            entries = server.find(*query)
            if not entries and self.start.subentries:
                entries = server.find(*query, subentries=True)
            return [(place, _stamps(entry)) for place, entry in entries]

        hidden, again, began = [], [], csn.by_server(self.start.context_csns)
        places = self._with_session(lambda server: [current(server, name, uuid) for _, name, uuid in orphans])
        for (parent, name, _), entries in zip(orphans, places, strict=True):
            for place, stamps in entries:
                if dn.key(place) == dn.key(name):
                    hidden.append(parent)
                elif csn.is_covered_by(stamps, began):
                    again.append(dn.parent(place))
        if hidden:
            raise MissingParents(count=len(hidden), first=hidden[0])
        return topmost(list(dict.fromkeys(again)))


def _stamps(entry: Attributes) -> dict[str, str]:
    """Returns the entry's entryCSN by server ID."""
    return csn.by_server(value.decode() for value in entry.get("entrycsn", []))


def changed_containers(
    connection: Connection, search: Search, between: tuple[Sequence[str], Sequence[str]], look: Path, meter: Meter
) -> dict[str, str]:
    """Returns DN -> entryUUID of the containers that changed between two contextCSNs. The second must be the current
    one. `search` gives the base and the page size. The search result is written to the file `look`."""
    since, now = between
    where = f"(&{newer(since, now)}{INNER})"
    source.fetch(connection, replace(search, where=where, attributes=_NAMES_ONLY), look, meter)
    since_by_server = csn.by_server(since)
    return {
        name: first_value(entry, "entryuuid")
        for name, entry in location.entries(look)
        if not csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), since_by_server)
    }


def newer(since: Sequence[str], now: Sequence[str]) -> str:
    """Returns a filter that matches every entry that changed between two contextCSNs, and few others.

    The entryCSN of a changed entry has a server ID whose CSN in the contextCSN advanced. It is later than the old CSN,
    because syncprov accepts no earlier CSN. But a new server ID may bring changes of any age. If no CSN advanced, a
    change may still be visible, a moment before the contextCSN covers it.

    slapd finds recent entryCSNs in its index quickly, but it collects the entryCSNs of months slowly. For a filter
    inside a NOT, it skips the index and tests every entry (sources/planner.py)."""
    before = csn.by_server(since)
    changed = {sid for sid, newest in csn.by_server(now).items() if before.get(sid) != newest}
    if not changed <= before.keys():
        return "(objectClass=*)"
    newest = max(before.values())
    oldest = min((before[sid] for sid in changed), default=newest)
    if csn.time(newest) - csn.time(oldest) < _LATELY:
        return f"(entryCSN>={oldest})"
    return f"(!(!(entryCSN>={oldest})))"


def topmost(names: Sequence[str]) -> list[str]:
    """Returns the names that are not below another of the names. Their subtrees contain all of the names."""
    return [name for name in names if not any(other != name and dn.is_below(name, other) for other in names)]


def with_uuids(uuids: Iterable[str | bytes]) -> str:
    """Returns a filter for the entries with these entryUUIDs, given as text or as 16 bytes."""
    texts = (UUID(bytes=one) if isinstance(one, bytes) else one for one in uuids)
    return f"(|{''.join(f'(entryUUID={text})' for text in texts)})"


def require_unshared(server: Session, base: str, uuids: Sequence[str | bytes], subentries: bool) -> None:
    """Raises SharedUuid if two entries share one of these entryUUIDs. slapadd accepts such entries. Only the server can
    tell them from an entry that was renamed meanwhile. `subentries`: whether the server returns subentries."""
    for at in range(0, len(uuids), AT_ONCE):
        places: dict[str, list[str]] = {}
        where = with_uuids(uuids[at : at + AT_ONCE])
        for with_subentries in (False, True) if subentries else (False,):
            for name, entry in server.find(base, where, ["entryUUID"], subentries=with_subentries):
                places.setdefault(first_value(entry, "entryuuid"), []).append(name)
        for uuid, names in places.items():
            still = []
            # A search may return an entry twice if it is renamed during the search.
            for name in dict.fromkeys(names) if len(names) > 1 else ():
                with suppress(NoSuchBase):
                    still += [name] if server.matches(name, f"(entryUUID={uuid})") else []
            if len(still) > 1:
                raise SharedUuid(uuid=uuid, first=still[0], dn=still[1])


# --- several providers -----------------------------------------------------------------------------------------------


def lowest(csn_sets: Iterable[Sequence[str]]) -> list[str]:
    """Returns the contextCSN that all of these contextCSNs cover: the lowest CSN of each server ID. A server ID that
    one provider lacks is left out, because that provider may lack its changes. A lower contextCSN is always safe."""
    by_sid = [csn.by_server(csns) for csns in csn_sets]
    common = set.intersection(*map(set, by_sid))
    return sorted(min(csns[sid] for csns in by_sid) for sid in common)


def highest(csn_sets: Iterable[Sequence[str]]) -> dict[str, str]:
    """Returns the highest CSN of each server ID in these contextCSNs."""
    return csn.by_server(text for csns in csn_sets for text in csns)


def require_same(starts: Sequence[Start]) -> None:
    """Raises OtherTree if the providers' bases differ in DN or entryUUID, or their contextCSNs share no server ID."""
    first, *others = starts
    for other in others:
        if dn.key(other.base) != dn.key(first.base):
            reason = f"it holds {other.base}, not {first.base}"
        elif other.uuid != first.uuid:
            reason = f"its entry {first.base} has another entryUUID"
        elif not lowest([other.context_csns, first.context_csns]):
            reason = "their contextCSNs have no server ID in common"
        else:
            continue
        raise OtherTree(uri=other.uri, other=first.uri, reason=reason)


def require_same_entries(leader: Session, other: Session, names: Sequence[str], csns: Sequence[str]) -> None:
    """Raises OtherTree if the servers differ in a sample of these entries. `csns`: the contextCSN of `other`."""

    def read(server: Session, name: str) -> Attributes | None:
        try:
            return server.read(name)
        except NoSuchBase:
            return None

    def difference(name: str) -> str | None:
        """Returns how the entry differs. None if it is equal, or if changes after `csns` explain the difference."""
        theirs, ours = read(other, name), read(leader, name)
        if ours is None:
            return None
        if theirs is None:
            covered = csn.is_covered_by(_stamps(ours), csn.by_server(csns))
            return f"it does not show {name}" if covered else None
        if theirs.get("entrycsn") != ours.get("entrycsn"):
            return None
        both = (ours.keys() | theirs.keys()) - visibility.NOT_CHECKED
        differing = [attribute for attribute in both if set(ours.get(attribute, ())) != set(theirs.get(attribute, ()))]
        return f"it shows another {min(differing)} of {name}" if differing else None

    for name in names[:: max(1, len(names) // _COMPARED)]:
        for again in range(_TRIES):
            reason = difference(name)
            if reason is None:
                break
            time.sleep(_INTERVAL * again)
        else:
            raise OtherTree(uri=other.uri, other=leader.uri, reason=reason)


class Providers(Struct, frozen=True):
    """The providers of a read, numbered from 0. Of several providers, those that do not answer are skipped."""

    connections: Sequence[Connection]
    base: str
    meter: Meter

    def context_csns(self) -> dict[int, list[str]]:
        """Returns the contextCSN of each provider that answers. Raises the last provider's error if none does."""

        def attempt() -> dict[int, list[str]]:
            csns, failure = {}, None
            for number, connection in enumerate(self.connections):
                try:
                    with session(connection) as server:
                        csns[number] = context_csns(server, self.base)
                except LoaderError as error:
                    if not error.retryable:
                        raise
                    failure = error
            if not csns:
                raise failure or ServerDown(uri="", reason="no provider")
            return csns

        return source.with_retries(attempt, self.meter)

    def living(self) -> Connection:
        """Returns the first provider that answers."""
        number = min(self.context_csns()) if len(self.connections) > 1 else 0
        return self.connections[number]

    def covering(self, wanted: Mapping[str, str]) -> Connection:
        """Waits up to COVERING seconds for a provider whose contextCSN covers `wanted`, and returns it. Raises
        ReplicasApart if there is none. If there is only one provider, it is returned at once."""
        if len(self.connections) == 1:
            return self.connections[0]
        until = time.monotonic() + COVERING
        while not self.meter.cancelled.wait(_INTERVAL):
            for number, csns in self.context_csns().items():
                if csn.is_covered_by(wanted, csn.by_server(csns)):
                    return self.connections[number]
            if time.monotonic() > until:
                break
        uris = ", ".join(str(connection.uri) for connection in self.connections)
        raise ReplicasApart(seconds=f"{COVERING:g}", uris=uris)


# --- hidden data ---------------------------------------------------------------------------------------------


def require_all_visible(server: Session, base: str, is_relevant: Relevance = None, own: Sequence[str] = ()) -> None:
    """Raises HiddenFromAccount if access control hides data that a replica needs, NotAsStored if overlays change such
    data.

    `is_relevant` tells whether the replica stores an attribute. None: it stores all. `own` has the overlays of the
    replica's database. If the provider's overlays cannot be read, they are assumed to be the same."""
    sight = visibility.compare_sample(server, base, is_relevant)
    if sight is None:
        return
    differing = _distorted(sight)
    if not sight.shows_overlays:
        differing += [
            f"the replica's configuration has the overlay {overlay.name}; if the provider has it as well, it changes "
            f"what a search shows: {overlay.why}"
            for overlay in overlays.overlays_that_change_searches(own)
        ]
    if differing:
        raise NotAsStored(uri=server.uri, what="; ".join(differing))
    if hidden := _hidden(sight):
        first = rule(sight.who)
        commands = (
            find_database(server.uri, server.context_of(base)),
            f"{_ADD_RULE} | ldapmodify {external(server.uri)}",
            line("olcAccess", first.encode()),
            "EOF",
            f"# in slapd.conf, before all other `access` of that database: access {first[3:]}",
        )
        raise HiddenFromAccount(uri=server.uri, what="; ".join(hidden), rule=first, commands=commands)


def require_whole(directory: Path) -> None:
    """Raises HiddenFromAccount if the manifest of the export in `directory` records hidden data."""
    manifest = ldif.read_manifest(directory) if directory.is_dir() else None
    if manifest is not None:
        require_nothing_hidden(manifest.source, manifest.hidden)


def require_nothing_hidden(uri: str, hidden: Sequence[str]) -> None:
    """Raises HiddenFromAccount if `hidden` has notes on what the server `uri` hides."""
    if hidden:
        raise HiddenFromAccount(uri=uri, what="; ".join(hidden), rule=rule("ACCOUNT"), commands=())


def rule(who: str) -> str:
    """Returns an olcAccess rule that lets `who` read everything. It must come first, and affects no other account."""
    return f"{{0}}to * by {who} read by * break"


def hidden_notes(sight: VisibilityReport) -> list[str]:
    """Returns notes for the operator of an export or a comparison: what is hidden, and what overlays change."""
    return [*_hidden(sight), *_distorted(sight)]


def _hidden(sight: VisibilityReport) -> list[str]:
    notes = [f"access control hides {_listed(sight.hidden, f'from {sight.who}')}"] if sight.hidden else []
    return notes + [f"access control hides the entries below {name} from {sight.who}" for name in sight.below[:1]]


def _distorted(sight: VisibilityReport) -> list[str]:
    notes = [f"the overlay {overlay.name} changes what a search shows: {overlay.why}" for overlay in sight.distorting]
    computed = [f"an overlay computes {_listed(sight.computed, 'for the answer')}"] if sight.computed else []
    return notes or computed


def _listed(attributes: Mapping[str, str], words: str) -> str:
    """Returns the names of the attributes, the words, and the DN of an entry that has the first attribute."""
    names = units.listed([*attributes], _NAMED, last=" ")
    return f"{names} {words} (for instance of {next(iter(attributes.values()))})"
