"""Sink: indexes of an existing database, made again by the native core, which writes their tables behind all
that is in the file and then the one page by which they count.

Another door to the part of loader._native that knows databases (see loader/sinks/mdb.py), in a process apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loader import _native, plain, units
from loader.errors import FULL, LoaderError, MapFull, MdbDamaged, NoSpace, NotProven
from loader.ldif import with_counters
from loader.mdb import isolated, meta
from loader.mdb.environment import alone
from loader.progress import Meter
from loader.sinks import apart, mdb
from loader.sinks.changes import Resources


@dataclass(frozen=True)
class Task:
    """What is to be done, in a form that goes to another process. Of `attributes` all indexes are made that `given` has
    for them; its `map_size` is how large the file may become."""

    directory: Path
    given: mdb.TargetSpec
    attributes: tuple[str, ...]
    means: Resources


@dataclass(frozen=True)
class Rebuilt:
    """entries: those that were read. tables: index table -> values in it."""

    entries: int
    tables: Mapping[str, int]


def rebuild(task: Task, meter: Meter) -> Rebuilt:
    """All of it or nothing, and durable, in an environment directory that no slapd has open.

    Raises NotProven, MapFull, NoSpace, MdbDamaged, TargetInUse.
    """
    with apart.started(_work, task, meter) as remote:
        answer = remote.listen()
        isolated.finish(remote.child, task.directory)
    return Rebuilt(answer["entries"], answer["tables"])


# --- in the process apart ------------------------------------------------------------------------


def _work(asked: str) -> dict[str, Any]:
    task: Task = apart.received(asked)
    database = mdb.database(task.given.target())
    with (
        apart.telling("indexes") as meter,
        with_counters(meter, str(task.directory)) as counters,
        meter.following(counters),
        alone(task.directory) as place,
    ):
        try:
            made = _native.reindex(
                str(meta.data_file(place)),
                database,
                counters,
                attributes=list(task.attributes),
                memory=task.means.memory,
                jobs=task.means.jobs,
                scratch=str(task.means.scratch),
            )
        except _native.NativeError as error:
            ours = _ours(error, task)
            if ours is None:
                raise  # counting() knows it
            raise ours from error
    return {"entries": made.entries, "tables": made.tables}


def _ours(error: _native.NativeError, task: Task) -> LoaderError | None:
    if error.code in ("build.unproven", "schema.definition", "build.too_many"):
        return NotProven(reason=error.message)
    if error.code == "build.map_full":
        return MapFull(path=task.directory, map_size=units.size(task.given.map_size))
    if error.code in ("build.damaged", "lmdb.damaged"):
        return MdbDamaged(path=task.directory, reason=error.message)
    if error.code in ("ldif.no_space", "lmdb.no_space"):
        return NoSpace(path=error.path or task.directory, lack=FULL)
    if error.errno is not None:
        where = Path(plain.with_operator_paths(error.path)) if error.path else task.directory
        return meta.system_error(error.errno, where)
    return None
