"""Whatever is done to a repository, and whatever the clock does: the newest backup that can be restored stays, and sets
stay whole.

Random sequences of runs, prunes with random policies, damage, kills and clock steps, on copies of backups that
`backup run` made. What is expected is worked out from what was done, not from what ditseed says of it.
"""

from __future__ import annotations

import datetime
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from loader.errors import BackupFromFuture
from loader.operations.backup import manifest, repository
from loader.operations.backup import run as taking
from loader.operations.backup.manifest import MANIFEST, Backup, Verification
from loader.operations.backup.repository import Policy
from loader.operations.backup.run import BackupOptions
from tests.integration.test_backup_sets import LOG, Logged, logged
from tests.support.backups import QUIET, put_back

pytestmark = pytest.mark.slapd
START = datetime.datetime(2026, 3, 28, 22, 0, tzinfo=datetime.timezone.utc)
SUFFIX = "dc=example,dc=com"
KINDS = ("set", "set", "set, incremental", "tree", "tree", "log", "tree, incremental", "emptied")
STEPS = (-400, -26, -3, -0.04, 0.04, 2, 30, 9000)  # hours by which a clock is wrong all at once


@dataclass(frozen=True)
class Made:
    """What `backup run` made of one server: a repository of each kind, and what is in it."""

    source: Logged
    kinds: dict[str, tuple[Path, tuple[Backup, ...]]]


