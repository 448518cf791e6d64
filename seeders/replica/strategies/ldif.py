"""Strategy ldif: build from an export directory or LDIF files.

The contextCSN must come from the LDIF: taken from the entries (-w) it is right only for one consistent snapshot, such
as a slapcat; in a search of a changing server a later change can be in the LDIF while an earlier one is not.
"""

from __future__ import annotations

from loader import exports
from loader.operations import empty_suffix
from loader.operations.build import build_steps
from loader.operations.publish import TargetDatabase
from loader.run.catalogue import Facts
from loader.run.steps import Run
from seeders.replica import partial
from seeders.replica.seed import SeedOptions, build_options, needs_source, partial_of


def run(options: SeedOptions, run: Run, place: TargetDatabase) -> Facts:
    sources = needs_source(options)
    wanted = partial_of(options, place)
    if wanted:
        return partial.build(wanted, build_options(options, *sources), run, place, None)
    if empty_suffix.is_empty(place.database.suffix):
        first = next(iter(exports.files_of(sources)))
        sources = empty_suffix.completed(sources, first, run.directory)
    return build_steps(build_options(options, *sources), run, place)
