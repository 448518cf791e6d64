"""Output for monitoring systems: exit status of a Monitoring Plugin, and files for Prometheus' textfile collector."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from loader import plain
from loader.storage import files

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Status(IntEnum):
    """Exit status of a monitoring plugin."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Check(Struct, frozen=True):
    """The result of a check. `ditseed` verbs that are monitoring plugins print it."""

    status: Status

    def text(self) -> tuple[str, ...]:
        """Returns the lines that the plugin prints. The first line has the performance data."""
        raise NotImplementedError


class Finding(Check, frozen=True):
    """The result of the plugin `name`. `numbers`: performance data. `lines`: details, which few systems show."""

    name: str
    summary: str
    lines: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def text(self) -> tuple[str, ...]:
        """Replaces vertical bars: monitoring systems read the text after a vertical bar as performance data."""
        first, *more = (plain.printable(line.replace("|", "/")) for line in (self.summary, *self.lines))
        numbers = f" | {' '.join(self.numbers)}" if self.numbers else ""
        return (f"{self.name} {self.status.name} - {first}{numbers}", *more)


def write(metrics: Iterable[Metric], path: Path) -> None:
    """Atomically writes a file of metrics for the textfile collector of node_exporter."""
    from prometheus_client import CollectorRegistry, generate_latest  # imported here because the import is slow

    collected = tuple(metrics)

    class Metrics:
        def collect(self) -> Iterable[Metric]:
            return collected

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics())
    files.write_durably(path, generate_latest(registry))
