"""Is there a backup, whole and young enough? In the terms of the Monitoring Plugins guidelines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import IntRange

from loader import dn, plain, units
from loader.declared import Duration, Share
from loader.errors import LoaderError, of_system
from loader.operations.backup import records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Drill, Proofs, Verification
from loader.operations.backup.repository import Where
from loader.operations.monitoring import Status

SHRINK = 0.5
_BEFORE = 7  # backups that the latest is compared with


@dataclass(frozen=True)
class Limits:
    """Ages in seconds. Fewer than `min_count` is a warning, and so is a verification or drill that is older than its
    limit; None or 0: no limit. shrink: the share of the entries that the latest may lack of those before it."""

    max_age: Annotated[
        float, "--max-age TIME", Duration(), {"default": "26h"}, "CRITICAL if the latest backup is older: 26h, 90m."
    ] = 26 * 3600.0
    min_count: Annotated[int, "--min-count N", IntRange(0), "WARNING if there are fewer backups."] = 1
    verify_age: Annotated[
        float | None,
        "--max-verify-age TIME",
        Duration(),
        "WARNING if no backup was verified for longer: 8d (default: no limit).",
    ] = None
    drill_age: Annotated[
        float | None,
        "--max-drill-age TIME",
        Duration(),
        "WARNING if no backup was drilled for longer: 35d (default: no limit).",
    ] = None
    shrink: Annotated[
        float,
        "--max-shrink SHARE",
        Share(),
        {"default": f"{SHRINK:.0%}"},
        "WARNING if the latest backup has so many fewer entries than those before it (the median of seven).",
    ] = SHRINK


@dataclass(frozen=True)
class Check:
    """`latest` is None where there is none; `members`: with the others of its set. `count`: those that can be restored,
    a set as one. Ages in seconds: of the latest, and of the last verification and drill that went well, of any backup;
    None: never."""

    status: Status
    reason: str
    count: int
    age: float | None
    latest: Backup | None
    limits: Limits
    verify_age: float | None = None
    drill_age: float | None = None
    members: tuple[Backup, ...] = ()

    def line(self) -> str:
        """`BACKUP OK - ... | age=...`."""
        numbers = [f"count={self.count};{self.limits.min_count}:"]
        if self.age is not None and self.latest is not None:
            numbers.insert(0, f"age={self.age:.0f}s;;{self.limits.max_age:.0f};0")
            numbers.append(f"size={sum(one.stored_bytes for one in self.members)}B;;;0")
            numbers.append(f"entries={sum(one.entries for one in self.members)};;;0")
            numbers.append(f"duration={sum(one.seconds for one in self.members):.1f}s;;;0")
        if self.verify_age is not None:
            numbers.append(f"verify_age={self.verify_age:.0f}s;{_limit(self.limits.verify_age)};;0")
        if self.drill_age is not None:
            numbers.append(f"drill_age={self.drill_age:.0f}s;{_limit(self.limits.drill_age)};;0")
        return f"BACKUP {self.status.name} - {self.reason} | {' '.join(numbers)}"


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f}"


def check(repo: Where, limits: Limits, suffix: str | None = None) -> Check:
    """Never raises a LoaderError: what cannot be known is UNKNOWN."""
    try:
        return judged(repo, limits, suffix)
    except LoaderError as error:
        return unknown(error, limits)
    except OSError as error:
        return unknown(of_system(error, repo), limits)


def each(repo: Where, limits: Limits, suffix: str | None = None) -> dict[str, Check]:
    """By suffix, of all that there are backups of, or of the one that is asked for. Raises NoSuchPath."""
    found = repository.listing(repo, suffix)
    names = {dn.key(one.suffix): one.suffix for one in found.every}
    return {name: check(repo, limits, name) for name in names.values()}


def unknown(error: LoaderError, limits: Limits) -> Check:
    return Check(Status.UNKNOWN, str(error), 0, None, None, limits)


def judged(repo: Where, limits: Limits, suffix: str | None) -> Check:
    """Raises LoaderError, OSError if nothing can be known."""
    found = repository.listing(repo, suffix)
    if found.future:
        newest = found.future[-1]
        reason = f"{newest.id} is dated {newest.made}, later than now: which is the latest is not known"
        return Check(Status.CRITICAL, reason, len(found.backups), None, None, limits)
    broken = repository.broken_latest(found, suffix)
    if broken is not None:
        reason = f"the latest cannot be used: {broken}"
        return Check(Status.CRITICAL, reason, len(found.backups), None, None, limits)
    if not found.backups:
        what = f"no backup of {suffix}" if suffix else "no backup"
        reason = f"{what} in {plain.with_operator_paths(str(repository.path_of(repo)))}"
        return Check(Status.CRITICAL, reason, 0, None, None, limits)
    sets = repository.sets(found.backups)
    latest = sets[-1] if suffix is None else found.backups[-1:]
    age = max(0.0, (repository.now() - latest[0].when).total_seconds())
    proofs = [(one, records.of(repo, one)) for one in found.backups]
    verified = _youngest(known.verification for _, known in proofs)
    drilled = _youngest(known.drill for _, known in proofs)
    problem = repository.problem(repo, latest[0])
    older = [repository.problem(repo, each[0], read=False) for each in sets[:-1]]
    count = [problem, *older].count(None)
    others = [*found.broken, *filter(None, older)]
    status, reason = (
        (Status.CRITICAL, f"the latest, {latest[0].id}, cannot be restored: {problem}")
        if problem
        else _judge(found, latest, (count, age), others, limits)
    )
    if status < Status.CRITICAL:
        worse = _judge_proofs(proofs, latest, (verified, drilled), limits)
        if worse is not None and worse[0] == status:
            reason = f"{reason}; {worse[1]}"
        elif worse is not None:
            status, reason = worse
    return Check(status, reason, count, age, latest[0], limits, verified, drilled, members=tuple(latest))


def _youngest(found: Iterable[Verification | Drill | None]) -> float | None:
    return min((records.age_of(one) for one in found if one is not None and one.is_good), default=None)


def _judge_proofs(
    proofs: Sequence[tuple[Backup, Proofs]],
    latest: Sequence[Backup],
    ages: tuple[float | None, float | None],
    limits: Limits,
) -> tuple[Status, str] | None:
    """What is worse than a backup of the right age; None where nothing is."""
    bad = [one for one, known in proofs if known.is_bad]
    for one in bad:
        if one in latest:
            return Status.CRITICAL, f"the latest, {one.id}, was found damaged"
    if bad:
        return Status.WARNING, f"{bad[-1].id} was found damaged"
    asked = zip(("verified", "drilled"), ages, (limits.verify_age, limits.drill_age), strict=True)
    for what, age, limit in asked:
        if limit and (age is None or age > limit):
            since = "was ever" if age is None else f"was for {units.duration(age)}"
            return Status.WARNING, f"no backup {since} {what}"
    return None


def _judge(
    found: repository.Listing,
    latest: Sequence[Backup],
    counted: tuple[int, float],
    others: Sequence[LoaderError],
    limits: Limits,
) -> tuple[Status, str]:
    """counted: backups, and the age of the latest. others: what is wrong with older ones."""
    count, age = counted
    name, old = latest[0].id, units.duration(age)
    if age > limits.max_age:
        return Status.CRITICAL, f"the latest, {name}, is {old} old"
    if count < limits.min_count:
        return (Status.WARNING, f"{count} of at least {limits.min_count} backups, the latest {old} old")
    for one in latest:
        few = _too_few(found.backups, one, limits)
        if few:
            return Status.WARNING, few
    if others:
        return Status.WARNING, f"{len(others)} older cannot be restored, the first: {others[0]}"
    if latest[0].follows:
        return Status.WARNING, f"the clock had gone back, or been wrong, when {name} was made"
    entries = units.number(sum(one.entries for one in latest))
    databases = f" of {len(latest)} databases" if len(latest) > 1 else ""
    return Status.OK, f"{name}, {old} old, {entries} entries{databases}"


def _too_few(backups: Sequence[Backup], latest: Backup, limits: Limits) -> str:
    """Has somebody emptied the directory before the latest was made? Why that may be; empty where it has not shrunk."""
    of_suffix = [one for one in backups if dn.key(one.suffix) == dn.key(latest.suffix)]
    before = [one.entries for one in of_suffix[: of_suffix.index(latest)]]
    usual = statistics.median(before[-_BEFORE:]) if before else 0
    if latest.entries >= usual * (1 - limits.shrink):
        return ""
    has, had = units.number(latest.entries), units.number(int(usual))
    return f"the latest, {latest.id}, has fewer entries ({has}) than those before it ({had})"


# --- for Prometheus -------------------------------------------------------------------------------

_METRIC = "ditseed_backup"
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
    "last_stored_bytes": ("Bytes that the latest backup takes.", _latest(lambda backup: backup.stored_bytes)),
    "last_data_bytes": ("Bytes of the database in the latest backup.", _latest(lambda backup: backup.data_bytes)),
    "last_entries": ("Entries in the latest backup.", _latest(lambda backup: backup.entries)),
    "last_duration_seconds": ("Seconds that copying the latest backup took.", _latest(lambda backup: backup.seconds)),
    "verified_timestamp_seconds": (
        "When a backup was last verified and found good, as Unix time; 0: never.",
        lambda one, now: _since(one.verify_age, now),
    ),
    "drilled_timestamp_seconds": (
        "When a backup was last drilled and found good, as Unix time; 0: never.",
        lambda one, now: _since(one.drill_age, now),
    ),
}


def write_metrics(found: Mapping[str, Check], path: Path) -> None:
    """found: by suffix; "" where it is of all. Whole or not at all."""
    from prometheus_client.core import GaugeMetricFamily  # it takes long to import

    from loader.operations import monitoring

    now = repository.now().timestamp()
    written = f"{_METRIC}_written_timestamp_seconds"
    families = [GaugeMetricFamily(written, "When this was found, as Unix time.", value=now)]
    for name, (said, value_of) in _GAUGES.items():
        family = GaugeMetricFamily(f"{_METRIC}_{name}", said, labels=["suffix"])
        for suffix, one in found.items():
            value = value_of(one, now)
            if value is not None:
                family.add_metric([suffix], value)
        families.append(family)
    monitoring.write(families, path)
