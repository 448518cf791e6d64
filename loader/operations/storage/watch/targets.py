"""What is timed: the layers, and beside them what a slow system shows to programs, a probe for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from loader.errors import UsageProblem
from loader.operations.storage.watch.layers import Layer
from loader.operations.storage.watch.searching import Search
from loader.server.options import Connection
from loader.storage import direct
from loader.storage.durable_write import Writer
from loader.storage.file_lock import FileLock
from loader.storage.timed import Timed
from loader.storage.wakeup import WakeUp

PROBES = ("flock", "write", "ldap")  # that are asked for
WAKE_UP = "wake-up"
LIMIT = 3.0  # seconds: what takes longer has failed for whoever waits for it


class Target(msgspec.Struct, frozen=True):
    """`limit`: seconds after which it counts as failed, None where a slow one is only slow."""

    layer: Layer
    open: Callable[[], Timed]
    limit: float | None = None


def of(layer: Layer) -> Target:
    return Target(layer, lambda: direct.opened(Path(layer.path)))


def beside(
    names: Sequence[str], layers: Sequence[Layer], place: Path | None, connection: Connection
) -> tuple[Target, ...]:
    """Those of `names`, and how late the processor is. `place`: the path that is watched; without one, files are made
    where the first layer is that is a file or a directory. Raises UsageProblem."""
    made = {
        "flock": lambda: _in_files("flock in", FileLock, layers, place),
        "write": lambda: _in_files("write in", Writer, layers, place),
        "ldap": lambda: _search(connection),
    }
    found = [made[name]() for name in PROBES if name in names]
    found.append(Target(Layer(WAKE_UP, ""), WakeUp))
    taken = {one.name for one in layers} & {one.layer.name for one in found}
    if taken:
        raise UsageProblem(reason=f"--layer: {taken.pop()} is the name of a probe")
    return tuple(found)


def _in_files(
    name: str, kind: Callable[[Path], Timed], layers: Sequence[Layer], place: Path | None
) -> Target:
    paths = [place] if place else [Path(one.path) for one in layers]
    found = next((one for one in paths if one.is_dir() or one.is_file()), None)
    if found is None:
        reason = f"--probe {name.split()[0]} needs a directory: give PATH, or a layer that is one"
        raise UsageProblem(reason=reason)
    directory = found if found.is_dir() else found.parent
    layer = Layer(f"{name} {directory}", str(directory))
    return Target(layer, lambda: kind(directory), LIMIT)


def _search(connection: Connection) -> Target:
    base = connection.base or ""
    where = connection.uri or "the server of ldap.conf"
    name = f"search of {base or 'the root DSE'}"
    return Target(Layer(name, where), lambda: Search(connection, base), LIMIT)
