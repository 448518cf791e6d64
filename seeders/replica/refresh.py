"""Bring the database of a stopped consumer up to date, offline: what changed at its provider, and what is gone there.

The provider is asked as slapd's own consumer would ask it (RFC 4533), with the database's contextCSN; what it tells
goes into the database in one transaction, the new contextCSN with it. So a seed that waited is minutes old again before
its slapd starts, however little the provider remembers of its deletions.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loader import backmdb, csn, glue, syncrepl
from loader.common_options import AllowHidden, Config, ConsumerSuffix, RunDir
from loader.errors import (
    IndexesUnknown,
    NoContextCSN,
    PartialReplica,
    RefreshRefused,
)
from loader.mdb import contents, meta
from loader.operations import made_with, moved
from loader.operations.build import target_database
from loader.operations.publish import TargetDatabase
from loader.operations.verify import known_to_core
from loader.progress import Meter, Progress
from loader.run.log import Facts, recorded
from loader.run.steps import open_run
from loader.server import subschema
from loader.server.options import Connection
from loader.server.session import Session, session
from seeders.replica.refresh_steps import RefreshSteps

VERB = "replica refresh"
RUN_DIR = ".ditseed-refresh"  # in the database directory
STEPS = ("preflight", "sync", "apply", "check")

_ANEW = "Seed the replica anew (ditseed replica seed --replace)."


@dataclass(frozen=True)
class RefreshOptions:
    """`connection` is the provider."""

    config_path: Config
    connection: Connection = field(default_factory=Connection)
    suffix: ConsumerSuffix = None
    allow_hidden: AllowHidden = False
    run_dir: RunDir = None
    verify: str = "quick"

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
        start = run.do("preflight", lambda meter: _started(options, place))
        work = RefreshSteps(options.connection, options.allow_hidden, run, place, start)
        work.require_same()
        run.do("sync", work.sync)
        applied = run.do("apply", work.apply)
        checked = run.do("check", work.check)
        work.clear()
        return {**work.report(), **applied, **checked, "run_dir": str(run_dir)}


def _started(options: RefreshOptions, place: TargetDatabase) -> Facts:
    return {**preflight(options, place), "started": time.time()}


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
    if backmdb.has_subentry(place.config, place.database):
        raise _refused(place, "sync_use_subentry keeps contextCSN in another entry", "Start slapd.")
    for one in glue.subordinates(place.config, place.database):
        raise _refused(place, f"the database of {one.suffix} is glued to it", "Start slapd.")
    if glue.is_subordinate(place.config, place.database):
        raise _refused(place, "it is glued to another one", "Start slapd.")
    found = syncrepl.of_database(place.config, place.database, options.connection.uri)
    narrow = found.narrowing(place.database.suffix) if found else ()
    if found and narrow:
        reason = "a partial replica is not refreshed offline"
        advice = "Start slapd: its own refresh brings the rest."
        facts = {"config": options.config_path, "rid": found.rid, "options": ", ".join(narrow)}
        raise PartialReplica(**facts, reason=reason, advice=advice)


def _refused(place: TargetDatabase, reason: str, advice: str) -> RefreshRefused:
    return RefreshRefused(path=place.directory, reason=reason, advice=advice)


def preflight(options: RefreshOptions, place: TargetDatabase) -> Facts:
    """What the database has reached, and whether the provider can be asked from there."""
    suffix, directory = place.database.suffix, place.directory
    try:
        known_to_core(place.config, place.database, directory)
    except IndexesUnknown as error:
        raise _refused(place, str(error.facts["reason"]), "Start slapd.") from error
    _require_fit(options, place)
    reached = contents.context_csns(directory, suffix)
    if not reached:
        raise NoContextCSN(where=directory, suffix=suffix, advice=_ANEW, commands=())
    with session(options.connection) as provider:
        base = provider.spelt(suffix)
        csns = moved.context_csns(provider, base) or provider.context_csns(base)
        _require_answerable(provider, base, csns, reached, place)
        attributes = subschema.everything(provider)
    held = contents.entry_count(directory)
    facts = {"base": base, "reached": reached, "context_csns": csns}
    return {**facts, "held": held, "attributes": attributes}


def _require_fit(options: RefreshOptions, place: TargetDatabase) -> None:
    """A sample of the entries stands as the configuration has it, in every index. Raises RefreshRefused, SchemaMissing,
    MadeOtherwise."""
    found = made_with.look(
        place.directory, place.config, place.database, Meter("look"), whole=False
    )
    found.require(place.data, place.config, _ANEW)
    if found.rebuild:
        where = ["-F" if place.config.is_directory else "-f", str(options.config_path)]
        # Of several that are named, slapindex may leave some out.
        named = found.rebuild if len(found.rebuild) == 1 else ()
        # -t: keys of other settings must not stay among the new ones.
        command = ["slapindex", "-t", *where, "-b", place.database.suffix, *named]
        reason = f"entries are missing in the index of {', '.join(found.rebuild)}, which was configured later"
        advice = f"Run {shlex.join(command)} as slapd's account, then the same command again; or start slapd."
        raise _refused(place, reason, advice)


def _require_answerable(
    provider: Session, base: str, csns: list[str], reached: list[str], place: TargetDatabase
) -> None:
    if not csn.is_covered_by(csn.by_server(reached), csn.by_server(csns)):
        reason = f"the provider ({', '.join(csns)}) is behind it ({', '.join(reached)})"
        raise _refused(place, reason, "Give the provider that it was filled from.")
    subentries = provider.offers_subentries(base)
    if subentries and provider.find(base, "(objectClass=*)", subentries=True):
        raise _refused(place, "the provider holds subentries (RFC 3672)", _ANEW)
