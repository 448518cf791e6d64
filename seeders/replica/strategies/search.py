"""Strategy search: read the live provider side by side, build from what comes, claim the contextCSN of the start.

The native engine builds a whole replica while it reads. What else there is (slapadd, a partial replica, a glued tree,
the empty suffix, several providers, an export that is kept) is read into files first.
"""

from __future__ import annotations

from loader import glue
from loader.defaults import ENGINES
from loader.operations import empty_suffix, hidden_values, stream_build
from loader.operations.build import build_steps
from loader.operations.export import export_steps
from loader.operations.publish import TargetDatabase
from loader.run.catalogue import Facts
from loader.run.steps import Run
from loader.storage import files
from seeders.replica import partial
from seeders.replica.partial import Partial
from seeders.replica.seed import SeedOptions, build_options, partial_of, reading_options


def run(options: SeedOptions, run: Run, place: TargetDatabase) -> Facts:
    wanted = partial_of(options, place)
    exported = options.keep_export or run.directory / "export"
    reading = reading_options(options, place, wanted, exported)
    if _is_stream_build(options, run, place, wanted):
        return stream_build.build(reading, build_options(options), run, place, options.allow_hidden)
    if run.catalogue.found("publish") is None:
        exported.mkdir(exist_ok=True)
        export_steps(reading, run)
        if not options.allow_hidden:
            hidden_values.require_whole(exported)
    if wanted:
        csns = (run.catalogue.found("start") or {}).get("context_csns", [])
        built = partial.build(wanted, build_options(options, exported), run, place, csns)
    else:
        built = build_steps(build_options(options, exported), run, place)
    if not options.keep_export:
        files.remove_tree(exported)
    return built


def _is_stream_build(
    options: SeedOptions, run: Run, place: TargetDatabase, wanted: Partial | None
) -> bool:
    glued = any(one.backend == "mdb" for one in glue.subordinates(place.config, place.database))
    return (
        options.engine == ENGINES[0]
        and options.keep_export is None
        and not options.replicas
        and wanted is None
        and not glued
        and not empty_suffix.is_empty(place.database.suffix)
        and run.catalogue.found("read") is None  # a run that an older ditseed began
    )
