"""All databases of a server backed up at one moment: a tree and its accesslog tell of the same last write."""

from __future__ import annotations

import datetime
import os
import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs

from fixtures import s3
from fixtures.churn import Churn
from fixtures.history import History, history
from fixtures.partial import LOG, Stored
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.waiting import until
from loader import errors
from loader.mdb import snapshot
from loader.mdb.snapshot import AccessLog
from loader.operations.backup import manifest, repository
from loader.operations.backup import run as taking
from loader.operations.backup.manifest import MANIFEST, Backup, Verification
from loader.operations.backup.options import KEEP_ALL, BackupOptions, Policy
from tests.support.backups import ONE_ENTRY, QUIET, backup, put_back, take
from tests.support.command import Done
from tests.support.keys import generated

pytestmark = pytest.mark.slapd
TREE, LOG_ID = "dc-example-dc-com", "cn-accesslog"


class Logged(History):
    @property
    def pair(self) -> AccessLog:
        return AccessLog(self.log, self.server.database_dir, self.server.suffix)

    def change(self) -> None:
        with running(self.server):
            self.server.describe("changed")

    def run(self, repo: object, *words: object, **environment: str) -> Done:
        where = ("--config", self.server.config_path, "--all-databases")
        return backup("run", repo, "--init", *where, *words, **environment)

    def restore(self, repo: object, *words: object, name: str = "latest", **environment: str) -> Done:
        where = ("--config", self.server.config_path, "--all-databases")
        return backup("restore", repo, name, *where, *words, **environment)


@contextmanager
def running(server: Slapd) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


@contextmanager
def logged(scratch: Path) -> Iterator[Logged]:
    """Not started, and empty."""
    with history(scratch, Settings(server_id=1), logs="logops writes\nlogsuccess TRUE") as made:
        yield Logged(made.server, made.log)


@pytest.fixture(scope="module")
def source(people_ldif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """With 1,029 entries and one in its log; stopped."""
    with logged(tmp_path_factory.mktemp("source") / "logged") as made:
        made.server.slapadd(people_ldif, "-w")
        made.change()
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Logged]:
    with logged(tmp_path / "other") as made:
        yield made


def ids(repo: Path) -> list[str]:
    return [one.id for one in repository.listing(repo).backups]


class Write(NamedTuple):
    csn: str
    kind: str
    uuid: str


def written(log: Stored) -> list[Write]:
    """What a log tells of, in its order."""
    names = ("entryCSN", "reqType", "reqEntryUUID")
    told = [entry for entry in log.values() if entry.keys() >= {*names}]
    return sorted(Write(*(entry[name][0].decode() for name in names)) for entry in told)


def faults(restored: Logged, live: list[Write]) -> list[str]:
    """How the tree and the log of a restored server tell of different moments. live: all that the log that goes on
    tells of, so what came after the restored one."""
    entries = restored.stored().values()
    tree = {entry["entryUUID"][0].decode(): entry["entryCSN"][0].decode() for entry in entries}
    last = written(restored.stored(LOG))[-1]
    found = []
    later: dict[str, Write] = {}
    for one in live:
        if one.csn > last.csn:
            later.setdefault(one.uuid, one)
    for uuid, one in later.items():
        if (uuid in tree) == (one.kind == "add"):
            found.append(f"the tree is after {one}, the log before")
    if last.kind == "delete" and last.uuid in tree:
        found.append(f"the log is after {last}, the tree before")
    if last.kind != "delete" and tree.get(last.uuid) != last.csn:
        found.append(f"the log ends with {last}, the tree has {tree.get(last.uuid)}")
    if max(tree.values()) > last.csn:
        found.append(f"the tree has {max(tree.values())}, the log ends with {last}")
    return found


