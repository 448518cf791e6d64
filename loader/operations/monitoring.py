"""Output for monitoring systems: exit status of a Monitoring Plugin, and files for Prometheus' textfile collector."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

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
    """The result of a monitoring plugin."""

    status: Status

    def text(self) -> tuple[str, ...]:
        """Returns the lines of the plugin's output. The first line has the performance data."""
        raise NotImplementedError


def write(metrics: Iterable[Metric], path: Path) -> None:
    """Atomically writes a file of metrics for the textfile collector of node_exporter."""
    from prometheus_client import CollectorRegistry, generate_latest  # takes long to import

    collected = tuple(metrics)

    class Metrics:
        def collect(self) -> Iterable[Metric]:
            return collected

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Metrics())
    files.write_durably(path, generate_latest(registry))
