"""Source: LDIF files, exports, and standard input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import exports
from loader.progress import Meter
from loader.sources import Inputs

STDIN = "-"


@dataclass(frozen=True)
class LdifFiles:
    """What an operator names: files, directories of them, exports, `-`."""

    given: tuple[Path, ...]

    def entries(self) -> int | None:
        """Raises ManifestBroken, UsageProblem."""
        return exports.entries(self.given)

    @contextmanager
    def reading(self, meter: Meter) -> Iterator[Inputs]:
        """Raises ManifestBroken after the body, as `exports.held`."""
        with exports.held(self.given, meter) as paths:
            yield [0 if str(path) == STDIN else path for path in paths]
