"""Several providers of one tree, read side by side: are they that, what may a reading of all claim, and which of them
has seen what others have shown?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loader import csn, dn, overlays
from loader.errors import LoaderError, NoSuchBase, OtherTree, ReplicasApart, ServerDown
from loader.operations import moved
from loader.progress import Meter
from loader.run.log import Facts
from loader.server.options import Connection
from loader.server.session import Attributes, Session, session
from loader.sources import ldap as source

COVERING = 60.0  # seconds that one may take to receive what another has shown
_LOOK = 0.25  # seconds between two looks
_COMPARED = 12  # entries of a sample
_TRIES = 5  # looks at an entry that others change meanwhile
_OWN = {name.lower() for name in (*overlays.COMPUTED, overlays.CONTEXT_CSN)}


def lowest(told: Iterable[Sequence[str]]) -> list[str]:
    """What every one of these contextCSNs covers. A server ID that one lacks is left out: it has seen nothing of it,
    and to claim less is always right."""
    by_sid = [csn.by_server(one) for one in told]
    common = set.intersection(*(set(one) for one in by_sid))
    return sorted(min(one[sid] for one in by_sid) for sid in common)


def highest(told: Iterable[Sequence[str]]) -> dict[str, str]:
    """What at least one of them covers."""
    return csn.by_server(one for csns in told for one in csns)


def require_same(starts: Sequence[Facts]) -> None:
    """Do they hold one tree, by the names, the entryUUIDs and the contextCSNs of their bases? Raises OtherTree."""
    first, *others = starts
    for one in others:
        reason = None
        if dn.key(one["base"]) != dn.key(first["base"]):
            reason = f"it holds {one['base']}, not {first['base']}"
        elif one["uuid"] != first["uuid"]:
            reason = f"its entry {first['base']} has another entryUUID"
        elif not lowest([one["context_csns"], first["context_csns"]]):
            reason = "their contextCSNs have no server ID in common"
        if reason:
            raise OtherTree(uri=one["uri"], other=first["uri"], reason=reason)


def require_like(
    leader: Session, other: Session, names: Sequence[str], told: Sequence[str]
) -> None:
    """Does the other one show these entries as the leader does? `told`: its contextCSN. Raises OtherTree."""
    for name in names[:: max(1, len(names) // _COMPARED)]:
        difference = None
        for again in range(_TRIES):
            difference = _difference(leader, other, name, told)
            if difference is None:
                break
            time.sleep(_LOOK * again)
        if difference:
            raise OtherTree(uri=other.uri, other=leader.uri, reason=difference)


def _difference(leader: Session, other: Session, name: str, told: Sequence[str]) -> str | None:
    """None where nothing differs but what was changed after `told`."""
    theirs, ours = _read(other, name), _read(leader, name)
    if ours is None:
        return None
    stamps = csn.by_server(value.decode() for value in ours.get("entrycsn", []))
    if theirs is None:
        covered = csn.is_covered_by(stamps, csn.by_server(told))
        return f"it does not show {name}" if covered else None
    if theirs.get("entrycsn") != ours.get("entrycsn"):
        return None
    both = (ours.keys() | theirs.keys()) - _OWN
    differing = [one for one in both if set(ours.get(one, ())) != set(theirs.get(one, ()))]
    return f"it shows another {min(differing)} of {name}" if differing else None


def _read(server: Session, name: str) -> Attributes | None:
    try:
        return server.read(name)
    except NoSuchBase:
        return None


@dataclass(frozen=True)
class Replicas:
    """The providers of a reading, by their numbers. One alone is asked patiently, of several the living ones count."""

    connections: Sequence[Connection]
    base: str
    meter: Meter

    def told(self) -> dict[int, list[str]]:
        """The contextCSN of each that answers. Raises the error of the last one when none does."""
        return source.with_retries(self._told, self.meter)

    def _told(self) -> dict[int, list[str]]:
        found, lost = {}, None
        for number, connection in enumerate(self.connections):
            try:
                with session(connection) as server:
                    found[number] = moved.context_csns(server, self.base)
            except LoaderError as error:
                if not error.retryable:
                    raise
                lost = error
        if not found:
            raise lost or ServerDown(uri="", reason="no provider")
        return found

    def living(self) -> Connection:
        """The first that answers."""
        if len(self.connections) == 1:
            return self.connections[0]
        return self.connections[min(self.told())]

    def covering(self, wanted: Mapping[str, str]) -> Connection | None:
        """One that has seen all this; None where none is heard to within COVERING."""
        if len(self.connections) == 1:
            return self.connections[0]
        until = time.monotonic() + COVERING
        while not self.meter.cancelled.wait(_LOOK):
            for number, csns in self.told().items():
                if csn.is_covered_by(wanted, csn.by_server(csns)):
                    return self.connections[number]
            if time.monotonic() > until:
                break
        return None

    def apart(self) -> ReplicasApart:
        """What to raise where none covers what others have shown."""
        uris = ", ".join(str(one.uri) for one in self.connections)
        return ReplicasApart(seconds=f"{COVERING:g}", uris=uris)
