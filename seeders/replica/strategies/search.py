"""Strategy search: read the live provider side by side, build from what comes, claim the contextCSN of the start.

The native engine builds a whole replica while it reads. What else there is (slapadd, a partial replica, a glued tree,
the empty suffix, several providers, an export that is kept) is read into files first.
"""

from __future__ import annotations

from loader import glue
from loader.defaults import ENGINES
from loader.operations import empty_suffix, one_pass, sight
from loader.operations.build import build_steps
from loader.operations.export import export_steps
from loader.operations.publish import Place
from loader.run.catalogue import Facts
from loader.run.steps import Run
from loader.storage import files
from seeders.replica import partial
from seeders.replica.partial import Partial
from seeders.replica.seed import SeedOptions, build_options, partial_of, reading_options


def run(options: SeedOptions, run: Run, place: Place) -> Facts:
    wanted = partial_of(options, place)
    exported = options.keep_export or run.directory / "export"
    reading = reading_options(options, place, wanted, exported)
    if _is_one_pass(options, run, place, wanted):
        return one_pass.build(reading, build_options(options), run, place, options.allow_hidden)
    if run.catalogue.found("publish") is None:
        exported.mkdir(exist_ok=True)
        export_steps(reading, run)
        if not options.allow_hidden:
            sight.require_whole(exported)
    if wanted:
        csns = (run.catalogue.found("start") or {}).get("context_csns", [])
        built = partial.build(wanted, build_options(options, exported), run, place, csns)
    else:
        built = build_steps(build_options(options, exported), run, place)
    if not options.keep_export:
        files.remove_tree(exported)
    return built


def _is_one_pass(options: SeedOptions, run: Run, place: Place, wanted: Partial | None) -> bool:
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
