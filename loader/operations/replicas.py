"""Several providers of one tree, read side by side: are they that, what may a reading of all claim, and which of them
has seen what others have shown?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import csn, dn, exports, overlays
from loader.errors import HiddenFromAccount, LoaderError, NoSuchBase, NotAsStored, OtherTree, ReplicasApart, ServerDown
from loader.operations import moved
from loader.progress import Meter
from loader.run.log import Facts
from loader.server import visibility
from loader.server.options import Connection
from loader.server.session import Attributes, Session, session
from loader.server.visibility import VisibilityReport, Wanted
from loader.sources import ldap as source

COVERING = 60.0  # seconds that one may take to receive what another has shown
_LOOK = 0.25  # seconds between two looks
_COMPARED = 12  # entries of a sample
_TRIES = 5  # looks at an entry that others change meanwhile


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


def require_like(leader: Session, other: Session, names: Sequence[str], told: Sequence[str]) -> None:
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
    both = (ours.keys() | theirs.keys()) - visibility.NOT_ASKED
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


# --- hidden values ---------------------------------------------------------------------------------------------------
#
# What a server does not show as it is stored: a note of an export, and a refusal of a seeding.


_NAMED = 8  # attributes named in one message


def require_all_visible(server: Session, base: str, wanted: Wanted = None, own: Sequence[str] = ()) -> None:
    """Is what a search shows all that a replica needs? Raises HiddenFromAccount, NotAsStored.

    `wanted` tells which attributes the replica stores (None: all). `own`: the overlays of the replica's database,
    which speak for the provider's where the provider does not tell its own.
    """
    sight = visibility.compare_sample(server, base, wanted)
    if sight is None:
        return
    differing = [*_distorted(sight), *_supposed(sight, own)]
    if differing:
        raise NotAsStored(uri=server.uri, what="; ".join(differing))
    hidden = list(_hidden(sight))
    if hidden:
        raise HiddenFromAccount(uri=server.uri, what="; ".join(hidden), rule=rule(sight.who))


def require_whole(directory: Path) -> None:
    """Has the export of a server noted that something was hidden? Raises HiddenFromAccount."""
    made = exports.read(directory) if directory.is_dir() else None
    if made is not None:
        require_nothing_hidden(made.source, made.hidden)


def require_nothing_hidden(uri: str, hidden: Sequence[str]) -> None:
    """`hidden`: what a reading of that server has noted. Raises HiddenFromAccount."""
    if hidden:
        raise HiddenFromAccount(uri=uri, what="; ".join(hidden), rule=rule("ACCOUNT"))


def rule(who: str) -> str:
    """The first rule of a database, which shows everything to `who` and leaves others to the rules behind it."""
    return f"{{0}}to * by {who} read by * break"


def notes(sight: VisibilityReport) -> list[str]:
    """For the operator of an export."""
    return [*_hidden(sight), *_distorted(sight)]


def _hidden(sight: VisibilityReport) -> Iterator[str]:
    if sight.hidden:
        example = next(iter(sight.hidden.values()))
        names = _listed(list(sight.hidden))
        yield f"access control hides {names} from {sight.who} (for instance of {example})"
    for name in sight.below[:1]:
        yield f"access control hides the entries below {name} from {sight.who}"


def _distorted(sight: VisibilityReport) -> Iterator[str]:
    for one in sight.distorting:
        yield f"the overlay {one.name} changes what a search shows: {one.why}"
    if sight.computed and not sight.distorting:
        example = next(iter(sight.computed.values()))
        yield f"an overlay computes {_listed(list(sight.computed))} for the answer (for instance of {example})"


def _supposed(sight: VisibilityReport, own: Sequence[str]) -> Iterator[str]:
    if not sight.tells_overlays:
        for one in overlays.overlays_that_change_searches(own):
            yield (
                f"the replica's configuration has the overlay {one.name}; if the provider has it as well, it changes "
                f"what a search shows: {one.why}"
            )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
