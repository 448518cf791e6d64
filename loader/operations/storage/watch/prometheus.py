"""The state of a watch, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from loader.operations import monitoring
from loader.operations.storage.watch.verdict import LayerState, State

_NAME = "ditseed_storage_watch"
_GAUGES = {
    "last": "Time of the last read.",
    "davg": "Mean time of the last reads.",
    "dstd_dev": "Standard deviation of the times of the last reads.",
    "emin": "Least time, released exponentially.",
    "emax": "Largest time, released exponentially.",
}
_QUANTILES = {"p50": "0.5", "p99": "0.99", "p999": "0.999"}
_COUNTERS = {
    "reads": "Reads that were measured.",
    "unmeasured": "Reads that failed or came from a cache.",
    "missed": "Rounds that passed during a read.",
    "failed": "Reads that failed, or could not be tried on a device that is dead.",
}


class _Families:
    def __init__(self, state: State) -> None:
        self._state = state

    def all(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            f"{_NAME}_written_timestamp_seconds", "When the watch told this, as Unix time.", value=self._state.written
        )
        yield from self._figures()
        yield from self._counters()
        yield self._added()
        yield self._in_flight()

    def _measured(self) -> Iterator[LayerState]:
        return (one for one in self._state.rows if one.figures is not None)

    def _figures(self) -> Iterator[Metric]:
        for name, said in _GAUGES.items():
            family = GaugeMetricFamily(f"{_NAME}_{name}_seconds", said, labels=["layer"])
            for one in self._measured():
                family.add_metric([one.name], getattr(one.figures, name))
            yield family
        labels = ["layer", "quantile"]
        family = GaugeMetricFamily(f"{_NAME}_quantile_seconds", "Of all reads.", labels=labels)
        for one in self._measured():
            for name, share in _QUANTILES.items():
                family.add_metric([one.name, share], getattr(one.figures, name))
        yield family

    def _counters(self) -> Iterator[Metric]:
        for name, said in _COUNTERS.items():
            family = CounterMetricFamily(f"{_NAME}_{name}", said, labels=["layer"])
            for one in self._state.rows:
                family.add_metric([one.name], getattr(one, name))
            yield family

    def _added(self) -> Metric:
        said = "What a layer adds to those below it, as the median of the differences."
        family = GaugeMetricFamily(f"{_NAME}_added_seconds", said, labels=["layer"])
        upper = {one.name for one in self._state.layers if one.on}
        for one in self._state.verdict:
            if one.seconds is not None and one.layer in upper:
                family.add_metric([one.layer], one.seconds)
        return family

    def _in_flight(self) -> Metric:
        said = "For how long the read has been under way, 0 if none is."
        family = GaugeMetricFamily(f"{_NAME}_in_flight_seconds", said, labels=["layer"])
        for one in self._state.rows:
            since = one.in_flight_since
            family.add_metric([one.name], 0.0 if since is None else self._state.written - since)
        return family


def write_metrics(state: State, path: Path) -> None:
    """Whole or not at all."""
    monitoring.write(_Families(state).all(), path)
