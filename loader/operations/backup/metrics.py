"""What `check` finds, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from loader.operations import textfile
from loader.operations.backup import repository
from loader.operations.backup.check import Check
from loader.operations.backup.manifest import Backup

_NAME = "ditseed_backup"
_Value = Callable[[Check, float], float | None]


def _latest(of: Callable[[Backup], float]) -> _Value:
    return lambda one, now: None if one.latest is None else float(of(one.latest))


def _since(age: float | None, now: float) -> float:
    """0: never, so that an alert on the time since then goes off."""
    return 0.0 if age is None else now - age


_GAUGES: Mapping[str, tuple[str, _Value]] = {
    "status": (
        "As `ditseed backup check` ends: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
        lambda one, now: float(one.status),
    ),
    "count": (
        "Backups that can be restored, as far as is known without reading their data.",
        lambda one, now: float(one.count),
    ),
    "last_timestamp_seconds": (
        "When the latest backup was made, as Unix time; 0: there is none, or which one it is is not known.",
        lambda one, now: _since(one.age, now),
    ),
    "last_stored_bytes": (
        "Bytes that the latest backup takes.",
        _latest(lambda backup: backup.stored_bytes),
    ),
    "last_data_bytes": (
        "Bytes of the database in the latest backup.",
        _latest(lambda backup: backup.data_bytes),
    ),
    "last_entries": (
        "Entries in the latest backup.",
        _latest(lambda backup: backup.entries),
    ),
    "last_duration_seconds": (
        "Seconds that copying the latest backup took.",
        _latest(lambda backup: backup.seconds),
    ),
    "verified_timestamp_seconds": (
        "When a backup was last verified and found good, as Unix time; 0: never.",
        lambda one, now: _since(one.verify_age, now),
    ),
    "drilled_timestamp_seconds": (
        "When a backup was last drilled and found good, as Unix time; 0: never.",
        lambda one, now: _since(one.drill_age, now),
    ),
}


def write(found: Mapping[str, Check], path: Path) -> None:
    """found: by suffix; "" where it is of all. Whole or not at all."""
    textfile.write(_families(found, repository.now().timestamp()), path)


def _families(found: Mapping[str, Check], now: float) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        f"{_NAME}_written_timestamp_seconds", "When this was found, as Unix time.", value=now
    )
    for name, (said, value) in _GAUGES.items():
        family = GaugeMetricFamily(f"{_NAME}_{name}", said, labels=["suffix"])
        for suffix, one in found.items():
            known = value(one, now)
            if known is not None:
                family.add_metric([suffix], known)
        yield family
