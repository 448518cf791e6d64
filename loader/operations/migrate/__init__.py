"""A database made again for another slapd: of another version, with another LMDB, or of another configuration.

Steps: look, config, load, check, compare, publish. The entries go from the pages of the old database straight to the
native core, which makes the new one as the new slapd's slapadd would; no LDIF is in between.
"""

from __future__ import annotations

from pathlib import Path

from loader.mdb import meta
from loader.mdb.contents import DatabaseSummary
from loader.operations.build import proven
from loader.operations.build.made_for import made_for
from loader.operations.migrate import planning
from loader.operations.migrate.options import MigrateOptions, place_of, source_of
from loader.operations.migrate.steps import AGAIN, MADE_FOR, SOURCE, MigrateSteps, state_of
from loader.operations.publish import TargetDatabase
from loader.operations.target import existing
from loader.progress import Meter, Progress
from loader.run.log import Facts, recorded
from loader.run.steps import Run, open_run
from loader.server import acceptance, version

__all__ = ["AGAIN", "STEPS", "MigrateOptions", "migrate", "plan"]

STEPS = ("look", "config", "load", "check", "compare", "publish")
RUN_DIR = ".ditseed-migrate"  # in the target: the same file system, so that publishing is a rename


def migrate(
    options: MigrateOptions,
    progress: Progress,
    timeouts: dict[str, float],
    restart: bool = False,
) -> Facts:
    """Run or resume a migration; what its steps found."""
    source = source_of(options)
    with existing(options.target.absolute(), options.source):
        return _migrate(options, source, progress, timeouts, restart)


def _migrate(
    options: MigrateOptions,
    source: DatabaseSummary,
    progress: Progress,
    timeouts: dict[str, float],
    restart: bool,
) -> Facts:
    place = place_of(options, source)
    run_dir, identity = place.directory / RUN_DIR, options.identity()
    stale = _is_out_of_date(options, place, run_dir)
    anew = place.begins_anew(run_dir, "migrate", identity, restart or stale)
    with open_run(run_dir, "migrate", identity, progress, timeouts, anew) as run:
        return {**_steps(options, run, place, source), **run.told_before()}


def _is_out_of_date(options: MigrateOptions, place: TargetDatabase, run_dir: Path) -> bool:
    """Was the source written to, or the new slapd or its configuration changed, since the run there read the source?
    Then what it made is of no use, published or not."""
    with recorded(run_dir) as catalogue:
        loaded = catalogue.found("load") if catalogue else None
    if loaded is None:
        return False
    made = made_for(place.config, place.database, options.building(place))
    now = state_of(options.source), made
    return now != (loaded[SOURCE], loaded[MADE_FOR])


def _steps(
    options: MigrateOptions, run: Run, place: TargetDatabase, source: DatabaseSummary
) -> Facts:
    if run.catalogue.found("publish") is None:
        place.require_free(run.catalogue.found("check"))
    work = MigrateSteps(options, run, place)
    looked = run.do("look", lambda meter: look(options, source))
    run.do("config", work.building.config)
    proven.require_numbers(source.entries, work.build_options, str(options.source))
    if run.catalogue.found("load") is None:
        planning.require_room(options, place, Meter("sample"))
    loaded = run.do("load", work.load, total=source.entries)
    checked = run.do("check", lambda meter: work.building.check(meter, loaded))
    compared = run.do("compare", lambda meter: work.compare(meter, loaded), total=loaded["entries"])
    published = run.do("publish", lambda meter: work.building.publish(loaded, checked))
    seconds = sum(step.seconds for step in run.catalogue.steps())
    rate = round(loaded["entries"] / seconds)
    found = {**loaded, **looked, **compared, **published}
    return {**found, "seconds": round(seconds, 3), "rate": rate}


def look(options: MigrateOptions, source: DatabaseSummary) -> Facts:
    """What it is, and what it is going to be."""
    release = version.release()
    return {
        "source": str(options.source),
        "suffix": ", ".join(source.suffixes),
        "format_before": meta.read_meta(options.source).format,
        "format": version.lmdb_format(),
        "slapd": ".".join(map(str, release)) if release else None,
    }


def plan(options: MigrateOptions, progress: Progress) -> Facts:
    """What `migrate` would do; `accepted` is false where it would not begin. Nothing is written but in a temporary
    directory; a missing TARGET exists meanwhile, because slapd's tools refuse a configuration that names it."""
    source = source_of(options)
    with existing(options.target.absolute(), options.source):
        return _plan(options, source, progress)


def _plan(options: MigrateOptions, source: DatabaseSummary, progress: Progress) -> Facts:
    told = acceptance.slaptest(options.config_path)
    facts: Facts = {
        **look(options, source),
        "directory": str(options.target),
        "entries": source.entries,
        "slaptest": told.lines,
        "accepted": told.accepted,
        "problems": [],
        "dry_run": "nothing was written",
    }
    if told.accepted:
        facts |= planning.plan(options, place_of(options, source), source, progress)
    return facts
