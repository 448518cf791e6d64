"""Source: LDIF files, exports, and standard input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import exports
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