@pytest.mark.long
def test_while_the_server_changes(source: Logged, other: Logged, tmp_path: Path) -> None:
    repo, apart = tmp_path / "repo", tmp_path / "apart"
    with running(source.server), Churn(source.server, rate=1000.0) as churn:
        for number in range(3):
            churn.wait_for(50 * (number + 1))
            source.run(repo).ok()
        for database in (LOG, source.server.suffix):  # to show that what follows can fail
            take(source.server, apart, suffix=database)
            churn.wait_for(churn.changes() + 50)
    everything = written(source.stored(LOG))
    for one in repository.listing(repo).backups:
        if one.id in one.members[:1]:
            other.restore(repo, "--replace", name=one.id).ok()
            assert faults(other, everything) == []
    for suffix in (LOG, source.server.suffix):
        backup("restore", apart, "latest", "--config", other.server.config_path, "-b", suffix, "--replace").ok()
    assert faults(other, everything)


def test_where_entries_are_only_deleted(people_ldif: Path, tmp_path: Path) -> None:
    """Nothing tells a snapshot without the entry from one that has it no more, so none is taken."""
    with logged(tmp_path / "own") as own:
        own.server.slapadd(people_ldif, "-w")
        with running(own.server):
            people = [name for name, _ in own.server.search("(uid=*)", ("1.1",))]
            ended = threading.Event()

            def delete() -> None:
                with own.server.connection() as handle:
                    for name in people:
                        if ended.is_set():
                            return
                        handle.delete_s(name)

            work = threading.Thread(target=delete)
            work.start()
            try:
                until(lambda: written(own.stored(LOG)), lambda: "nothing was deleted")
                with (
                    pytest.raises(errors.NoCommonMoment),
                    snapshot.images([own.server.database_dir, own.log], [own.pair], 0.0),
                ):
                    pass
            finally:
                ended.set()
                work.join()
            with snapshot.images([own.server.database_dir, own.log], [own.pair], 0.0) as found:
                assert [one.facts.format for one in found] == [found[0].facts.format] * 2


