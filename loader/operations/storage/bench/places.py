"""The directories that are measured: what they are on, and what they are called in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loader.errors import UsageProblem
from loader.storage import files, held, survey
from loader.storage.survey import Facts


class Place(msgspec.Struct, frozen=True):
    """`kind`: of the file system. `layout`: of its logical volume (linear, striped), None where it is on none."""

    name: str
    directory: Path
    kind: str
    layout: str | None


def of(directories: Sequence[Path]) -> tuple[Place, ...]:
    """Named by their file systems; by mount point, too, where several have the same kind.

    Raises NoSuchPath, NotPermitted, ReadOnly, DirectoryUnsafe, UsageProblem.
    """
    if len(set(map(Path.absolute, directories))) < len(directories):
        raise UsageProblem(reason="a directory is given twice")
    found = [(path.absolute(), _looked_at(path)) for path in directories]
    kinds = Counter(_kind(facts) for _, facts in found)
    targets = Counter((_kind(facts), facts.mount.target) for _, facts in found)
    places = []
    for path, facts in found:
        name = _kind(facts)
        if kinds[name] > 1:
            alone = targets[name, facts.mount.target] == 1
            name = f"{name} on {facts.mount.target if alone else path}"
        places.append(Place(name, path, facts.mount.kind, _layout(facts)))
    return tuple(places)


def _looked_at(path: Path) -> Facts:
    with files.explained(path):
        if not path.is_dir():
            path.stat()
            raise UsageProblem(reason=f"{path} is not a directory")
        with held.opened(path) as opened:
            held.require_private(opened.status, path)
    files.require_writable(path)
    return survey.of(path)


def _kind(facts: Facts) -> str:
    layout = _layout(facts)
    return f"{facts.mount.kind}, {layout}" if layout else facts.mount.kind


def _layout(facts: Facts) -> str | None:
    if facts.volume is None:
        return None
    return "+".join(dict.fromkeys(one.kind for one in facts.volume.segments))


def made(name: str, kind: str, directory: Path) -> Place:
    """A file system that was made for this."""
    return Place(name, directory, kind, None)
