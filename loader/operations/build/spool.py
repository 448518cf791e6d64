"""Streams put into files, for an engine that reads its input more than once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loader import ldif, standard, units
from loader.errors import EmptyInput
from loader.operations.build.options import BuildOptions
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.sources.location import STDIN, is_stream
from loader.storage import files

STEP = "spool"


def spooled(options: BuildOptions, run: Run) -> BuildOptions:
    """The same, with files in the place of streams: packed, mode 0600, in the run directory. They stay until `remove`,
    so that what is refused can be looked up."""
    if not options.files.streamed:
        return options
    made = run.do(STEP, lambda meter: _spool(options, run, meter))
    inputs = (
        _home(run) / Path(text).name if is_stream(given) else given
        for text, given in zip(made["inputs"], options.inputs, strict=True)
    )
    return dataclasses.replace(options, inputs=tuple(inputs))


def remove(run: Run) -> None:
    """They are loaded."""
    files.remove_tree(_home(run))


def _home(run: Run) -> Path:
    return run.directory / STEP


def _spool(options: BuildOptions, run: Run, meter: Meter) -> Facts:
    home = _home(run)
    files.remove_tree(home)
    home.mkdir(mode=0o700)
    free = units.size(files.free_bytes(home))
    run.progress.say(
        f"{STEP}: what comes is kept packed in {home} until it is loaded ({free} free)"
    )
    try:
        inputs = [
            _kept(given, home / f"{number}.ldif.zst", meter) if is_stream(given) else given
            for number, given in enumerate(options.inputs, 1)
        ]
    except BaseException:
        files.remove_tree(home)
        raise
    killpoint("spool.middle")
    return {"inputs": [str(path) for path in inputs]}


def _kept(stream: Path, path: Path, meter: Meter) -> Path:
    """Lines are counted as they stand in `path`, where comments are left out and long lines are whole."""
    name = "standard input" if str(stream) == STDIN else str(stream)
    with _opened(stream) as descriptor:
        made = ldif.shard(descriptor, path, (), meter, name)
    if not made.entries:
        raise EmptyInput(path=name)
    return path


@contextmanager
def _opened(stream: Path) -> Iterator[int]:
    if str(stream) == STDIN:
        yield standard.input("the LDIF")
        return
    with files.explained(stream), stream.open("rb", buffering=0) as file:
        yield file.fileno()
