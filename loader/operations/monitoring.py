"""Two formats of monitoring systems: the states of a Monitoring Plugin, and Prometheus' text files for the textfile
collector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from loader.storage import files

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Status(IntEnum):
    """A plugin's exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# --- textfile --------------------------------------------------------------------------------------------------------
#
# Metrics in Prometheus' text format, for the textfile collector of node_exporter.


class _Collector:
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def write(metrics: Iterable[Metric], path: Path) -> None:
    """Whole or not at all, and readable for node_exporter's account."""
    from prometheus_client import CollectorRegistry, generate_latest  # takes long to import

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(tuple(metrics)))
    files.write_durably(path, generate_latest(registry))
