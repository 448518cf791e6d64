"""The steps of `replica refresh`: ask the provider what changed, apply that in one transaction, check the database."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from loader import csn, resources
from loader.errors import MdbDamaged, RefreshUseless, RunMismatch, TreeRestless
from loader.mdb import contents
from loader.operations import hidden_values, twins
from loader.operations.publish import TargetDatabase
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.server import sync, wire
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import session
from loader.sinks import applying, changes
from loader.sinks.applying import Applied, Task
from loader.sources import ldap as source
from loader.storage import files
from seeders.replica.restless import LOOKS, ChangedContainers

SHARE = 4  # of the memory there is, this part for sorting
MOST = 2  # when the provider sends one entry of so many whole, a new seeding is quicker
LEAST = 1000  # entries that are always read
_FILES = CHANGED, PRESENT, DELETED = "changed.ldif", "present.uuids", "deleted.uuids"
_SCRATCH = "sort"


def csns_of(text: str) -> list[str]:
    """The contextCSN in a cookie."""
    parts = (part.partition("=") for part in text.split(","))
    found = next((value for name, _, value in parts if name == "csn"), "")
    return contents.ordered(csn.by_server(found.split(";")).values())


@dataclass(frozen=True)
class RefreshSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    provider: Connection
    allow_hidden: bool
    run: Run
    place: TargetDatabase
    start: Facts  # of the preflight

    @property
    def told(self) -> Facts:
        """What the step `sync` found; nothing before it."""
        return self.run.catalogue.found("sync") or {}

    def _path(self, name: str) -> Path:
        return self.run.directory / name

    def require_same(self) -> None:
        """The database is that of the beginning, or what this run made of it. Raises RunMismatch."""
        is_applied = self.run.catalogue.found("apply") is not None or self._is_applied()
        if not is_applied and self._now() != self.start["reached"]:
            raise RunMismatch(path=self.run.directory, differences="the database's contextCSN")

    def _now(self) -> list[str]:
        return contents.context_csns(self.place.directory, self.place.database.suffix)

    def _is_applied(self) -> bool:
        """Killed after the transaction, before it was written down."""
        return bool(self._now() == self.told.get("claimed") != self.start["reached"])

    def sync(self, meter: Meter) -> Facts:
        """One search. What an earlier try left is of another time."""
        self.clear()
        most = max(LEAST, self.start["held"] // MOST)
        asked = Search(self.start["base"], attributes=tuple(self.start["attributes"]))
        changed, present, deleted = (self._path(name) for name in _FILES)
        with wire.reading(self.provider, meter) as reader:
            since = sync.cookie_of(self.start["reached"])
            told = reader.sync(asked, since, most, (changed, present, deleted), source.DROPPED)
        killpoint("sync.middle")
        if told.cut:
            raise RefreshUseless(uri=self.provider.uri, sent=told.entries, held=self.start["held"])
        if told.repeated:  # two entries share it, or one changed or moved during the answer
            uuids = [str(uuid.UUID(bytes=one)) for one in told.repeated]
            with session(self.provider) as provider:
                twins.require_none(provider, asked.base, uuids, subentries=False)
        claimed = csns_of(told.cookie.decode()) if told.cookie else self.start["reached"]
        return {
            "sent": told.entries,
            "present": told.present,
            "named_deleted": told.deleted,
            "names_present": told.names_present,
            "claimed": claimed,
        }

    def _require_sight(self) -> None:
        """Does the provider show all that it holds? That takes long, so it goes on beside the work."""
        if not self.allow_hidden:
            with session(self.provider) as provider:
                hidden_values.require_all_visible(
                    provider, self.start["base"], own=self.place.database.overlays
                )

    def apply(self, meter: Meter) -> Facts:
        """Until nothing moves meanwhile; then all of it in one transaction."""
        if self._is_applied():
            return {"applied": "before the run was interrupted"}
        told = self.told
        if told["claimed"] == self.start["reached"] and not told["sent"]:
            return {"added": 0, "modified": 0, "renamed": 0, "deleted": 0}
        restless = ChangedContainers(
            self.provider, self.start["base"], self.run.directory, told["claimed"], meter
        )
        restless.settle(self.start["reached"])
        for _ in range(LOOKS):
            done = self._apply(restless, meter)
            if not done.unsettled:
                return done.counts
            if restless.look_up(done.unsettled):
                restless.settle(self.start["reached"])
        raise TreeRestless(base=self.start["base"], passes=LOOKS)

    def _apply(self, restless: ChangedContainers, meter: Meter) -> Applied:
        scratch = self._path(_SCRATCH)
        files.remove_tree(scratch)
        scratch.mkdir(mode=0o700)
        killpoint("apply.middle")
        try:
            return applying.apply(self._task(restless, scratch), self._require_sight, meter)
        finally:
            files.remove_tree(scratch)

    def _task(self, restless: ChangedContainers, scratch: Path) -> Task:
        place = self.place
        result = changes.SyncResult(
            changed=[self._path(CHANGED), *restless.files],
            present=self._path(PRESENT) if self.told["names_present"] else None,
            deleted=[self._path(DELETED)],
            lost=sorted(restless.lost),
            reached=self.start["reached"],
            claimed=self.told["claimed"],
        )
        started = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(self.start["started"]))
        share = resources.memory() // SHARE
        given = changes.Resources(share, resources.processors(), scratch)
        spec = given_to_core(place.config, place.database, place.directory)
        return Task(place.directory, spec, result, started, given)

    def check(self, meter: Meter) -> Facts:
        """The database has reached what the provider claimed, and has as many nodes as entries."""
        now, claimed = self._now(), self.told["claimed"]
        if now != claimed:
            reason = f"its contextCSN is {now}, not {claimed}"
            raise MdbDamaged(path=self.place.data, reason=reason)
        return {"entries": _counted(self.place)}

    def clear(self) -> None:
        """The files of this run."""
        for path in self.run.directory.glob("again-*"):
            path.unlink()
        for name in _FILES:
            self._path(name).unlink(missing_ok=True)
        files.remove_tree(self._path(_SCRATCH))

    def report(self) -> Facts:
        told = self.told
        return {
            "context_csns": told["claimed"],
            "since": self.start["reached"],
            "sent": told["sent"],
            "present": told["present"],
            "seconds": round(sum(step.seconds for step in self.run.catalogue.steps()), 3),
        }


def _counted(place: TargetDatabase) -> int:
    """Entries; dn2i has a record of the root, and two for each entry."""
    entries, nodes = contents.row_counts(place.directory, ("id2e", "dn2i"))
    if nodes != 2 * entries + 1:
        raise MdbDamaged(path=place.data, reason=f"{entries} entries, but {nodes} records in dn2i")
    return entries
