"""Checks a tree that is read from running servers: whether several providers have the same tree, which data they hide,
and which containers moved during the read.

If a container is renamed, its children move but keep their entryCSN, so syncrepl does not send them. The read records
the DN of each container (file `NAME.inner` next to the part file). If the contextCSN of the start covers a container's
entryCSN, the container had the recorded DN from the start. After the read, the subtrees of moved containers are read
again, until no other container has moved. A container with an unknown former DN counts as moved. Containers that
changed but did not move need nothing: syncrepl updates them.
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

LOOK = "look.ldif"  # name of the file for the changed containers, in the directory of the part files
INNER_NOTES = ".inner"
INNER = "(hasSubordinates=TRUE)"
LOOKS = 20  # maximum number of passes; a tree that moves for longer is being rebuilt (TreeRestless)
AT_ONCE = 200  # maximum number of entryUUIDs in one filter
COVERING = 60.0  # seconds to wait for a provider whose contextCSN covers those of the others
_LATELY = datetime.timedelta(hours=1)
_NAMES_ONLY = ("entryUUID", "entryCSN")
_INTERVAL = 0.25  # seconds between two polls
_COMPARED = 12  # number of sampled entries that are compared between two providers
_TRIES = 5  # maximum number of comparisons of an entry that may be changing
_NAMED = 8  # maximum number of attributes named in one message
# A shell command; `find_database` sets $DB to the DN of the database's entry in cn=config.
_ADD_RULE = "{ printf 'dn: %s\\nchangetype: modify\\nadd: olcAccess\\n' \"$DB\"; cat; } <<'EOF'"

Answer = TypeVar("Answer")


def context_csns(server: Session, base: str) -> list[str]:
    """Returns the contextCSN of the suffix that holds `base`. Returns an empty list if the server stores none."""
    return server.visible_csns(server.context_of(base))


# --- moved containers ------------------------------------------------------------------------------------------------


class MovedContainers(Struct):
    """Rereads moved subtrees into files `late-NNNNN` in the directory `parts`, which has the files of the first read. A
    file with a higher number was read later. `since`: contextCSN before the last pass; empty if the server has none."""

    connection: Connection
    options: ExportOptions
    start: Start
    parts: Path
    since: Sequence[str]
    meter: Meter
    _reread: dict[str, str] = {}  # entryUUID of a container -> key of the DN at which it was read again
    _returned: set[Path] = set()
    _orphan_calls: int = 0

    def __post_init__(self) -> None:
        self._new()

    def __call__(self, orphans: Sequence[Orphan]) -> list[Path]:
        """Returns the files that were read since the last call. This is `read_again` of `loader.sinks.mdb.LiveSource`:
        the core calls it at the end of the read, and again if there are orphans."""
        if orphans:
            return self.for_orphans(orphans)
        killpoint("stream.read")
        if self.since and self._context_csns() != self.since:
            self.settle()
        killpoint("stream.settled")
        return self._new()

    def for_orphans(self, orphans: Sequence[Orphan]) -> list[Path]:
        """Returns the newly read files. If there are none, syncrepl will update the orphans. Raises MissingParents if a
        parent is hidden, TreeRestless after LOOKS calls."""
        self._orphan_calls += 1
        if self._orphan_calls > LOOKS:
            raise TreeRestless(base=self.start.base, passes=LOOKS)
        if self._orphan_calls == 1:
            # A change is visible a moment before the contextCSN covers it, so the last pass may have missed a change.
            if self.since:
                self.settle()
            if new := self._new():
                return new
        tops = self._missed(orphans)
        for top in tops:
            self._read_below(top)
        if tops and self.since:
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
                    self._reread |= {uuid: dn.key(name) for name, uuid in moved.items() if dn.is_below(name, top)}
        raise TreeRestless(base=self.start.base, passes=LOOKS)

    def require_renamed(self, uuids: Sequence[str]) -> None:
        """Raises SharedUuid if several entries share one of `uuids`, each of which was read with several DNs."""
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
        """Returns the changed containers that moved since they were last read (DN -> entryUUID). If a container changed
        before it was first read, its former DN is unknown, and it counts as moved."""
        former_dns, start_csns = {}, csn.by_server(self.start.context_csns)
        for path in sorted(self.parts.glob(f"part-*{INNER_NOTES}")) if changed else ():
            for name, entry in location.find(path, list(changed)).items():
                if csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), start_csns):
                    former_dns[first_value(entry, "entryuuid")] = name
        former_dns |= self._reread
        root = dn.key(self.start.base)
        return {name: uuid for name, uuid in changed.items() if dn.key(name) not in (former_dns.get(uuid), root)}

    def _read_below(self, top: str) -> bool:
        """Reads the subtree of `top` again. Returns False if it exists no more; the next pass finds its new DN."""
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
        """Returns the DNs of subtrees to read again. If an orphan now has another DN, but an old entryCSN, a container
        above it was renamed and renamed back: the orphan's present parent is returned. syncrepl handles orphans that
        were deleted or renamed themselves. Raises MissingParents if an orphan has its old DN: its parent is hidden."""

        def current(server: Session, name: str, uuid: str) -> list[tuple[str, dict[str, str]]]:
            """Returns the current DNs of an orphan, each with its entryCSN by server ID. A deleted orphan has none."""
            if not uuid:
                return [(name, {})] if server.exists(name) else []
            query = (self.start.base, f"(entryUUID={uuid})", ["entryCSN"])
            entries = server.find(*query)
            if not entries and self.start.subentries:
                entries = server.find(*query, subentries=True)
            return [(new_dn, _entry_csn(entry)) for new_dn, entry in entries]

        hidden, parents, start_csns = [], [], csn.by_server(self.start.context_csns)
        current_dns = self._with_session(lambda server: [current(server, name, uuid) for _, name, uuid in orphans])
        for (parent, name, _), entries in zip(orphans, current_dns, strict=True):
            for new_dn, entry_csn in entries:
                if dn.key(new_dn) == dn.key(name):
                    hidden.append(parent)
                elif csn.is_covered_by(entry_csn, start_csns):
                    parents.append(dn.parent(new_dn))
        if hidden:
            raise MissingParents(count=len(hidden), first=hidden[0])
        return topmost(list(dict.fromkeys(parents)))


def _entry_csn(entry: Attributes) -> dict[str, str]:
    """Returns the entry's entryCSN by server ID."""
    return csn.by_server(value.decode() for value in entry.get("entrycsn", []))


