"""What an export of a server reads, and where to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import defaults
from loader.server.options import Connection
from loader.sources.narrowing import Narrowing


@dataclass(frozen=True)
class ExportOptions:
    """What to read, and where to. `jobs` in connections; `pieces` 0: as many as jobs, one of a small tree. `page` in
    entries, 0: only where a limit demands pages."""

    connection: Connection
    output: Path
    jobs: int = 2  # to each provider
    pieces: int = 0
    max_rate: int = 0  # entries a second; 0 is as fast as can be
    max_latency: float | None = None  # seconds that the server may take for a small question
    page: int = 0
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
