"""The output of an export, whatever it was read from: a directory of shards, made beside its place by a run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loader import manifest
from loader.errors import LoaderError, OutputNotEmpty
from loader.exports import RUN_DIR
from loader.manifest import Manifest
from loader.progress import Progress
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.storage import files

# In the run directory:
PARTS, ARRANGED = "parts", "arranged"


@contextmanager
def into(
    output: Path,
    identity: dict[str, object],
    progress: Progress,
    timeouts: dict[str, float],
    restart: bool,
) -> Iterator[Run]:
    """The run of an export into a directory, which is one or is to become one. Raises OutputNotEmpty,
    NotPermitted, ReadOnly."""
    require_output(output)
    run_dir = output / RUN_DIR
    made = not output.exists()
    try:
        with open_run(run_dir, "export", identity, progress, timeouts, restart) as run:
            yield run
    except LoaderError:
        # Refused before anything was read: nothing is worth keeping, and nothing shall have changed.
        if made and not any((run_dir / name).exists() for name in (PARTS, ARRANGED)):
            files.remove_tree(output)
        raise


def require_output(output: Path) -> None:
    """May an export be written, or go on, there? Raises OutputNotEmpty, NotPermitted, ReadOnly."""
    files.require_writable(output)
    if not (output / RUN_DIR).exists() and output.is_dir() and any(output.iterdir()):
        raise OutputNotEmpty(path=output, made_by="export")


def done_before(output: Path, run: Run, last: str = "shards") -> Manifest | None:
    """The manifest of a run that is through; `last` is its last step. Raises ManifestBroken when what it made is gone
    or has another size."""
    if run.catalogue.found(last) is None:
        return None
    known = manifest.require(output)
    manifest.require_there(known, output)
    run.progress.say("export: done before")
    return known


def move_shards(arranged: Path, output: Path, names: Sequence[str]) -> None:
    """Put finished files into their place. The manifest is not there meanwhile, nor what an earlier export left."""
    (output / manifest.FILE).unlink(missing_ok=True)
    for path in output.glob("[0-9]*.ldif*"):
        if path.name not in names:
            path.unlink()
    for name in names:
        if (arranged / name).exists():  # else it was moved before a kill
            (arranged / name).replace(output / name)  # the native core has it on the disk
    files.make_durable(output)
    killpoint("shards.middle")


def clear(run_dir: Path) -> None:
    """Remove what the steps of an export put into its run directory on their way."""
    for name in (PARTS, ARRANGED):
        files.remove_tree(run_dir / name)


def now() -> str:
    """As manifests have it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
