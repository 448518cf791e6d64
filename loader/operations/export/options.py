"""What an export of a server reads, and where to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from loader import defaults
from loader.common_options import ExportLimits
from loader.server.options import Connection
from loader.sources.narrowing import Narrowing


@dataclass(frozen=True)
class ExportOptions(ExportLimits):
    """What to read, and where to."""

    connection: Connection
    output: Path
    jobs: int = field(default=2, kw_only=True)  # to each provider
    compress: str = defaults.COMPRESS
    narrowing: Narrowing | None = None  # for a partial replica: not all entries, not whole
    looked: bool = False  # the caller has seen what the server hides, and goes on
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree

    @property
    def providers(self) -> tuple[Connection, ...]:
        return (self.connection, *self.replicas)

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        more = {"replicas": [one.uri for one in self.replicas]} if self.replicas else {}
        return {
            **self.connection.identity(),
            "pieces": self.pieces,
            "compress": self.compress,
            **more,
        }