def test_without_an_index_it_is_said(source: Logged, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """In the index of entryCSN it is looked up which of both has the last write."""
    with closing(Slapd(Settings(indexes=("objectClass eq",)))) as plain:
        plain.slapadd(ONE_ENTRY)
        pair = AccessLog(source.log, plain.database_dir, plain.suffix)
        with snapshot.images([plain.database_dir, source.log], [pair]):
            pass
    assert "no index of entryCSN" in caplog.text


def test_there_and_back(source: Logged, other: Logged, tmp_path: Path) -> None:
    """Incrementally. The latest is the set, not the one of its backups that the list shows last."""
    repo = tmp_path / "repo"
    source.run(repo, "--incremental").ok()
    source.change()
    leader, log = source.run(repo, "--incremental", "--keep-last", 1, "--json").ok().facts["members"]
    assert sorted(ids(repo)) == sorted((leader, log))
    assert [one.split("Z-")[1] for one in (leader, log)] == [TREE, LOG_ID]
    shown = backup("show", repo, "latest", "-b", LOG).ok().out
    assert f"members {leader}" in " ".join(shown.split())
    assert backup("show", repo, "latest", "--json").ok().facts["backup"]["id"] == leader
    told = other.restore(repo, "--json").ok().facts["databases"]
    assert [one["target"] for one in told] == [str(other.server.database_dir), str(other.log)]
    other.server.own_files()
    for suffix in (source.server.suffix, LOG):
        assert other.slapcat(suffix) == source.slapcat(suffix)
    other.change()
    drilled = backup("drill", repo, "latest", "--json").ok().facts["drills"]
    assert [one["backup"] for one in drilled] == [leader, log]
    assert backup("drill", repo, "latest", "-b", LOG, "--json").ok().facts["backup"] == log
    into = ("latest", "--target", tmp_path / "made")
    backup("restore", repo, *into).refused(errors.UsageProblem, "-b")
    backup("restore", repo, *into, "-b", source.server.suffix).ok()
    told = backup("check", repo).ok().out
    assert all(part in told for part in (f"{leader}, ", "of 2 databases", "count=1")), told
    listed = backup("list", repo).ok().out
    assert all(part in listed for part in ("1 of 2", "2 of 2")), listed


@pytest.mark.long
def test_a_killed_run_leaves_no_set(source: Logged, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    assert source.run(repo, "--incremental", DITSEED_KILL_AT="publish.middle").status == -9
    assert ids(repo) == []
    source.run(repo).ok()
    assert source.run(repo, DITSEED_KILL_AT="copy.middle").status == -9
    assert len(ids(repo)) == 2
    source.run(repo).ok()
    assert not list(repo.glob("*.partial"))
    assert len(repository.find_set(repo, "latest")) == 2


@pytest.mark.long
def test_one_directory_is_in_use(source: Logged, other: Logged, tmp_path: Path) -> None:
    """Nothing is restored then, not even the database that comes first."""
    repo = tmp_path / "repo"
    source.run(repo).ok()
    with ExitStack() as stack:
        holder = stack.enter_context(logged(tmp_path / "holder"))
        shutil.rmtree(other.log)
        other.log.symlink_to(holder.log)
        stack.enter_context(running(holder.server))
        other.restore(repo).refused(errors.TargetInUse)
    assert not (other.server.database_dir / "data.mdb").exists()


@pytest.mark.long
def test_what_is_of_one_moment_stays_together(source: Logged, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    for _ in range(3):
        source.run(repo).ok()
    log, first = ids(repo)[:2]
    backup("drill", repo, first).ok()
    backup("prune", repo, "-b", LOG, "--keep-last", 1).ok()
    left = ids(repo)
    assert len(left) == 4
    assert {first, log} <= set(left)
    assert "of the same moment as" in backup("prune", repo, "--keep-last", 1, "--dry-run").ok().out


@pytest.mark.parametrize("gone", [TREE, LOG_ID])
def test_a_set_without_a_member(source: Logged, tmp_path: Path, gone: str) -> None:
    repo = tmp_path / "repo"
    older = source.run(repo, "--json").ok().facts["members"]
    leader, log = source.run(repo, "--json").ok().facts["members"]
    lost, other, suffix = (leader, log, LOG) if gone == TREE else (log, leader, source.server.suffix)
    shutil.rmtree(repo / lost)
    assert [one.id for one in repository.find_set(repo, older[0])] == older
    done = backup("check", repo)
    assert (done.status, "belongs to a set with" in done.out) == (2, True), done
    source.restore(repo).refused(errors.SetIncomplete)
    into = ("--target", tmp_path / "made")
    backup("restore", repo, "latest", *into, "-b", suffix).refused(errors.SetIncomplete)
    backup("restore", repo, other, *into).ok()
    backup("prune", repo, "--keep-last", 1).ok()
    assert len(ids(repo)) == 3


@pytest.mark.long
def test_encrypted_on_another_host(source: Logged, other: Logged, scratch: Path) -> None:
    key = generated(scratch / "key")
    with s3.running() as far:
        where, env, identity = f"s3://{s3.BUCKET}/sets", far.environment, ("--identity", key.path)
        made = source.run(where, "--recipient", key.public, "--json", **env).ok().facts
        assert len(made["members"]) == 2
        backup("check", where, **env).ok()
        backup("verify", where, **env).ok()
        other.restore(where, **env).refused(errors.BackupEncrypted, where)
        other.restore(where, *identity, **env).ok()
        backup("drill", where, "latest", *identity, "--tmp", scratch, **env).ok()
        names = {name.rpartition("/")[2] for name in far.keys(f"sets/{made['id']}/")}
    assert {"pages.pack.age", "config.ldif.age", "pages.map.age", "manifest.json"} <= names
    assert other.slapcat(LOG) == source.slapcat(LOG)


# --- what is kept ----------------------------------------------------------------------------------
#
# Whatever is done to a repository, and whatever the clock does: the newest backup that can be restored stays, and sets
# stay whole. Random sequences of runs, prunes with random policies, damage, kills and clock steps, on copies of backups
# that `backup run` made. What is expected is worked out from what was done, not from what ditseed says of it.

START = datetime.datetime(2026, 3, 28, 22, 0, tzinfo=datetime.timezone.utc)
SUFFIX = "dc=example,dc=com"
KINDS = ("set", "set", "set, incremental", "tree", "tree", "log", "tree, incremental", "emptied")
Kinds = dict[str, tuple[Path, tuple[Backup, ...]]]  # a repository of each kind, and what is in it
STEPS = (-400, -26, -3, -0.04, 0.04, 2, 30, 9000)  # hours by which a clock is wrong all at once


@pytest.fixture(scope="module")
def made(people_ldif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Logged, Kinds]]:
    """A server, and what `backup run` made of it."""
    scratch = tmp_path_factory.mktemp("kept")
    with logged(scratch / "logged") as source:
        source.server.slapadd(people_ldif, "-w")
        source.change()
        kinds = {}
        for kind in sorted(set(KINDS)):
            repo = scratch / kind.replace(", ", "-")
            one = taking.run(options(source, repo, kind), QUIET)
            kinds[kind] = repo, repository.members(repo, one)
        yield source, kinds


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

    source: Logged
    kinds: Kinds
    repo: Path
    chance: random.Random
    now: datetime.datetime = START
    order: list[Backup] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Mostly by copying what `backup run` made."""
        kind = self.chance.choice(KINDS)
        policy = self.policy() if self.chance.random() < 0.5 else KEEP_ALL
        if self.chance.random() < 0.02:
            asked = options(self.source, self.repo, kind.replace("emptied", "tree"))
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
        template, found = self.kinds[kind]
        taken: set[str] = set()
        repository.Repository(self.repo).clean()
        follows = repository.follows(self.repo, self.now)
        for one in found:
            taken.add(repository.new_id(self.repo, self.now, one.suffix, taken))
        ids = sorted(taken, key=lambda name: "accesslog" in name)
        for one, name in zip(found, ids, strict=True):
            members, entries = tuple(ids) if len(ids) > 1 else (), 0 if kind == "emptied" else one.entries
            its = {"id": name, "made": self.now.isoformat(), "follows": follows, "members": members, "entries": entries}
            copied = manifest.sealed(structs.replace(one, **its))
            shutil.copytree(template / one.id, self.repo / name, copy_function=os.link)
            self.rewrite(name, MANIFEST, manifest.text(copied))
            self.add(copied)
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
        except errors.BackupFromFuture:
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
        files = {"data": one.file, "map": "pages.map", "config": one.config_file}
        if how == "gone":
            shutil.rmtree(place)
        elif how in files:
            (place / files[how]).unlink(missing_ok=True)
        elif how == "cut":
            self.rewrite(one.id, one.file, (place / one.file).read_bytes()[:-1])
        elif how == "manifest":
            self.rewrite(one.id, MANIFEST, b"{")
            self.unread.add(one.id)
        else:
            repository.keep(self.repo, Verification(backup=one.id, made=self.now.isoformat(), problem="is bad"))

    def clock(self) -> None:
        self.now += datetime.timedelta(hours=self.chance.choice(STEPS))

    def policy(self) -> Policy:
        few = {name: self.chance.randrange(3) for name in self.chance.sample(("last", "daily", "weekly", "monthly"), 2)}
        return Policy(**few, within=self.chance.choice([0, 0, 3600, 86400])) or Policy(last=1)

    def rewrite(self, name: str, file: str, content: bytes) -> None:
        """The file may be a link to the one in another repository."""
        path = self.repo / name / file
        path.unlink(missing_ok=True)
        path.write_bytes(content)

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
def test_random_sequences(
    made: tuple[Logged, Kinds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """DITSEED_SEED begins with another sequence, which a failure names."""
    first = int(os.environ.get("DITSEED_SEED", "0"))
    for seed in range(first, first + count):
        chance = random.Random(seed)
        world = World(*made, tmp_path / str(seed), chance)
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
