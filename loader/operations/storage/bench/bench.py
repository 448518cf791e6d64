"""A bench: what is needed is looked for first, then each directory is measured, one after the other."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from loader import units
from loader.errors import UsageProblem
from loader.operations.storage.bench import measuring, places
from loader.operations.storage.bench.measuring import SOCKET, Measuring, Trial
from loader.operations.storage.bench.places import Installation, Place
from loader.operations.storage.bench.results import Report, Row, Targets, Wishes
from loader.progress import Progress
from loader.sources.dit import TreeSpec
from loader.storage import files, mounts, temporary

_PER_ENTRY = 4096  # bytes that a database of it needs at most, on the disk
_REST = 64 << 20  # of the file system itself
_LONGEST = 107  # bytes of a socket's name
_HERE = "mdb"  # the backend that ditseed writes, too


def bench(targets: Targets, recipe: TreeSpec, wishes: Wishes, progress: Progress) -> Report:
    """Raises UsageProblem, ToolMissing, NoSpace, NotPermitted, DirectoryUnsafe and others, before anything is measured;
    ToolFailed where a tool fails."""
    began = time.time()
    room = wishes.entries * _PER_ENTRY + wishes.fio_size + _REST
    installations = _installations(targets)
    versions = [one.version() for one, _ in installations]
    given = places.of(targets.directories)
    _require_volumes(targets, room)
    if targets.kinds or targets.root:
        mounts.enter()
    with ExitStack() as stack:
        work = stack.enter_context(temporary.directory("bench"))
        _require_short(work)
        images = stack.enter_context(temporary.directory("bench", targets.tmp))
        volumes = places.volumes_made(targets.kinds, targets.volume_size, images, progress)
        found = (*given, *stack.enter_context(volumes))
        for place in found:
            files.require_space(place.directory, room)
        material = measuring.material(recipe, wishes, work, progress)
        measured = []
        for (one, backends), version in zip(installations, versions, strict=True):
            stack.enter_context(one.entered(work))
            measuring_it = Measuring(one, version, wishes, material, work, progress)
            _try(measuring_it, backends)
            measured.append((measuring_it, backends))
        rows = tuple(row for place in found for row in _rows(place, measured))
    return Report(began, f"{platform.system()} {platform.release()}", wishes, rows)


def _installations(targets: Targets) -> list[tuple[Installation, Sequence[str]]]:
    found: list[tuple[Installation, Sequence[str]]] = [(Installation(), (_HERE,))]
    if targets.root is not None:
        other = Installation(targets.root.absolute())
        other.require()
        found.append((other, targets.backends))
    return found


def _require_short(work: Path) -> None:
    """slapd crashes on a longer name of a socket than the system permits (sun_path of unix(7))."""
    if len(bytes(work / SOCKET)) > _LONGEST:
        raise UsageProblem(reason=f"TMPDIR: {work} is too long for a socket in it")


def _require_volumes(targets: Targets, room: int) -> None:
    places.require(targets.kinds)
    if not targets.kinds:
        return
    if targets.volume_size < room:
        told = f"{units.size(room)} are needed for so many entries"
        raise UsageProblem(reason=f"--volume-size {units.size(targets.volume_size)}: {told}")
    files.require_space(targets.tmp or Path(tempfile.gettempdir()), len(targets.kinds) * room)


def _try(measuring_it: Measuring, backends: Sequence[str]) -> None:
    """What the configuration lacks shall be found before the measuring, and the programs be in memory."""
    given = measuring_it.given.part or measuring_it.given.whole
    for backend in backends:
        name = f"try back-{backend} {measuring_it.version}"
        with (
            temporary.directory("bench", measuring_it.work) as tried,
            measuring_it.installation.seeing(tried),
            measuring_it.progress.step(name) as meter,
        ):
            trial = Trial(measuring_it.installation, backend, tried, measuring_it.work)
            measuring.by_slapadd(trial, given, quick=True, meter=meter)


def _rows(place: Place, measured: Sequence[tuple[Measuring, Sequence[str]]]) -> Iterator[Row]:
    for one, backends in measured:
        for backend in backends:
            yield one.row(place, backend)
