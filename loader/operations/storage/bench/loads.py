"""One load of an empty directory, timed until all of it is on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from loader import child
from loader.child import Child
from loader.operations import build as building
from loader.operations.build import BuildOptions
from loader.operations.storage.bench.results import Load
from loader.operations.storage.bench.tree import Tree
from loader.operations.storage.bench.trial import Trial
from loader.progress import Meter, Progress
from loader.storage import files


def by_slapadd(trial: Trial, tree: Tree, *, quick: bool, meter: Meter) -> Load:
    """`quick`: nosync, and no checks that -q leaves out. Raises ToolMissing, ToolFailed."""
    config = trial.configured(tree.entries)
    words = ["-q"] if quick else []
    command = trial.command("slapadd", *words, "-f", config, "-l", trial.inside(tree.path))

    def load() -> None:
        with Child(command) as running, meter.cancelling(running.kill):
            running.check()

    return _timed(trial.directory, tree.entries, load)


def by_ditseed(trial: Trial, tree: Tree) -> Load:
    """The whole of `ditseed build`: the configuration read, the database made, checked and put into place."""
    config = Path(trial.configured(tree.entries))
    options = BuildOptions(config, (tree.path,), target=trial.directory)

    def load() -> None:
        building.build(options, Progress("none"), {})

    return _timed(trial.directory, tree.entries, load)


def _timed(directory: Path, entries: int, load: Callable[[], None]) -> Load:
    began = time.monotonic()
    load()
    child.output(["sync", "--file-system", str(directory)])
    seconds = time.monotonic() - began
    found = [path for path in directory.rglob("*") if path.is_file()]
    apparent = sum(path.stat().st_size for path in found)
    return Load(entries, seconds, apparent, sum(map(files.allocated_bytes, found)))


def forget(directory: Path) -> None:
    """Have the kernel drop what it keeps of the files in memory."""
    for path in directory.iterdir():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