@pytest.fixture(scope="module")
def made(people_ldif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    scratch = tmp_path_factory.mktemp("kept")
    with logged(scratch / "logged") as source:
        source.server.slapadd(people_ldif, "-w")
        source.change()
        kinds = {}
        for kind in sorted(set(KINDS)):
            repo = scratch / kind.replace(", ", "-")
            one = taking.run(options(source, repo, kind), QUIET)
            kinds[kind] = repo, repository.members(repo, one)
        yield Made(source, kinds)


def options(source: Logged, repo: Path, kind: str) -> BackupOptions:
    suffix = {"set": None, "log": LOG}.get(kind.partition(",")[0], SUFFIX)
    incremental = kind.endswith("incremental")
    config = source.server.config_path
    return BackupOptions(repo, config, suffix=suffix, incremental=incremental, every=not suffix)


class Killed(Exception):
    """As SIGKILL would: nothing is cleaned up after it."""


@dataclass
class World:
    """A repository, what was done to it, and the clock. order: all that was made. lost: IDs of those that cannot be
    restored by themselves; unread: of those whose manifest is broken."""

    made: Made
    repo: Path
    chance: random.Random
    now: datetime.datetime = START
    order: list[Backup] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    # --- what is done -----------------------------------------------------------------------------

    def run(self) -> None:
        """Mostly by copying what `backup run` made."""
        kind = self.chance.choice(KINDS)
        policy = self.policy() if self.chance.random() < 0.5 else repository.KEEP_ALL
        if self.chance.random() < 0.02:
            asked = options(self.made.source, self.repo, kind.replace("emptied", "tree"))
            for one in repository.members(self.repo, taking.run(asked, QUIET)):
                self.add(one)
        else:
            self.copy(kind)
        if policy:
            last = self.order[-1]
            suffixes = {one.suffix for one in self.order if one.id in (last.id, *last.members)}
            for suffix in sorted(suffixes):
                self.prune(policy, suffix)

    def copy(self, kind: str) -> None:
        template, found = self.made.kinds[kind]
        taken: set[str] = set()
        repository.Repository(self.repo).clean()
        follows = repository.follows(self.repo, self.now)
        for one in found:
            taken.add(repository.new_id(self.repo, self.now, one.suffix, taken))
        ids = sorted(taken, key=lambda name: "accesslog" in name)
        for one, name in zip(found, ids, strict=True):
            copied = replace(
                one,
                id=name,
                made=self.now.isoformat(),
                follows=follows,
                members=tuple(ids) if len(ids) > 1 else (),
                entries=0 if kind == "emptied" else one.entries,
            )
            shutil.copytree(template / one.id, self.repo / name, copy_function=os.link)
            self.rewrite(name, MANIFEST, manifest.text(manifest.sealed(copied)))
            self.add(manifest.sealed(copied))
        if (template / "pages").exists():
            shutil.copytree(template / "pages", self.repo / "pages", dirs_exist_ok=True)

    def add(self, one: Backup) -> None:
        """Where a clock shows the same second again, the ID may be that of one that was removed."""
        self.order = [*(other for other in self.order if other.id != one.id), one]
        self.lost.discard(one.id)

    def prune(self, policy: Policy | None = None, suffix: str | None = None) -> None:
        suffix = suffix or self.chance.choice([None, SUFFIX, LOG])
        policy = policy or self.policy()
        names = {one.id for one in self.there()}
        stay = self.newest()
        try:
            repository.prune(self.repo, policy, suffix)
        except BackupFromFuture:
            assert {one.id for one in self.there()} == names
        except Killed:
            pass
        left = {one.id for one in self.there()}
        assert stay <= left, f"{policy} of {suffix} removed {stay - left}"
        for one in self.order:
            present = names.intersection(one.members)
            assert not present or present <= left or present.isdisjoint(left), "torn"
        assert self.unread <= {path.name for path in self.repo.iterdir()}

    def damage(self) -> None:
        sound = [one for one in self.there() if one.id not in self.lost]
        if not sound:
            return
        one = self.chance.choice(sound[-4:])
        place = self.repo / one.id
        how = self.chance.choice(["gone", "cut", "map", "config", "manifest", "bad", "data"])
        self.lost.add(one.id)
        if how == "gone":
            shutil.rmtree(place)
        elif how == "cut":
            self.rewrite(one.id, one.file, (place / one.file).read_bytes()[:-1])
        elif how == "data":
            (place / one.file).unlink(missing_ok=True)
        elif how == "map":
            (place / "pages.map").unlink(missing_ok=True)
        elif how == "config":
            (place / one.config_file).unlink(missing_ok=True)
        elif how == "manifest":
            self.rewrite(one.id, MANIFEST, b"{")
            self.unread.add(one.id)
        else:
            self.found_bad(one)

    def found_bad(self, one: Backup) -> None:
        record = Verification(backup=one.id, made=self.now.isoformat(), problem="is bad")
        repository.keep(self.repo, record)

    def clock(self) -> None:
        self.now += datetime.timedelta(hours=self.chance.choice(STEPS))

    def policy(self) -> Policy:
        names = ("last", "daily", "weekly", "monthly")
        few = {name: self.chance.randrange(3) for name in self.chance.sample(names, 2)}
        within = self.chance.choice([0, 0, 3600, 86400])
        found = Policy(**few, within=within)
        return found if found else Policy(last=1)

    def rewrite(self, name: str, file: str, content: bytes) -> None:
        """The file may be a link to the one in another repository."""
        path = self.repo / name / file
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    # --- what is expected -------------------------------------------------------------------------

    def there(self) -> list[Backup]:
        """In the order in which they were made. A set is there if the backup that leads it is not set aside."""
        return [
            one
            for one in self.order
            if one.id not in self.unread
            and (self.repo / one.id).exists()
            and not (self.repo / f"{(*one.members, one.id)[0]}.partial").exists()
        ]

    def newest(self) -> set[str]:
        """IDs that no prune may remove: of each suffix the newest that can be restored by itself and the newest of
        which the whole set can be, and the newest set."""
        there = self.there()
        ids = {one.id for one in there}
        filled = {one.suffix for one in there if one.entries}
        alone = {one.id for one in there if one.id not in self.lost and (one.entries or one.suffix not in filled)}
        whole = [one for one in there if alone.issuperset(one.members) and one.id in alone]
        newest = {one.suffix: one.id for one in there if one.id in alone}
        newest_whole = {one.suffix: one.id for one in whole}
        last_set = next((one.members for one in reversed(whole) if one.members), ())
        return ids.intersection({*newest.values(), *newest_whole.values(), *last_set})

    def check(self) -> None:
        """What is not damaged can still be restored, and the order of all is known or not told."""
        there = self.there()
        for one in there:
            if one.id not in self.lost:
                assert repository.problem(self.repo, one, alone=True) is None
        listed = repository.listing(self.repo)
        every = (*listed.backups, *listed.future)
        assert [one.members or one.id for one in every] == [one.members or one.id for one in there]


@pytest.mark.parametrize("count", [24, pytest.param(1000, marks=[pytest.mark.heavy, pytest.mark.timeout(7200)])])
def test_random_sequences(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """DITSEED_SEED begins with another sequence, which a failure names."""
    first = int(os.environ.get("DITSEED_SEED", "0"))
    for seed in range(first, first + count):
        chance = random.Random(seed)
        world = World(made, tmp_path / str(seed), chance)
        world.repo.mkdir(mode=0o700)

        def kill(name: str, chance: random.Random = chance) -> None:
            if name == "prune.middle" and chance.random() < 0.1:
                raise Killed

        monkeypatch.setattr(repository, "now", lambda world=world: world.now)
        monkeypatch.setattr(repository, "killpoint", kill)
        acts = [world.run, world.run, world.run, world.prune, world.damage, world.clock]
        done = []
        try:
            for _ in range(20):
                world.now += datetime.timedelta(minutes=chance.choice([1, 60, 900]))
                act = chance.choice(acts)
                done.append(act.__name__)
                act()
                world.check()
            stay = sorted(world.newest())
            if stay and chance.random() < 0.05:
                assert put_back(world.repo, world.repo / "restored", stay[-1]).entries is not None
        except BaseException as error:
            raise AssertionError(f"sequence {seed}: {' '.join(done)}") from error
        shutil.rmtree(world.repo)
