"""Source: LDIF files, exports, and standard input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import dn, exports, ldif
from loader.errors import UsageProblem
from loader.progress import Meter
from loader.sources import Inputs
from loader.sources.location import STDIN, is_stream, require_once
from loader.storage import files


@dataclass(frozen=True)
class LdifFiles:
    """What an operator names: files, directories of them, exports, `-`."""

    given: tuple[Path, ...]

    @property
    def streamed(self) -> bool:
        """Can some of it be read only once?"""
        return any(map(is_stream, self.given))

    def entries(self) -> int | None:
        """Raises ManifestBroken, UsageProblem."""
        return exports.entries(self.given)

    def paths(self) -> list[Path]:
        """In loading order."""
        return exports.files_of(self.given)

    def fingerprints(self) -> list[list[object]]:
        """Others than before if a file was changed."""
        return [_fingerprint(path) for path in self.paths()]

    def require_fitting(self, rejects: Path | None) -> None:
        """Raises UsageProblem if standard input is given twice, or rejects would overwrite an input."""
        require_once(map(str, self.given))
        there = [path for path in self.paths() if path.exists()] if rejects else []
        if rejects and rejects.exists() and any(map(rejects.samefile, there)):
            raise UsageProblem(reason=f"--rejects {rejects}: it is read, too")

    @contextmanager
    def reading(self, meter: Meter) -> Iterator[Inputs]:
        """Raises ManifestBroken after the body, as `exports.held`."""
        with exports.held(self.given, meter) as paths:
            yield [0 if str(path) == STDIN else path for path in paths]


def _fingerprint(path: Path) -> list[object]:
    if is_stream(path):
        return [str(path)]
    files.require_readable(path)
    status = path.stat()
    return [str(path.absolute()), status.st_size, status.st_mtime_ns]


# --- records ---------------------------------------------------------------------------------------------------------
#
# A few records out of much LDIF, by DN: for showing what differs.


Entry = dict[str, frozenset[bytes]]  # attribute description in lower case -> values
Entries = dict[str, Entry]  # dn.key(DN) -> entry


def find(source: bytes | Path, names: Sequence[str]) -> Entries:
    """The records of these DNs; of each the first."""
    return {dn.key(name): entry for name, entry in entries(source, names)}


def entries(source: bytes | Path, names: Sequence[str] | None = None, most: int = 0) -> list[tuple[str, Entry]]:
    """Of LDIF, or a file that may be compressed: the records of these DNs or all, at `most` so many. In order, with DNs
    as they are written."""
    if isinstance(source, bytes):
        found = ldif.records(source, "LDIF", names, most)
    else:
        with files.explained(source), source.open("rb") as file:
            found = ldif.records(file.fileno(), str(source), names, most)
    return [(name, _entry(attributes)) for name, attributes in found]


def _entry(attributes: Mapping[str, Sequence[bytes]]) -> Entry:
    found: dict[str, set[bytes]] = {}
    for name, values in attributes.items():
        found.setdefault(name.lower(), set()).update(values)
    return {name: frozenset(values) for name, values in found.items()}
