"""Bring the database of a stopped consumer up to date, offline: what changed at its provider, and what is gone there.

The provider is asked as slapd's own consumer would ask it (RFC 4533), with the database's contextCSN; what it tells
goes into the database in one transaction, the new contextCSN with it. So a seed that waited is minutes old again before
its slapd starts, however little the provider remembers of its deletions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader import csn, glue, resources, syncrepl
from loader.errors import (
    MdbDamaged,
    NoContextCSN,
    PartialReplica,
    RefreshRefused,
    RefreshUseless,
    RunMismatch,
    TreeRestless,
)
from loader.mdb import context_csn, environment, meta
from loader.operations import hidden_values, moved
from loader.operations.build import target_database
from loader.operations.publish import TargetDatabase
from loader.operations.verify import given_to_core, known_to_core
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts, recorded
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.server import subschema, sync, wire
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import session
from loader.sinks import applying, changes, mdb
from loader.sinks.applying import Applied, Task
from loader.sources import ldap as source
from loader.storage import files
from seeders.replica.restless import LOOKS, ChangedContainers

VERB = "replica refresh"
RUN_DIR = ".ditseed-refresh"  # in the database directory
STEPS = ("preflight", "sync", "apply", "check")
SHARE = 4  # of the memory there is, this part for sorting
MOST = 2  # when the provider sends one entry of so many whole, a new seeding is quicker
LEAST = 1000  # entries that are always read

_FILES = CHANGED, PRESENT, DELETED = "changed.ldif", "present.uuids", "deleted.uuids"
_SCRATCH = "sort"
_ANEW = "Seed the replica anew (ditseed replica seed --replace)."


@dataclass(frozen=True)
class RefreshOptions:
    """`connection` is the provider."""

    config_path: Path
    connection: Connection
    suffix: str | None = None
    run_dir: Path | None = None
    verify: str = "quick"
    allow_hidden: bool = False

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "provider": self.connection.identity(),
        }


def refresh(
    options: RefreshOptions,
    progress: Progress,
    timeouts: Mapping[str, float],
    restart: bool = False,
) -> Facts:
    """Run or resume; the facts that the report shows. Once done, the same command refreshes anew."""
    place = target_database(options.config_path, options.suffix, replace=True)
    require_possible(options, place)
    run_dir = options.run_dir.absolute() if options.run_dir else place.directory / RUN_DIR
    anew = restart or _is_over(run_dir)
    with open_run(run_dir, VERB, options.identity(), progress, timeouts, anew) as run:
        work = _RefreshSteps(options, run, place)
        run.do("preflight", work.preflight)
        work.require_same()
        run.do("sync", work.sync)
        applied = run.do("apply", work.apply)
        checked = run.do("check", work.check)
        work.clear()
        return {**work.report(), **applied, **checked, "run_dir": str(run_dir)}


def plan(options: RefreshOptions) -> Facts:
    """The questions that change nothing."""
    place = target_database(options.config_path, options.suffix, replace=True)
    require_possible(options, place)
    return {**preflight(options, place), "dry_run": "nothing was changed"}


def _is_over(run_dir: Path) -> bool:
    """Nothing is left to do of the run in that directory."""
    with recorded(run_dir) as catalogue:
        return catalogue is None or catalogue.found("check") is not None


def require_possible(options: RefreshOptions, place: TargetDatabase) -> None:
    """No slapd runs on it; it is a whole replica in one database. Raises RefreshRefused and others."""
    if not place.data.exists():
        raise _refused(place, "there is no database yet", _ANEW)
    place.require_free()
    if meta.read_meta(place.directory).format != 1:
        raise _refused(place, "its file is of LMDB 1.0", "Start slapd.")
    for one in glue.subordinates(place.config, place.database):
        raise _refused(place, f"the database of {one.suffix} is glued to it", "Start slapd.")
    if glue.is_subordinate(place.config, place.database):
        raise _refused(place, "it is glued to another one", "Start slapd.")
    found = syncrepl.of_database(place.config, place.database, options.connection.uri)
    narrow = found.narrowing(place.database.suffix) if found else ()
    if found and narrow:
        reason = "a partial replica is not refreshed offline"
        raise PartialReplica(
            config=options.config_path,
            rid=found.rid,
            options=", ".join(narrow),
            reason=reason,
            advice="Start slapd: its own refresh brings the rest.",
        )


def _refused(place: TargetDatabase, reason: str, advice: str) -> RefreshRefused:
    return RefreshRefused(path=place.directory, reason=reason, advice=advice)


def preflight(options: RefreshOptions, place: TargetDatabase) -> Facts:
    """What the database has reached, and whether the provider can be asked from there."""
    suffix, directory = place.database.suffix, place.directory
    known_to_core(place.config, place.database)
    reached = context_csn.stored(directory, suffix)
    if not reached:
        raise NoContextCSN(where=directory, suffix=suffix, advice=_ANEW)
    with session(options.connection) as provider:
        base = provider.spelt(suffix)
        csns = moved.context_csns(provider, base) or provider.context_csns(base)
        if not csn.is_covered_by(csn.by_server(reached), csn.by_server(csns)):
            reason = f"the provider ({', '.join(csns)}) is behind it ({', '.join(reached)})"
            raise _refused(place, reason, "Give the provider that it was filled from.")
        if provider.offers_subentries(base) and provider.find(
            base, "(objectClass=*)", subentries=True
        ):
            raise _refused(place, "the provider holds subentries (RFC 3672)", _ANEW)
        attributes = subschema.everything(provider)
    held = environment.entry_count(directory)
    return {
        "base": base,
        "reached": reached,
        "context_csns": csns,
        "held": held,
        "attributes": attributes,
    }


def csns_of(text: str) -> list[str]:
    """The contextCSN in a cookie."""
    parts = (part.partition("=") for part in text.split(","))
    found = next((value for name, _, value in parts if name == "csn"), "")
    return context_csn.ordered(csn.by_server(found.split(";")).values())


@dataclass(frozen=True)
class _RefreshSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: RefreshOptions
    run: Run
    place: TargetDatabase

    @cached_property
    def start(self) -> Facts:
        found = self.run.catalogue.found("preflight")
        assert found is not None
        return found

    def preflight(self, meter: Meter) -> Facts:
        return {**preflight(self.options, self.place), "started": time.time()}

    @cached_property
    def given(self) -> mdb.TargetSpec:
        return given_to_core(self.place.config, self.place.database)

    def _path(self, name: str) -> Path:
        return self.run.directory / name

    def require_same(self) -> None:
        """The database is that of the beginning, or what this run made of it. Raises RunMismatch."""
        if self.run.catalogue.found("apply") is None and not self._is_applied():
            now = context_csn.stored(self.place.directory, self.place.database.suffix)
            if now != self.start["reached"]:
                raise RunMismatch(path=self.run.directory, differences="the database's contextCSN")

    def _is_applied(self) -> bool:
        """Killed after the transaction, before it was written down."""
        told = self.run.catalogue.found("sync")
        now = context_csn.stored(self.place.directory, self.place.database.suffix)
        return told is not None and now == told["claimed"] != self.start["reached"]

    def sync(self, meter: Meter) -> Facts:
        """One search. What an earlier try left is of another time."""
        self.clear()
        most = max(LEAST, self.start["held"] // MOST)
        asked = Search(self.start["base"], attributes=tuple(self.start["attributes"]))
        changed, present, deleted = (self._path(name) for name in _FILES)
        with wire.reading(self.options.connection, meter) as reader:
            since = sync.cookie_of(self.start["reached"])
            told = reader.sync(asked, since, most, (changed, present, deleted), source.DROPPED)
        killpoint("sync.middle")
        if told.cut:
            raise RefreshUseless(
                uri=self.options.connection.uri, sent=told.entries, held=self.start["held"]
            )
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
        if not self.options.allow_hidden:
            with session(self.options.connection) as provider:
                hidden_values.require_all_visible(
                    provider, self.start["base"], own=self.place.database.overlays
                )

    def apply(self, meter: Meter) -> Facts:
        """Until nothing moves meanwhile; then all of it in one transaction."""
        if self._is_applied():
            return {"applied": "before the run was interrupted"}
        told = self.run.catalogue.found("sync")
        assert told is not None
        if told["claimed"] == self.start["reached"] and not told["sent"]:
            return {"added": 0, "modified": 0, "renamed": 0, "deleted": 0}
        restless = ChangedContainers(
            self.options.connection, self.start["base"], self.run.directory, told["claimed"], meter
        )
        restless.settle(self.start["reached"])
        for _ in range(LOOKS):
            done = self._apply(told, restless, meter)
            if not done.unsettled:
                return done.counts
            if restless.look_up(done.unsettled):
                restless.settle(self.start["reached"])
        raise TreeRestless(base=self.start["base"], passes=LOOKS)

    def _apply(self, told: Facts, restless: ChangedContainers, meter: Meter) -> Applied:
        scratch = self._path(_SCRATCH)
        files.remove_tree(scratch)
        scratch.mkdir(mode=0o700)
        killpoint("apply.middle")
        try:
            task = Task(
                self.place.directory,
                self.given,
                changes.SyncResult(
                    changed=[self._path(CHANGED), *restless.files],
                    present=self._path(PRESENT) if told["names_present"] else None,
                    deleted=[self._path(DELETED)],
                    lost=sorted(restless.lost),
                    reached=self.start["reached"],
                    claimed=told["claimed"],
                ),
                time.strftime("%Y%m%d%H%M%SZ", time.gmtime(self.start["started"])),
                changes.Resources(resources.memory() // SHARE, resources.processors(), scratch),
            )
            return applying.apply(task, self._require_sight, meter)
        finally:
            files.remove_tree(scratch)

    def check(self, meter: Meter) -> Facts:
        """The database has reached what the provider claimed, and has as many nodes as entries."""
        told = self.run.catalogue.found("sync")
        assert told is not None
        directory = self.place.directory
        now = context_csn.stored(directory, self.place.database.suffix)
        if now != told["claimed"]:
            reason = f"its contextCSN is {now}, not {told['claimed']}"
            raise MdbDamaged(path=self.place.data, reason=reason)
        return {"entries": _counted(directory, self.place.data)}

    def clear(self) -> None:
        """The files of this run."""
        for path in self.run.directory.glob("again-*"):
            path.unlink()
        for name in _FILES:
            self._path(name).unlink(missing_ok=True)
        files.remove_tree(self._path(_SCRATCH))

    def report(self) -> Facts:
        told = self.run.catalogue.found("sync")
        assert told is not None
        return {
            "context_csns": told["claimed"],
            "since": self.start["reached"],
            "sent": told["sent"],
            "present": told["present"],
            "seconds": round(sum(step.seconds for step in self.run.catalogue.steps()), 3),
        }


def _counted(directory: Path, path: Path) -> int:
    """Entries; dn2i has a record of the root, and two for each entry."""
    entries, nodes = environment.row_counts(directory, ("id2e", "dn2i"))
    if nodes != 2 * entries + 1:
        raise MdbDamaged(path=path, reason=f"{entries} entries, but {nodes} records in dn2i")
    return entries
