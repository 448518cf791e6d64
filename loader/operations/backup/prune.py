"""Which backups are kept, and removing the others.

For each suffix by itself. Kept besides what the policy says: the latest, the latest that can be restored, and the
latest that was proven good; all of a suffix if none can be restored. Backups of several databases at one moment are
kept or removed together, and the latest of these sets that can be restored is kept. A backup whose manifest cannot be
read is never removed: nobody knows what it is.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from click import IntRange

from loader import dn
from loader.declared import Duration
from loader.errors import LoaderError, UsageProblem
from loader.operations.backup import records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.repository import Listing, Repository, Where
from loader.run.log import killpoint
from loader.storage import files

_PERIODS = {"daily": "%Y-%m-%d", "weekly": "%G-W%V", "monthly": "%Y-%m", "yearly": "%Y"}
_Number = Annotated[int, IntRange(0), {"show_default": False}]
_KEEP = "Keep the last backup of each of the last N {} that have one."


@dataclass(frozen=True)
class Policy:
    """How many to keep: of the last, and the last of each of so many days, weeks (ISO 8601), months, years (UTC) that
    have one. within: all that are no older than so many seconds."""

    last: Annotated[_Number, "--keep-last N", "Keep the last N backups."] = 0
    daily: Annotated[_Number, "--keep-daily N", _KEEP.format("days")] = 0
    weekly: Annotated[_Number, "--keep-weekly N", _KEEP.format("weeks")] = 0
    monthly: Annotated[_Number, "--keep-monthly N", _KEEP.format("months")] = 0
    yearly: Annotated[_Number, "--keep-yearly N", _KEEP.format("years")] = 0
    within: Annotated[
        float, "--keep-within TIME", Duration(), {"show_default": False}, "Keep all backups younger than that: 30d."
    ] = 0.0

    def __bool__(self) -> bool:
        return self != KEEP_ALL


KEEP_ALL = Policy()
Set = tuple[Backup, ...]  # of one moment, the one that leads first


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


def prune(repo: Where, policy: Policy, suffix: str | None = None, dry_run: bool = False) -> Pruned:
    """Raises Locked, UsageProblem, BackupFromFuture."""
    if not policy:
        raise UsageProblem(reason="say what to keep: --keep-last, --keep-daily, --keep-within, ...")
    found = repository.of(repo)
    with files.explained(found.path):
        if dry_run:
            return plan(found, policy, suffix)
        with found.changing() as changed:
            return pruned(changed, policy, suffix)


def pruned(repo: Repository, policy: Policy, suffix: str | None) -> Pruned:
    """The same, with the lock held."""
    planned = plan(repo, policy, suffix)
    repo.clean()
    for name in planned.removed:
        repo.set_aside(name)
        killpoint("prune.middle")
    repo.clean()
    return dataclasses.replace(planned, freed=planned.freed + repository.collect(repo))


def plan(repo: Where, policy: Policy, suffix: str | None = None) -> Pruned:
    """What would stay and go; of a set that goes, the backup that leads it first."""
    repo = repository.of(repo)
    every = repository.listing(repo)
    found = every.of(suffix)
    repository.require_known_order(repo.path, found)
    reasons = _Reasons(repo, every, policy)
    asked = {one.id for one in found.backups}
    sets = [each for each in reasons.sets if not asked.isdisjoint(one.id for one in each)]
    backups = [one for each in sets for one in each]
    removed = [one for one in backups if not reasons.of[one.id]]
    kept = [Kept(one.id, tuple(reasons.of[one.id])) for one in backups if reasons.of[one.id]]
    return Pruned(
        tuple(sorted(kept, key=lambda one: one.id)),
        tuple(one.id for one in removed),
        sum(one.stored_bytes for one in removed if not one.incremental),
        tuple(repository.name_of(error) for error in found.broken),
    )


class _Reasons:
    """Why each backup stays, of all suffixes, for those of a set stay or go together. of: by ID.

    good: the IDs of those that count for a policy: all of their set can be restored, as far as is known."""

    def __init__(self, repo: Repository, every: Listing, policy: Policy) -> None:
        self.repo, self.policy = repo, policy
        self.sets = repository.sets(every.backups)
        self.of: dict[str, list[str]] = {one.id: [] for one in every.backups}
        emptied = _emptied(every.backups)
        sound = [one for one in every.backups if one.id not in emptied and not records.of(repo, one).is_bad]
        ids = {one.id for one in sound}
        self.good = {
            one.id
            for each in self.sets
            if all(one.id in ids for one in each) and self._problem(each[0]) is None
            for one in each
        }
        for group in _by_suffix(every.backups):
            self._keep_by_policy(group)
        for group in _by_suffix(sound):
            self._keep_alone(group)
        self._keep_sets({repository.name_of(error) for error in every.broken})

    def _problem(self, backup: Backup, alone: bool = False) -> LoaderError | None:
        """The small files of another host's backups are not fetched for it."""
        return repository.problem(self.repo, backup, not self.repo.is_remote, alone)

    def _keep_by_policy(self, backups: Sequence[Backup]) -> None:
        """`backups` of one suffix, the oldest first. Those that are not `good` take nobody's place."""
        newest = [one for one in backups[::-1] if one.id in self.good]
        if not newest:
            for one in backups:
                self.of[one.id].append("none of its suffix is known to be restorable")
            return
        self.of[backups[-1].id].append("the latest")
        self.of[newest[0].id].append("the latest that can be restored")
        for one in [one for one in newest if records.of(self.repo, one).is_proven][:1]:
            self.of[one.id].append("the latest that was proven good")
        for one, reason in _by_policy(newest, self.policy):
            self.of[one.id].append(reason)

    def _keep_alone(self, backups: Sequence[Backup]) -> None:
        """`backups` of one suffix, the oldest first. The rest of the set of one that is not `good` may be damaged."""
        for one in reversed(backups):
            if one.id in self.good:
                return
            if self._problem(one, alone=True) is None:
                self.of[one.id].append("the latest that can be restored by itself")
                return

    def _keep_sets(self, unread: Collection[str]) -> None:
        """The latest set of the same suffixes stays, for a backup of one suffix takes no set's place; and so does the
        rest of a set with a backup that stays, or whose manifest cannot be read: nobody knows what that one is."""
        latest: dict[frozenset[object], Set] = {}
        for each in self.sets:
            if len(each) > 1 and each[0].id in self.good:
                latest[frozenset(dn.key(one.suffix) for one in each)] = each
        for each in latest.values():
            self.of[each[0].id].append("the latest set that can be restored")
        for each in self.sets:
            for name in set(unread).intersection(each[0].members):
                told = f"of the same moment as {name}, which cannot be read"
                self.of[each[0].id].append(told)
            stay = [one.id for one in each if self.of[one.id]]
            for one in each:
                if stay and not self.of[one.id]:
                    self.of[one.id].append(f"of the same moment as {min(stay)}")


def _emptied(backups: Sequence[Backup]) -> set[str]:
    """IDs of those without entries where others of the suffix have some: they may be those of a lost database."""
    filled = {dn.key(one.suffix) for one in backups if one.entries}
    return {one.id for one in backups if not one.entries and dn.key(one.suffix) in filled}


def _by_suffix(backups: Sequence[Backup]) -> list[list[Backup]]:
    groups: dict[object, list[Backup]] = {}
    for one in backups:
        groups.setdefault(dn.key(one.suffix), []).append(one)
    return list(groups.values())


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
