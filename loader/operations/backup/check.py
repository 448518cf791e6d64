"""Checks whether there is a complete, recent backup. Returns a status of the Monitoring Plugins guidelines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from loader import dn, units
from loader.errors import BackupFromFuture, LatestBroken, LoaderError, NoSuchBackup, of_system
from loader.operations import monitoring
from loader.operations.backup import repository
from loader.operations.backup.manifest import Backup, Drill, Proof
from loader.operations.backup.options import LATEST, Limits
from loader.operations.backup.repository import Where
from loader.operations.monitoring import Status

_EARLIER = 7  # number of earlier backups whose numbers of entries are compared with the latest's


class Check(monitoring.Check, frozen=True):
    """`latest`: the latest backup, or None. `age`: its age. `members`: the backups of its set. `count`: number of
    restorable backups; a set counts once. `verify_age`, `drill_age`: ages of the last successful verification and drill
    of any backup, or None. `loss`: seconds of changes that would be lost according to the last drill with --replay, or
    None. Ages are in seconds."""

    reason: str
    count: int
    age: float | None
    latest: Backup | None
    limits: Limits
    verify_age: float | None = None
    drill_age: float | None = None
    members: tuple[Backup, ...] = ()
    loss: float | None = None

    def text(self) -> tuple[str, ...]:
        """Returns one line: `BACKUP OK - ... | age=...`."""
        numbers = [f"count={self.count};{self.limits.min_count}:"]
        if self.age is not None and self.latest is not None:
            numbers.insert(0, f"age={self.age:.0f}s;;{self.limits.max_age:.0f};0")
            numbers.append(f"size={sum(backup.stored_bytes for backup in self.members)}B;;;0")
            numbers.append(f"entries={sum(backup.entries for backup in self.members)};;;0")
            numbers.append(f"duration={sum(backup.seconds for backup in self.members):.1f}s;;;0")
        for name, limit_name in (("verify_age", "verify_age"), ("drill_age", "drill_age"), ("loss", "max_loss")):
            seconds, limit = getattr(self, name), getattr(self.limits, limit_name)
            if seconds is not None:
                numbers.append(f"{name}={seconds:.0f}s;{'' if limit is None else f'{limit:.0f}'};;0")
        return (f"BACKUP {self.status.name} - {self.reason} | {' '.join(numbers)}",)


def check(repo: Where, limits: Limits, suffix: str | None = None) -> Check:
    """Calls `judged`. If it raises an error, returns a check with the status UNKNOWN."""
    try:
        return judged(repo, limits, suffix)
    except LoaderError as error:
        return unknown(error, limits)
    except OSError as error:
        return unknown(of_system(error, repo), limits)


def each(repo: Where, limits: Limits, suffix: str | None = None) -> dict[str, Check]:
    """Maps each suffix that has backups, or only `suffix`, to its check. Raises NoSuchPath."""
    suffixes = {dn.key(backup.suffix): backup.suffix for backup in repository.listing(repo, suffix).every}
    return {name: check(repo, limits, name) for name in suffixes.values()}


def unknown(error: LoaderError, limits: Limits) -> Check:
    return Check(Status.UNKNOWN, str(error), 0, None, None, limits)


def judged(repo: Where, limits: Limits, suffix: str | None) -> Check:
    """Checks the backups against the limits. Raises LoaderError or OSError if the repository cannot be read."""
    listing = repository.listing(repo, suffix)
    backups = listing.backups
    try:
        repository.latest(repository.of(repo), listing, LATEST, suffix)
    except (BackupFromFuture, LatestBroken, NoSuchBackup) as error:
        return Check(Status.CRITICAL, str(error), len(backups), None, None, limits)
    sets = repository.sets(backups)
    latest = sets[-1] if suffix is None else backups[-1:]
    newest = latest[0]
    age = max(0.0, (repository.now() - newest.when).total_seconds())
    proofs = {backup.id: repository.proofs(repo, backup) for backup in backups}
    verified = _youngest(proof.verification for proof in proofs.values())
    drilled = _youngest(proof.drill for proof in proofs.values())
    replays = (proof.drill for proof in proofs.values() if proof.drill and proof.drill.replay)
    replayed = min(replays, key=repository.age_of, default=None)
    loss = replayed.replay.lost_seconds if replayed and replayed.replay else None
    damaged_ids = [name for name, proof in proofs.items() if proof.is_bad]
    damaged_latest = [backup.id for backup in latest if backup.id in damaged_ids]
    problem = repository.problem(repo, newest)
    older_problems = [repository.problem(repo, group[0], read=False) for group in sets[:-1]]
    count = [problem, *older_problems].count(None)
    broken = [*listing.broken, *filter(None, older_problems)]
    old, at_least = units.duration(age), limits.min_count
    findings = (
        (Status.CRITICAL, problem and f"the latest, {newest.id}, cannot be restored: {problem}"),
        (Status.CRITICAL, age > limits.max_age and f"the latest, {newest.id}, is {old} old"),
        (Status.CRITICAL, damaged_latest and f"the latest, {damaged_latest[0]}, was found damaged"),
        (Status.WARNING, count < at_least and f"{count} of at least {at_least} backups, the latest {old} old"),
        *((Status.WARNING, _shrunk(backups, backup, limits)) for backup in latest),
        (Status.WARNING, broken and f"{len(broken)} older cannot be restored, the first: {broken[0]}"),
        (Status.WARNING, newest.follows and f"the clock was wrong or had gone back when {newest.id} was made"),
        (Status.WARNING, damaged_ids and f"{damaged_ids[-1]} was found damaged"),
        (Status.WARNING, _unproven("verified", verified, limits.verify_age)),
        (Status.WARNING, _unproven("drilled", drilled, limits.drill_age)),
        (Status.WARNING, _lost(replayed, limits)),
    )
    status = max((status for status, reason in findings if reason), default=Status.OK)
    reason = "; ".join(str(reason) for worst, reason in findings if reason and worst is status)
    if not reason:
        databases = f" of {len(latest)} databases" if len(latest) > 1 else ""
        reason = f"{newest.id}, {old} old, {units.number(sum(backup.entries for backup in latest))} entries{databases}"
    return Check(status, reason, count, age, newest, limits, verified, drilled, tuple(latest), loss)


def _youngest(records: Iterable[Proof | None]) -> float | None:
    return min((repository.age_of(record) for record in records if record is not None and record.is_good), default=None)


def _shrunk(backups: Sequence[Backup], latest: Backup, limits: Limits) -> str:
    """Returns a warning if the latest backup has far fewer entries than earlier backups, else ""."""
    of_suffix = [backup for backup in backups if dn.key(backup.suffix) == dn.key(latest.suffix)]
    before = [backup.entries for backup in of_suffix[: of_suffix.index(latest)]]
    usual = statistics.median(before[-_EARLIER:]) if before else 0
    if latest.entries >= usual * (1 - limits.shrink):
        return ""
    has, had = units.number(latest.entries), units.number(int(usual))
    return f"the latest, {latest.id}, has fewer entries ({has}) than those before it ({had})"


def _unproven(kind: str, age: float | None, limit: float | None) -> str:
    """Returns a warning if the last verification or drill is older than `limit`, else ""."""
    if not limit or (age is not None and age <= limit):
        return ""
    return f"no backup was ever {kind}" if age is None else f"no backup was {kind} for {units.duration(age)}"


def _lost(drill: Drill | None, limits: Limits) -> str:
    """Returns a warning if the last drill with --replay failed, lost too much, is too old or missing; else ""."""
    limit = limits.max_loss
    if drill is None or drill.replay is None:
        return "no backup was ever drilled with --replay" if limit else ""
    if drill.replay.problem:
        return f"the drill of {drill.backup}: {drill.replay.problem}"
    lost = drill.replay.lost_seconds
    if limit and lost > limit:
        return f"changes of {units.duration(lost)} would be lost"
    return _unproven("drilled with --replay", repository.age_of(drill), limits.drill_age) if limit else ""


_METRIC = "ditseed_backup"
_GAUGES = {
    "status": "Exit status of `ditseed backup check`: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
    "count": "Number of backups that can be restored, as far as is known without reading their data.",
    "last_timestamp_seconds": "When the latest backup was made, as Unix time; 0: there is none, or it is unknown.",
    "verified_timestamp_seconds": "When a backup was last verified and found good, as Unix time; 0: never.",
    "drilled_timestamp_seconds": "When a backup was last drilled and found good, as Unix time; 0: never.",
    "last_stored_bytes": "Stored bytes of the latest backup.",
    "last_data_bytes": "Bytes of the database in the latest backup.",
    "last_entries": "Entries in the latest backup.",
    "last_duration_seconds": "Seconds that the latest backup took.",
    "lost_seconds": "Seconds of changes that a restore would have lost, as the last `drill --replay` found.",
}


def write_metrics(checks: Mapping[str, Check], path: Path) -> None:
    """Writes a file of Prometheus metrics atomically. `checks` maps a suffix, or "" for all suffixes, to its check."""
    from prometheus_client.core import GaugeMetricFamily  # imported here because the import is slow

    now = repository.now().timestamp()
    name = f"{_METRIC}_written_timestamp_seconds"
    families = [GaugeMetricFamily(name, "When this file was written, as Unix time.", value=now)]
    families += [GaugeMetricFamily(f"{_METRIC}_{name}", text, labels=["suffix"]) for name, text in _GAUGES.items()]
    for suffix, result in checks.items():  # `values` has the order of _GAUGES; an unknown value is None
        times = (0.0 if age is None else now - age for age in (result.age, result.verify_age, result.drill_age))
        sizes = (getattr(result.latest, name, None) for name in ("stored_bytes", "data_bytes", "entries", "seconds"))
        values = (result.status, result.count, *times, *sizes, result.loss)
        for family, value in zip(families[1:], values, strict=True):
            if value is not None:
                family.add_metric([suffix], float(value))
    monitoring.write(families, path)
