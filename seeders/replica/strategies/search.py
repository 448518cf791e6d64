"""Strategy search: read the live provider in partitions, build from what came, claim the contextCSN of the start."""

from __future__ import annotations

import dataclasses

from loader.operations import sight
from loader.operations.build import build_steps
from loader.operations.export import ExportOptions, export_steps
from loader.operations.publish import Place
from loader.run.catalogue import Facts
from loader.run.steps import Run
from loader.storage import files
from seeders.replica import partial
from seeders.replica.seed import SeedOptions, build_options, needs_provider, partial_of


def run(options: SeedOptions, run: Run, place: Place) -> Facts:
    provider = needs_provider(options)
    wanted = partial_of(options, place)
    connection, *replicas = (
        dataclasses.replace(one, base=one.base or place.database.suffix)
        for one in (provider, *options.replicas)
    )
    if wanted:
        connection, *replicas = (wanted.provider(one) for one in (connection, *replicas))
    exported = run.directory / "export"
    if run.catalogue.found("publish") is None:
        exported.mkdir(exist_ok=True)
        export_steps(
            ExportOptions(
                connection,
                exported,
                options.jobs,
                options.pieces,
                page=options.page,
                narrowing=wanted.narrowing() if wanted else None,
                replicas=tuple(replicas),
            ),
            run,
        )
        if not options.allow_hidden:
            sight.require_whole(exported)
    if wanted:
        csns = (run.catalogue.found("start") or {}).get("context_csns", [])
        built = partial.build(wanted, build_options(options, exported), run, place, csns)
    else:
        built = build_steps(build_options(options, exported), run, place)
    files.remove_tree(exported)
    return built
