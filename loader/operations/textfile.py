"""Metrics in Prometheus' text format, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from loader.storage import files


class _Collector:
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def write(metrics: Iterable[Metric], path: Path) -> None:
    """Whole or not at all, and readable for node_exporter's account."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(tuple(metrics)))
    files.write_durably(path, generate_latest(registry))