def changed_containers(
    connection: Connection, search: Search, between: tuple[Sequence[str], Sequence[str]], look: Path, meter: Meter
) -> dict[str, str]:
    """Returns the containers that changed between two contextCSNs, the second of which is the current one (DN ->
    entryUUID). `search` has the base and the page size. The search result is written to the file `look`."""
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

    The entryCSN of a changed entry has a server ID whose CSN in the contextCSN advanced. The entryCSN is later than the
    old CSN, because syncprov accepts no earlier CSN. But changes of a new server ID may be of any age. If no CSN
    advanced, a change may still be visible, a moment before the contextCSN covers it.

    slapd finds recent entryCSNs in its index quickly, but needs long to collect the entryCSNs of months. So a long
    period gets two NOTs: inside a NOT, slapd skips the index and tests every entry (sources/planner.py)."""
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
    """Returns the DNs that are not below another DN of the list."""
    return [name for name in names if not any(other != name and dn.is_below(name, other) for other in names)]


def with_uuids(uuids: Iterable[str | bytes]) -> str:
    """Returns a filter for the entries with these entryUUIDs, given as text or as 16 bytes."""
    texts = (UUID(bytes=uuid) if isinstance(uuid, bytes) else uuid for uuid in uuids)
    return f"(|{''.join(f'(entryUUID={text})' for text in texts)})"


def require_unshared(server: Session, base: str, uuids: Sequence[str | bytes], subentries: bool) -> None:
    """Raises SharedUuid if two entries share one of these entryUUIDs. slapadd accepts such entries. Only the server can
    tell them from one entry that was renamed meanwhile. `subentries`: whether the server returns subentries."""
    for at in range(0, len(uuids), AT_ONCE):
        dns: dict[str, list[str]] = {}
        where = with_uuids(uuids[at : at + AT_ONCE])
        for with_subentries in (False, True) if subentries else (False,):
            for name, entry in server.find(base, where, ["entryUUID"], subentries=with_subentries):
                dns.setdefault(first_value(entry, "entryuuid"), []).append(name)
        for uuid, names in dns.items():
            present = []
            # A search may return an entry twice if the entry is renamed during the search.
            for name in dict.fromkeys(names) if len(names) > 1 else ():
                with suppress(NoSuchBase):
                    present += [name] if server.matches(name, f"(entryUUID={uuid})") else []
            if len(present) > 1:
                raise SharedUuid(uuid=uuid, first=present[0], dn=present[1])


# --- several providers -----------------------------------------------------------------------------------------------


def lowest(csn_sets: Iterable[Sequence[str]]) -> list[str]:
    """Returns the contextCSN that all of these contextCSNs cover: the lowest CSN of each server ID. Omits a server ID
    that one provider lacks, because that provider may lack its changes. A lower contextCSN is always safe."""
    by_sid = [csn.by_server(csns) for csns in csn_sets]
    common = set.intersection(*map(set, by_sid))
    return sorted(min(csns[sid] for csns in by_sid) for sid in common)


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
        """Returns a description of the difference; None if there is none, or if changes after `csns` explain it."""
        theirs, ours = read(other, name), read(leader, name)
        if ours is None:
            return None
        if theirs is None:
            covered = csn.is_covered_by(_entry_csn(ours), csn.by_server(csns))
            return f"it does not show {name}" if covered else None
        if theirs.get("entrycsn") != ours.get("entrycsn"):
            return None
        both = (ours.keys() | theirs.keys()) - visibility.NOT_CHECKED
        differing = [attribute for attribute in both if set(ours.get(attribute, ())) != set(theirs.get(attribute, ()))]
        return f"it shows another {min(differing)} of {name}" if differing else None

    for name in names[:: max(1, len(names) // _COMPARED)]:
        for attempt in range(_TRIES):
            reason = difference(name)
            if reason is None:
                break
            time.sleep(_INTERVAL * attempt)
        else:
            raise OtherTree(uri=other.uri, other=leader.uri, reason=reason)


class Providers(Struct, frozen=True):
    """The providers of a read, numbered from 0. If there are several, those that do not answer are skipped."""

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
        end = time.monotonic() + COVERING
        while not self.meter.cancelled.wait(_INTERVAL):
            for number, csns in self.context_csns().items():
                if csn.is_covered_by(wanted, csn.by_server(csns)):
                    return self.connections[number]
            if time.monotonic() > end:
                break
        uris = ", ".join(str(connection.uri) for connection in self.connections)
        raise ReplicasApart(seconds=f"{COVERING:g}", uris=uris)


# --- hidden data ---------------------------------------------------------------------------------------------


def require_all_visible(server: Session, base: str, is_relevant: Relevance = None, own: Sequence[str] = ()) -> None:
    """Raises HiddenFromAccount if access control hides data that a replica needs, NotAsStored if overlays change it.

    `is_relevant` tells whether the replica stores an attribute; None: it stores all. `own`: the overlays of the
    replica's database. If the provider's overlays cannot be read, they are assumed to be the same."""
    report = visibility.compare_sample(server, base, is_relevant)
    if report is None:
        return
    differing = _distorted(report)
    if not report.shows_overlays:
        differing += [
            f"the replica's configuration has the overlay {overlay.name}; if the provider has it as well, it changes "
            f"what a search shows: {overlay.why}"
            for overlay in overlays.overlays_that_change_searches(own)
        ]
    if differing:
        raise NotAsStored(uri=server.uri, what="; ".join(differing))
    if hidden := _hidden(report):
        first = rule(report.who)
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
    """Raises HiddenFromAccount if `hidden`, the notes on data that the server `uri` hides, is not empty."""
    if hidden:
        raise HiddenFromAccount(uri=uri, what="; ".join(hidden), rule=rule("ACCOUNT"), commands=())


def rule(who: str) -> str:
    """Returns an olcAccess rule that, as the first rule, lets `who` read everything, and affects no other account."""
    return f"{{0}}to * by {who} read by * break"


def hidden_notes(report: VisibilityReport) -> list[str]:
    """Returns notes for the operator on data that access control hides or overlays change."""
    return [*_hidden(report), *_distorted(report)]


def _hidden(report: VisibilityReport) -> list[str]:
    notes = [f"access control hides {_listed(report.hidden, f'from {report.who}')}"] if report.hidden else []
    return notes + [f"access control hides the entries below {name} from {report.who}" for name in report.below[:1]]


def _distorted(report: VisibilityReport) -> list[str]:
    notes = [f"the overlay {overlay.name} changes what a search shows: {overlay.why}" for overlay in report.distorting]
    computed = [f"an overlay computes {_listed(report.computed, 'for the answer')}"] if report.computed else []
    return notes or computed


def _listed(attributes: Mapping[str, str], words: str) -> str:
    """Returns a phrase of the attributes' names, `words`, and the DN of an entry that has the first attribute."""
    names = units.listed([*attributes], _NAMED, last=" ")
    return f"{names} {words} (for instance of {next(iter(attributes.values()))})"
