"""Seed a replica: entries from a live provider, an LDIF or an existing database go into the consumer's database
directory, with the contextCSN from which its own syncrepl then goes on.

`seed` reads as the list of steps; what differs between strategies stands in strategies/.
"""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loader import defaults, glue, indexes, syncrepl
from loader.config import Database
from loader.errors import GlueRefused, NoRun, UsageProblem
from loader.mdb.meta import DATA
from loader.operations import hidden_values, moved, replicas, stream_build
from loader.operations.build import STEPS as BUILD_STEPS
from loader.operations.build import BuildOptions, target_database
from loader.operations.build import plan as build_plan
from loader.operations.build import require as require_buildable
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.operations.export import ExportOptions, trial_plan
from loader.operations.publish import TargetDatabase
from loader.operations.shards import clear as clear_export
from loader.progress import Progress
from loader.run.catalogue import DoneStep, Facts, recorded
from loader.run.steps import Run, open_run
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.sources.location import is_stream
from loader.storage import files
from seeders.replica import claims, forecast, partial, preparing
from seeders.replica.partial import Partial
from seeders.replica.preparing import Admin

VERB = "replica seed"
RUN_DIR = ".ditseed-seed"  # in the database directory, so that publishing is a rename
_BOTH = (*EXPORT_STEPS, partial.STEP, *BUILD_STEPS)
STEPS = ("preflight", *stream_build.STEPS, *_BOTH, "copy", "stamp", "index")
STRATEGIES = ("search", "ldif", "clone")
_SOURCES = {
    "ldif": "LDIF files or an export directory",
    "clone": "a database directory",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SeedOptions:
    """`source` is --from: an LDIF, an export directory, or a database directory. `connection` is the provider."""

    strategy: str
    config_path: Path
    suffix: str | None = None
    connection: Connection | None = None
    source: tuple[Path, ...] = ()
    run_dir: Path | None = None
    replace: bool = False
    maxsize: int | str | None = None
    write_context: bool = False
    engine: str = defaults.ENGINES[0]
    jobs: int = 2
    pieces: int = 0
    page: int = 0
    verify: str = "quick"
    allow_hidden: bool = False
    keep_export: Path | None = None  # read into this directory first, and leave the export there
    admin: Admin | None = None  # --prepare-provider
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {
            "strategy": self.strategy,
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "source": [str(path.absolute()) for path in self.source],
            "provider": self.connection.identity() if self.connection else None,
            "write_context": self.write_context,
            "engine": self.engine,
            "maxsize": self.maxsize,
            **({"keep_export": str(self.keep_export.absolute())} if self.keep_export else {}),
            **({"replicas": [one.uri for one in self.replicas]} if self.replicas else {}),
        }


def _require_fitting(options: SeedOptions) -> None:
    """What the command line alone tells, before anybody is asked. Raises UsageProblem."""
    if options.strategy == "search":
        needs_provider(options)
    else:
        needs_source(options)


Strategy = Callable[[SeedOptions, Run, TargetDatabase], Facts]


def seed(
    options: SeedOptions,
    strategy: Strategy,
    progress: Progress,
    timeouts: Mapping[str, float],
    restart: bool = False,
) -> Facts:
    """Run or resume the seeding; the facts that its report shows. Once done, it does nothing."""
    _require_fitting(options)
    place = place_of(options)
    run_dir = run_dir_of(options.run_dir, place)
    wanted = partial_of(options, place)
    identity = {**options.identity(), **({"syncrepl": wanted.identity} if wanted else {})}
    anew = place.begins_anew(run_dir, VERB, identity, restart)
    with open_run(run_dir, VERB, identity, progress, timeouts, anew) as run:
        if anew:
            _clear(run.directory)
        if run.catalogue.found("publish") is None:
            place.require_free(run.catalogue.found("check"))
        run.do("preflight", lambda meter: _preflight(options, place))
        made = strategy(options, run, place)
        told = forecast.told(run.catalogue.found("preflight") or {}, made.get("entries"))
        return {**made, **told, "run_dir": str(run_dir), **run.told_before()}


def _preflight(options: SeedOptions, place: TargetDatabase) -> Facts:
    """With --prepare-provider the provider is made ready once nothing else stands in the way."""
    if options.admin is None:
        return preflight(options, place)
    preflight(options, place, foresee=False)
    wanted = partial_of(options, place)
    base = wanted.syncrepl.searchbase if wanted else place.database.suffix
    prepared = preparing.prepare(options.admin, base, _log_base(options, place))
    return {**preflight(options, place), "prepared": prepared}


def _log_base(options: SeedOptions, place: TargetDatabase) -> str | None:
    """The accesslog from which the consumer's syncrepl takes changes."""
    uri = options.connection.uri if options.connection else None
    found = syncrepl.of_database(place.config, place.database, uri)
    return found.log_base if found else None


def _clear(run_dir: Path) -> None:
    """What an abandoned run left, perhaps one of another strategy; --run-dir may hold other things too."""
    clear_export(run_dir)
    for name in ("export", "environment", "slices", "split"):
        files.remove_tree(run_dir / name)
    for scratch in run_dir.glob("sort-*"):
        files.remove_tree(scratch)
    for name in partial.FILES:
        (run_dir / name).unlink(missing_ok=True)


def place_of(options: SeedOptions) -> TargetDatabase:
    """Where the consumer's configuration wants its database."""
    return target_database(options.config_path, options.suffix, options.replace)


def run_dir_of(named: Path | None, place: TargetDatabase) -> Path:
    """--run-dir, or the one in the database directory."""
    return named.absolute() if named else place.directory / RUN_DIR


def partial_of(options: SeedOptions, place: TargetDatabase) -> Partial | None:
    """What the consumer's syncrepl makes a partial replica of; None: a whole one. Raises PartialReplica."""
    uri = options.connection.uri if options.connection else None
    return partial.of(place.config, place.database, options.strategy, uri, options.engine)


def preflight(options: SeedOptions, place: TargetDatabase, foresee: bool = True) -> Facts:
    """Cheap questions first: can the consumer's configuration be built for, and is it made for this; does the provider
    answer, hold this suffix, and show all of it? `foresee`: what will it send to the consumer then?"""
    for one in options.source:
        if not is_stream(one):
            files.require_readable(one)
    _require_consumer(options, place)
    if options.connection is None:
        forecast.without_provider()
        return {"suffix": place.database.suffix}
    wanted = partial_of(options, place)
    base = options.connection.base or place.database.suffix
    with session(options.connection) as provider:
        if wanted:
            base, csns = wanted.syncrepl.searchbase, wanted.look_at(provider)
        else:
            provider.read(base, ["1.1"])
            # The consumer may have a part of the provider's tree as its own suffix.
            csns = moved.context_csns(provider, base) or provider.context_csns(base)
        _require_shown(options, place, wanted, provider, base)
    told = [csns]
    for connection in options.replicas:
        with session(connection) as replica:
            replica.read(base, ["1.1"])
            told.append(moved.context_csns(replica, base))
            _require_shown(options, place, wanted, replica, base)
    csns = replicas.lowest(told)
    found = {"suffix": place.database.suffix, "provider": provider.uri, "context_csns": csns}
    if not foresee:
        return found
    claimed = claims.of_ldif(options.source) if options.strategy == "ldif" else csns
    asked = (options.connection, base, claimed, place.config, _log_base(options, place))
    return {**found, **forecast.forecast(*asked, wanted is not None)}


def _require_consumer(options: SeedOptions, place: TargetDatabase) -> None:
    """What tells before anybody is asked."""
    if options.strategy == "clone":
        _require_one(place)
    else:
        require_buildable(build_options(options), place)
    for one in options.source:
        if options.strategy == "ldif" and not options.allow_hidden:
            hidden_values.require_whole(one)
    for warning in _warnings(options, place):
        log.warning("%s: %s", options.config_path, warning)


def _require_shown(
    options: SeedOptions, place: TargetDatabase, wanted: Partial | None, server: Session, base: str
) -> None:
    if options.strategy == "search" and not options.allow_hidden:
        wants = wanted.narrowing().wants if wanted else None
        hidden_values.require_all_visible(server, base, wants, own=place.database.overlays)


def _require_one(place: TargetDatabase) -> None:
    """A clone is of one database, and nothing tells whether copies of several are of the same moment."""
    for one in glue.subordinates(place.config, place.database):
        reason = f"the database of {one.suffix} holds a part of the same tree, and a clone is of one database"
        advice = "Use --strategy search or ldif."
        raise GlueRefused(suffix=place.database.suffix, reason=reason, advice=advice)


def _warnings(options: SeedOptions, place: TargetDatabase) -> Iterator[str]:
    database, where = place.database, str(options.config_path)
    if not database.consumer:
        yield f"no syncrepl for {database.suffix}: the new replica will not follow the provider"
    yield from _weaknesses(database, where)
    for one in glue.subordinates(place.config, database):
        if one.backend == "mdb":
            yield from (f"{one.suffix}: {weakness}" for weakness in _weaknesses(one, where))


def _weaknesses(database: Database, where: str) -> Iterator[str]:
    tune = ["--config", where, "-b", database.suffix]
    missing = indexes.lacking_for_sync(indexes.parse(database.indexes))
    if missing:
        add = [word for index in missing for word in ("--add", index)]
        command = shlex.join(["ditseed", "tune", "indexes", *tune, *add, "--apply"])
        yield f"no index {' and '.join(missing)}, so syncrepl will be slow; with slapd stopped: {command}"
    if database.nosync:
        command = shlex.join(["ditseed", "tune", "sync", *tune, "--nosync", "off", "--apply"])
        yield (
            "nosync is on, so a crash of the host can lose or damage the database; with slapd stopped: "
            f"{command}"
        )


def needs_provider(options: SeedOptions) -> Connection:
    """The provider, for strategies that read it. The base defaults to the consumer's suffix."""
    if options.connection is None:
        raise UsageProblem(
            reason=f"--strategy {options.strategy} needs the provider: -H URI (and -D, -y)"
        )
    return options.connection


def needs_source(options: SeedOptions) -> tuple[Path, ...]:
    if not options.source:
        raise UsageProblem(
            reason=f"--strategy {options.strategy} needs --from: {_SOURCES[options.strategy]}"
        )
    return options.source


def plan(options: SeedOptions, progress: Progress) -> Facts:
    """What a seeding would do: every question that changes nothing, the number of entries among them."""
    _require_fitting(options)
    place = place_of(options)
    place.require_free()
    facts = preflight(options, place)
    wanted = partial_of(options, place)
    if options.strategy == "search":
        facts |= _plan_of_search(options, place, wanted, progress)
    elif options.strategy == "ldif" and not wanted:
        facts |= build_plan(build_options(options, *needs_source(options)), progress)
    elif options.strategy == "clone":
        facts["bytes"] = sum(files.allocated_bytes(path / DATA) for path in needs_source(options))
        files.require_space(place.directory, facts["bytes"])
    if wanted:
        facts["entries"] = "those that the consumer's syncrepl selects"
    where = {"directory": str(place.directory), "dry_run": "nothing was changed"}
    return {**facts, **forecast.told(facts), **where}


def _plan_of_search(
    options: SeedOptions, place: TargetDatabase, wanted: Partial | None, progress: Progress
) -> Facts:
    """How the provider would be read; it is asked whether its limits let all of that be read."""
    reading = reading_options(options, place, wanted, place.directory)
    with progress.step("plan") as meter:
        cut = trial_plan(reading, meter)
    counted = cut["expected"]
    entries = counted if counted is not None else "the provider does not tell"
    return {"entries": entries, "read_as": cut["how"]}


def status(run_dir: Path) -> tuple[list[DoneStep], bool]:
    """Finished steps of the seeding in `run_dir`, and whether it has ended."""
    with recorded(run_dir) as catalogue:
        if catalogue is None:
            raise NoRun(path=run_dir)
        return catalogue.steps(), catalogue.found("publish") is not None


def reading_options(
    options: SeedOptions, place: TargetDatabase, wanted: Partial | None, exported: Path
) -> ExportOptions:
    """How the provider is read, into `exported`."""
    first, *others = (
        dataclasses.replace(one, base=one.base or place.database.suffix)
        for one in (needs_provider(options), *options.replicas)
    )
    if wanted:
        first, *others = (wanted.provider(one) for one in (first, *others))
    return ExportOptions(
        first,
        exported,
        options.jobs,
        options.pieces,
        page=options.page,
        narrowing=wanted.narrowing() if wanted else None,
        # The preflight has looked at what the provider hides; an export that is kept tells others of it.
        looked=options.keep_export is None,
        replicas=tuple(others),
    )


def build_options(options: SeedOptions, *inputs: Path) -> BuildOptions:
    """The build part of a seeding."""
    return BuildOptions(
        inputs=inputs,
        config_path=options.config_path,
        suffix=options.suffix,
        replace=options.replace,
        maxsize=options.maxsize,
        write_context=options.write_context,
        engine=options.engine,
        verify=options.verify,
        seeding=True,
    )
