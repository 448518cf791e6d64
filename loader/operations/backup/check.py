"""Is there a backup, whole and young enough? In the terms of the Monitoring Plugins guidelines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import LoaderError
from loader.operations.backup import repository
from loader.operations.backup.manifest import Backup
from loader.operations.monitoring import Status


@dataclass(frozen=True)
class Limits:
    """`max_age` in seconds. Fewer than `min_count` is a warning."""

    max_age: float
    min_count: int = 1


@dataclass(frozen=True)
class Check:
    """`latest` is None where there is none."""

    status: Status
    reason: str
    count: int
    age: float | None
    latest: Backup | None
    limits: Limits

    def line(self) -> str:
        """`BACKUP OK - ... | age=...`."""
        numbers = [f"count={self.count};{self.limits.min_count}:"]
        if self.age is not None and self.latest is not None:
            numbers.insert(0, f"age={self.age:.0f}s;;{self.limits.max_age:.0f};0")
            numbers.append(f"size={self.latest.stored_bytes}B;;;0")
            numbers.append(f"entries={self.latest.entries};;;0")
            numbers.append(f"duration={self.latest.seconds:.1f}s;;;0")
        return f"BACKUP {self.status.name} - {self.reason} | {' '.join(numbers)}"


def check(repo: Path, limits: Limits, suffix: str | None = None) -> Check:
    """Never raises a LoaderError: what cannot be known is UNKNOWN."""
    try:
        return _check(repo, limits, suffix)
    except (LoaderError, OSError) as error:
        return Check(Status.UNKNOWN, str(error), 0, None, None, limits)


def _check(repo: Path, limits: Limits, suffix: str | None) -> Check:
    found = repository.listing(repo, suffix)
    if found.future:
        newest = found.future[-1]
        reason = (
            f"{newest.id} is dated {newest.made}, later than now: which is the latest is not known"
        )
        return Check(Status.CRITICAL, reason, len(found.backups), None, None, limits)
    broken = repository.broken_latest(found, suffix)
    if broken is not None:
        reason = f"the latest cannot be used: {broken}"
        return Check(Status.CRITICAL, reason, len(found.backups), None, None, limits)
    if not found.backups:
        return Check(Status.CRITICAL, f"no backup in {repo}", 0, None, None, limits)
    latest = found.backups[-1]
    age = max(0.0, (repository.now() - latest.when).total_seconds())
    status, reason = _judge(repo, found, age, limits)
    return Check(status, reason, len(found.backups), age, latest, limits)


def _judge(repo: Path, found: repository.Listing, age: float, limits: Limits) -> tuple[Status, str]:
    latest, count = found.backups[-1], len(found.backups)
    old = units.duration(age)
    path = repo / latest.id / latest.file
    if not path.is_file():
        return Status.CRITICAL, f"{path} is missing"
    if path.stat().st_size != latest.stored_bytes:
        return Status.CRITICAL, f"{path} is not as long as its manifest says"
    if age > limits.max_age:
        return Status.CRITICAL, f"the latest, {latest.id}, is {old} old"
    if count < limits.min_count:
        return (
            Status.WARNING,
            f"{count} of at least {limits.min_count} backups, the latest {old} old",
        )
    if found.broken:
        return Status.WARNING, f"{len(found.broken)} cannot be read, the first: {found.broken[0]}"
    return Status.OK, f"{latest.id}, {old} old, {units.number(latest.entries)} entries"
