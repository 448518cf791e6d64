"""Which backups are kept, and removing the others.

For each suffix by itself. Kept besides what the policy says: the latest, the latest that is not known to be bad, and
the latest that was proven good. Backups of several databases at one moment stay together. What cannot be read is never
removed: nobody knows what it is.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import dn
from loader.errors import BackupFromFuture, UsageProblem
from loader.operations.backup import packs, records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Proofs
from loader.run.killpoint import killpoint
from loader.run.lock import exclusive
from loader.storage import files, held

_PERIODS = {
    "daily": "%Y-%m-%d",
    "weekly": "%G-W%V",
    "monthly": "%Y-%m",
    "yearly": "%Y",
}


@dataclass(frozen=True)
class Policy:
    """How many to keep: of the last, and the last of each of so many days, weeks (ISO 8601), months, years (UTC) that
    have one. within: all that are no older than so many seconds."""

    last: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within: float = 0.0

    def __bool__(self) -> bool:
        return self != KEEP_ALL


KEEP_ALL = Policy()


@dataclass(frozen=True)
class Kept:
    """A backup that stays, and why: "last", "daily 2026-11-21", "the latest that was proven good"."""

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Pruned:
    """What stays, what went (or would go), and the bytes that these took. unread: their manifests cannot be read."""

    kept: tuple[Kept, ...]
    removed: tuple[str, ...]
    freed: int
    unread: tuple[str, ...]


def prune(repo: Path, policy: Policy, suffix: str | None = None, dry_run: bool = False) -> Pruned:
    """Raises Locked, UsageProblem, BackupFromFuture."""
    if not policy:
        raise UsageProblem(reason="say what to keep: --keep-last, --keep-daily, --keep-within, ...")
    with files.explained(repo):
        if dry_run:
            return plan(repo, policy, suffix)
        repository.require(repo)
        with held.opened(repo) as home, exclusive(home.path / repository.LOCK):
            return pruned(home, policy, suffix)


def pruned(repo: held.Directory, policy: Policy, suffix: str | None) -> Pruned:
    """The same, with the lock held."""
    planned = plan(repo.path, policy, suffix)
    for name in planned.removed:
        _remove(repo, name)
    return dataclasses.replace(planned, freed=planned.freed + packs.collect(repo))


def _remove(repo: held.Directory, name: str) -> None:
    """It is no backup any more before it loses a file; what a kill leaves the next run removes."""
    partial = f"{name}{files.PARTIAL}"
    repo.take(repo.path / name, partial)
    killpoint("prune.middle")
    files.remove_tree(repo.path / partial)


def plan(repo: Path, policy: Policy, suffix: str | None = None) -> Pruned:
    """What would stay and go."""
    every = repository.listing(repo)
    found = every.of(suffix)
    if found.future:
        newest = found.future[-1]
        raise BackupFromFuture(path=repo, name=newest.id, made=newest.made)
    reasons: dict[str, list[str]] = {}
    for group in _by_suffix(every.backups):
        reasons |= _reasons(group, policy, {one.id: records.of(repo, one) for one in group})
    _keep_sets(found.backups, reasons)
    kept = [Kept(one.id, tuple(reasons[one.id])) for one in found.backups if reasons[one.id]]
    removed = [one for one in found.backups if not reasons[one.id]]
    return Pruned(
        tuple(sorted(kept, key=lambda one: one.id)),
        tuple(sorted(one.id for one in removed)),
        sum(one.stored_bytes for one in removed if not one.shares_pages),
        tuple(repository.name_of(error) for error in found.broken),
    )


def _keep_sets(backups: Sequence[Backup], reasons: dict[str, list[str]]) -> None:
    """What is of one moment stays together."""
    stay = {name for name, why in reasons.items() if why}
    for one in backups:
        others = stay.intersection(one.members) - {one.id}
        if others and not reasons[one.id]:
            reasons[one.id].append(f"of the same moment as {min(others)}")


def _by_suffix(backups: Sequence[Backup]) -> list[list[Backup]]:
    groups: dict[object, list[Backup]] = {}
    for one in backups:
        groups.setdefault(dn.key(one.suffix), []).append(one)
    return list(groups.values())


def _reasons(
    backups: Sequence[Backup], policy: Policy, proofs: dict[str, Proofs]
) -> dict[str, list[str]]:
    """By ID; `backups` are the oldest first. One that is known to be bad takes nobody's place, nor does one without
    entries: it may be that of a database that was lost."""
    found: dict[str, list[str]] = {one.id: [] for one in backups}
    newest = backups[::-1]
    good = [one for one in newest if one.entries and not proofs[one.id].is_bad]
    proven = [one for one in good if proofs[one.id].is_proven]
    found[newest[0].id].append("the latest")
    for one in good[:1]:
        found[one.id].append("the latest not known to be bad")
    for one in proven[:1]:
        found[one.id].append("the latest that was proven good")
    for one, reason in _by_policy(good, policy):
        found[one.id].append(reason)
    return found


def _by_policy(newest: Sequence[Backup], policy: Policy) -> Iterator[tuple[Backup, str]]:
    yield from ((one, "last") for one in newest[: policy.last])
    oldest = repository.now() - datetime.timedelta(seconds=policy.within)
    if policy.within:
        yield from ((one, "within") for one in newest if one.when >= oldest)
    for name, written in _PERIODS.items():
        periods: dict[str, Backup] = {}
        for one in newest:
            periods.setdefault(one.when.astimezone(datetime.timezone.utc).strftime(written), one)
        for period, one in list(periods.items())[: getattr(policy, name)]:
            yield one, f"{name} {period}"
