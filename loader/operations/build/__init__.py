"""Builds a database from LDIF offline, beside the present database. Publishes it once it is complete and checked.

The steps are in the engine's module (native.py, slapadd.py). `replica seed` and `restore` also call `build_steps`.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from loader import backmdb
from loader.errors import UsageProblem
from loader.operations.build import glued, native, slapadd
from loader.operations.build.native import made_for
from loader.operations.build.steps import BuildOptions, Engine
from loader.operations.publish import TargetDatabase
from loader.progress import Progress
from loader.run.log import Report
from loader.run.steps import Run, open_run
from loader.server import configuration
from loader.storage import files

__all__ = ["STEPS", "BuildOptions", "build", "build_steps", "plan", "require", "target_database"]

_ENGINES: dict[str, Engine] = {"native": native, "slapadd": slapadd}
STEPS = tuple(dict.fromkeys(glued.STEPS + native.STEPS + slapadd.STEPS))
RUN_DIR = ".ditseed-build"  # in the database directory, so that publishing is a rename within one file system


def build(options: BuildOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False) -> Report:
    """Runs or resumes a build. Returns the facts of its steps."""
    options.require_fitting()
    place = target_database(options.config_path, options.suffix, options.replace, options.target)
    options = options.below(place.database.suffix)
    identity = {**options.identity(), "configuration": made_for(place.config, place.database, options)}
    run_dir = place.directory / RUN_DIR
    # A run that reads a stream starts over, because the stream may have other content now.
    anew = place.begins_anew(run_dir, "build", identity, restart or options.files.streamed)
    with open_run(run_dir, "build", identity, progress, timeouts, anew) as run:
        return {**build_steps(options, run, place), **run.done_before()}


def target_database(config_path: Path, suffix: str | None, replace: bool, target: Path | None = None) -> TargetDatabase:
    """Returns the configured database as a build target. `target` replaces the configured directory."""
    config = configuration.read(config_path)
    database = config.database(suffix)
    if target is not None:
        database = structs.replace(database, directory=target.absolute())
    if database.directory is None:
        raise UsageProblem(reason=f"{config_path}: the database of {database.suffix} has no directory")
    backmdb.require_supported(config, database)
    return TargetDatabase(config, database, database.directory, replace)


def build_steps(options: BuildOptions, run: Run, place: TargetDatabase) -> Report:
    """Runs the steps of a build within a run that may have other steps. Returns the report."""
    options.require_fitting()
    place.require_still_free(run)
    engine = _ENGINES[options.engine]
    is_glued = bool(options.subordinates(place))
    built = glued.build(options, run, place, engine) if is_glued else engine.prepared(options, run, place)()
    seconds = built.seconds + sum(step.seconds for step in run.catalogue.steps() if step.name in STEPS)
    return {**built.report(), "seconds": round(seconds, 3), "rate": round(built.entries / seconds)}


def require(options: BuildOptions, place: TargetDatabase) -> None:
    """Makes all checks that do not need the input. Raises UsageProblem, NotProven, GlueRefused, TargetNotEmpty."""
    options.require_fitting()
    engine = _ENGINES[options.engine]
    if options.subordinates(place):
        glued.require(options, place, engine)
    else:
        engine.require(options, place)


def plan(options: BuildOptions, progress: Progress) -> Report:
    """Returns what a build would do. Makes all checks of a build that do not write into the database directory."""
    options.require_fitting(dry=True)
    place = target_database(options.config_path, options.suffix, options.replace, options.target)
    place.require_free()
    options = options.below(place.database.suffix)
    with (
        files.temporary_directory("plan", configuration.tools_tmpdir()) as scratch,
        open_run(Path(scratch), "plan", {}, progress) as run,
    ):
        if options.engine == "native":
            native.require_numbers(options.source.entries(), options)
            run.do("config", native.NativeSteps(options, run, place).config)
        if options.subordinates(place):
            facts = glued.plan(options, run, place, _ENGINES[options.engine])
        else:
            facts = slapadd.plan(options, run, place)
    return {**facts, "directory": str(place.directory)}
