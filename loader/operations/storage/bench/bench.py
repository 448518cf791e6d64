"""A bench: what is needed is looked for first, then each directory is measured, one after the other."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from pathlib import Path

from loader.operations.storage.bench import loads, measuring, places
from loader.operations.storage.bench.installation import Installation
from loader.operations.storage.bench.measuring import Measuring
from loader.operations.storage.bench.results import Report, Wishes
from loader.operations.storage.bench.trial import Trial
from loader.progress import Progress
from loader.sources.dit import TreeSpec
from loader.storage import files, temporary

_PER_ENTRY = 8192  # bytes that a load needs at most, beside what slapadd leaves as holes


def bench(
    directories: Sequence[Path], recipe: TreeSpec, wishes: Wishes, progress: Progress
) -> Report:
    """Raises UsageProblem, ToolMissing, NoSpace, DirectoryUnsafe and others before anything is measured."""
    began = time.time()
    installation = Installation()
    version = installation.version()
    found = places.of(directories)
    for one in found:
        files.require_space(one.directory, wishes.entries * _PER_ENTRY + wishes.fio_size)
    with temporary.directory("bench") as work:
        given = measuring.material(recipe, wishes, work, progress)
        with progress.step("try slapadd") as meter, temporary.directory("bench", work) as tried:
            trial = Trial(installation, "mdb", tried, work)
            loads.by_slapadd(trial, given.part or given.whole, quick=True, meter=meter)
        measured = Measuring(installation, version, wishes, given, work, progress)
        rows = [measured.row(one, "mdb") for one in found]
    host = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Report(began, host, wishes, tuple(rows))
