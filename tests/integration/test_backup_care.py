"""Backups later: verified, pruned, checked; runs and drills that are killed, whose disk fills or goes away."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import lmdb
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.waiting import until
from loader import errors
from loader.mdb import meta
from loader.operations.backup import pack, repository
from loader.operations.backup.check import Status, check
from loader.operations.backup.manifest import Verification
from loader.operations.backup.options import Limits, Packing, Policy
from loader.run.log import exclusive
from loader.storage import files
from tests.support.backups import (
    ONE_ENTRY,
    assert_all_good,
    backup,
    dated,
    drill_latest,
    fill,
    flip,
    forge,
    only,
    take,
    verify,
)
from tests.support.disks import loop_filesystem
from tests.support.stopping import stopped_at

pytestmark = pytest.mark.slapd

TREE = ONE_ENTRY + "dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n"
STEPS = ("look", "copy", "manifest", "publish", "prune")
POINTS = ("start", "unrecorded", "recorded")


@pytest.fixture
def source(stopped: Slapd) -> Path:
    """The directory of a database with 1,029 entries. Read it only."""
    return stopped.database_dir


def aged(repo: Path, days: Sequence[float]) -> list[str]:
    """Copies of the only backup, so many days older; their IDs. The original goes."""
    one, now = only(repo), repository.now()
    names = [dated(repo, one, now - datetime.timedelta(days=ago)) for ago in sorted(days, reverse=True)]
    shutil.rmtree(repo / one.id)
    return names


def test_a_good_one(repo: Path) -> None:
    (found,) = verify(repo, sample=1e-9)
    assert (found.is_good, found.is_whole) == (True, False)
    assert 0 < found.read < found.stored
    (found,) = verify(repo)
    assert found.is_whole
    assert repository.proofs(repo, only(repo)).verification == found
    assert "result good" in backup("show", repo, "latest").ok().out
    assert backup("list", repo, "--json").ok().facts["backups"][0]["verification"]
    assert check(repo, Limits(3600, verify_age=3600)).status is Status.OK
    assert check(repo, Limits(3600, verify_age=-1)).status is Status.WARNING
    (record,) = (repo / only(repo).id).glob("verified-*")  # one that was changed does not count
    record.write_bytes(record.read_bytes().replace(b'"problem": ""', b'"problem": "?"'))
    assert repository.proofs(repo, only(repo)).verification is None


@pytest.mark.long("pages.pack")
@pytest.mark.parametrize("name", ["pages.pack", "pages.map", "manifest.json"])
def test_each_flipped_bit_is_found(repo: Path, name: str) -> None:
    path = repo / only(repo).id / name
    sound = path.read_bytes()
    step = max(1, len(sound) // 97)
    for place in range(0, len(sound), step):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        if name == "manifest.json":
            assert repository.listing(repo).broken, place
        else:
            assert not verify(repo)[0].is_good, place
    assert backup("verify", repo).status == 1


def test_a_flipped_configuration(stopped: Slapd, repo: Path) -> None:
    flip(repo / only(repo).id / "config.ldif")
    assert "config.ldif" in verify(repo)[0].problem
    assert "config.ldif" in drill_latest(repo).problem
    assert drill_latest(repo, config_path=stopped.config_path).is_good
    backup("extract", repo, "latest", "--filter", "(ou=*)").refused(errors.BackupDamaged, "config.ldif")


@pytest.mark.parametrize("name", ["pages.map", "config.ldif", "pages.pack"])
def test_a_file_that_is_gone(repo: Path, tmp_path: Path, name: str) -> None:
    """It is told by every verb that can know, before the work."""
    path = repo / only(repo).id / name
    content = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_bytes(content[:-1])):
        damage()
        checked, listed = backup("check", repo), backup("list", repo).ok()
        assert (checked.status, name in checked.out) == (2, True), checked
        assert (listed.out.splitlines()[1].split()[-1], name in listed.err) == ("no", True), listed
        assert backup("verify", repo).status == 1
        backup("restore", repo, "latest", "--target", tmp_path / "x").refused(errors.BackupDamaged)
        drilled = backup("drill", repo, "latest")
        assert (drilled.status, name in drilled.out) == (1, True), drilled
        assert not (tmp_path / "x").exists()


def test_one_bad_manifest_is_no_reason_not_to_verify_the_others(repo: Path) -> None:
    first, last = aged(repo, [0, 1])
    (repo / first / "manifest.json").write_text("{")
    done = backup("verify", repo, "--json")
    assert done.status == 1
    found = {one["backup"]: one["problem"] for one in done.facts["verified"]}
    assert found[last] == ""
    assert "manifest.json" in found[first]
    assert not list((repo / first).glob("verified-*"))


def test_what_is_kept(repo: Path) -> None:
    names = aged(repo, [0, 1, 2, 3, 40, 400])
    planned = repository.plan_pruning(repo, Policy(daily=2, within=2.5 * 86400))
    assert planned.removed == tuple(sorted(names[:3]))
    yearly = repository.plan_pruning(repo, Policy(yearly=9))
    assert names[-1] in yearly.kept
    assert backup("prune", repo, "--keep-last", "2", "--dry-run").ok().out.count("would be removed") == 4
    assert len(repository.listing(repo).backups) == 6
    found = repository.prune(repo, Policy(last=2))
    assert {one.id for one in repository.listing(repo).backups} == set(names[-2:])
    assert found.freed == 4 * repository.listing(repo).backups[0].stored_bytes


def test_the_last_good_one_is_never_removed(repo: Path) -> None:
    """Nor one that nobody can read."""
    names = aged(repo, [0, 1, 2, 3])
    verify(repo, names[0])
    for name in names[2:]:
        (repo / name / "pages.pack").write_bytes(b"")
        verify(repo, name)
    (repo / "20200101T000000Z-mystery").mkdir()
    repository.prune(repo, Policy(last=1))
    left = {one.id for one in repository.listing(repo).backups}
    assert left == {names[0], names[1], names[3]}
    assert (repo / "20200101T000000Z-mystery").is_dir()
    for name in left:
        (repo / name / "pages.pack").write_bytes(b"")
    assert repository.prune(repo, Policy(last=1)).removed == (), "where none can be restored, all stay"


@pytest.mark.parametrize("how", ["cut", "gone", "pages.map"])
def test_one_that_cannot_be_restored_takes_no_place(repo: Path, source: Path, how: str) -> None:
    """Nobody has verified it, but its files tell."""
    names = aged(repo, [0.1, 1.1, 2.1])
    data = repo / names[-1] / ("pages.map" if how == "pages.map" else "pages.pack")
    data.unlink() if how == "gone" else data.write_bytes(data.read_bytes()[:-1])
    assert repository.plan_pruning(repo, Policy(last=1)).removed == (names[0],)
    repository.prune(repo, Policy(last=1))
    assert backup("check", repo).status == 2
    backup("restore", repo, names[1], "--target", repo / "restored").ok()
    backup("run", repo, "--init", "--from", source, "--keep-last", "2").ok()
    left = [one.id for one in repository.listing(repo).backups]
    assert (len(left), left[0]) == (2, names[1])


def test_a_pin_holds_until_its_date(repo: Path) -> None:
    """The latest of several; one that has passed holds nothing."""
    names = aged(repo, [0, 1, 2, 3])
    repository.init(repo)
    for year in (2998, 2999, 2997):
        backup("pin", repo, names[0], "--until", f"{year}-01-01").ok()
    (repo / names[1] / "pinned-20010101T000000Z.json").write_bytes(b"")
    told = backup("prune", repo, "--keep-last", "1").ok().out
    assert "pinned until 2999-01-01" in told
    assert [one.id for one in repository.listing(repo).backups] == [names[0], names[-1]]
    assert "2999-01-01" in backup("list", repo).ok().out
    assert "pinned until" in backup("show", repo, names[0]).ok().out
    backup("pin", repo, names[0], "--release").ok()
    backup("prune", repo, "--keep-last", "1").ok()
    assert [one.id for one in repository.listing(repo).backups] == names[-1:]
    for words in ((), ("--until", "2001-01-01"), ("--until", "2999-01-01", "--release")):
        backup("pin", repo, names[-1], *words).refused(errors.UsageProblem)


def test_what_only_a_record_calls_damaged_stays(repo: Path) -> None:
    """As long as the policy would keep it; who can add files can forge a record."""
    names = aged(repo, [0, 1, 2, 3])
    for name in names[:3]:
        repository.keep(repo, Verification(backup=name, problem="it is said"))
    found = repository.prune(repo, Policy(last=2))
    assert "last, though it was found damaged" in found.kept[names[2]]
    assert [one.id for one in repository.listing(repo).backups] == names[2:]


def test_one_that_arrived_out_of_order_takes_no_place(repo: Path) -> None:
    """Somebody has put it there later, and dated it back; where all arrived at once, a repository was copied."""
    names = aged(repo, [0, 1, 2, 3, 4, 5])
    listed = {one.id: one for one in repository.listing(repo).backups}
    far = repository.Repository(repo)
    far.arrived = {name: listed[name].when for name in names}
    planted = names[3]
    far.arrived[planted] = repository.now() + datetime.timedelta(days=2)
    found = repository.plan_pruning(far, Policy(last=3))
    assert {*found.kept} == {*names[2:]}
    assert "copied, or forged" in found.kept[planted][0]
    assert repository.find(far, listed[planted].when).id == names[2]
    far.arrived = dict.fromkeys(names, repository.now())
    assert {*repository.plan_pruning(far, Policy(last=3)).kept} == {*names[3:]}


def test_the_policy_of_a_repository(source: Path, tmp_path: Path) -> None:
    """`run` and `prune` follow it, unless they are told another."""
    place, run = tmp_path / "repo", ("run", tmp_path / "repo", "--from", source)
    assert backup("init", place, "--keep-last", "2", "--json").ok().facts["created"]
    for _ in range(3):
        backup(*run).ok()
    assert len(repository.listing(place).backups) == 2
    backup(*run, "--keep-last", "3").ok()
    assert len(repository.listing(place).backups) == 3
    for words in ((), ("--keep-last", "1")):
        assert not backup("init", place, *words, "--json").ok().facts["created"]
    backup("prune", place).ok()
    assert len(repository.listing(place).backups) == 1
    (place / repository.MARKER).write_text("{")
    backup("prune", place).refused(errors.UsageProblem)


def test_several_repositories(source: Path, tmp_path: Path) -> None:
    """Each gets a backup, though another one fails; hooks tell of each."""
    places = [tmp_path / "absent", tmp_path / "one", tmp_path / "two"]
    report = tmp_path / "report"
    line = 'echo "$DITSEED_VERB $DITSEED_REPO $DITSEED_BACKUP $DITSEED_STATUS $DITSEED_ERROR" >>'
    hooks = ("--on-success", f"{line} {report}", "--on-failure", f"{line} {report}; exit 3")
    for place in places[1:]:
        repository.init(place)
    where = [word for place in places[1:] for word in ("-R", place)]
    done = backup("run", places[0], *where, "--from", source, *hooks)
    done.refused(errors.NoRepository, f"the backup in {places[0]} failed", "ended with exit status 3")
    failed, *good = report.read_text().splitlines()
    status, code = errors.NoRepository.exit_status, errors.NoRepository.code
    assert failed.startswith(f"backup run {places[0]}  {status} {code}: {places[0]}")
    assert good == [f"backup run {place} {only(place).id} 0 " for place in places[1:]]
    report.unlink()
    flip(places[1] / only(places[1]).id / "pages.pack")
    assert backup("verify", places[1], *hooks).status == 1
    assert report.read_text() == f"backup verify {places[1]} {only(places[1]).id} 1 \n"


@pytest.mark.parametrize("hours", [24, 0.05])
def test_the_clock_went_back(
    repo: Path, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hours: float
) -> None:
    """What is taken then is the latest all the same, also once the clock is right again."""
    before, right = only(repo), repository.now()
    monkeypatch.setattr(repository, "now", lambda: right - datetime.timedelta(hours=hours))
    assert repository.listing(repo).future == ((before,) if hours > 1 else ())
    taken = take(source, repo)
    assert repository.listing(repo).future == ()
    assert f"backup {before.id} is dated {before.made}, later than now" in caplog.text
    monkeypatch.setattr(repository, "now", lambda: right + datetime.timedelta(minutes=1))
    assert [one.id for one in repository.listing(repo).backups] == [before.id, taken.id]
    assert repository.find(repo, "latest") == taken
    done = backup("check", repo)
    assert (done.status, "the clock was wrong or had gone back" in done.out) == (1, True), done
    assert repository.prune(repo, Policy(last=1)).removed == (before.id,)


def test_those_of_a_lost_database_take_no_place(tmp_path: Path) -> None:
    """It is told each time that the database has no entries."""
    with closing(Slapd()) as server:
        server.slapadd(TREE)
        command = ("run", tmp_path, "--init", "--config", server.config_path)
        assert backup(*command).ok().err == ""
        full = only(tmp_path)
        (server.database_dir / "data.mdb").unlink()
        server.start()
        server.stop()
        for _ in range(2):
            told = backup(*command, "--keep-last", "1").ok().err
            assert f"the database of {server.suffix} has no entries" in told
        backup(*command, "--kind", "ldif").refused(errors.EmptyInput)  # it could not be restored
    found = repository.listing(tmp_path).backups
    assert (found[0], [one.entries for one in found]) == (full, [2, 0])
    drilled = drill_latest(tmp_path)
    assert (drilled.problem, drilled.entries) == ("", 0)


def test_what_prune_refuses(repo: Path, source: Path) -> None:
    """Two at a time, as `run` does."""
    aged(repo, [0, 1])
    with pytest.raises(errors.UsageProblem):
        repository.prune(repo, Policy())
    with exclusive(repo / repository.LOCK):
        with pytest.raises(errors.Locked):
            repository.prune(repo, Policy(last=1))
        with pytest.raises(errors.Locked, match=str(os.getpid())):
            take(source, repo)
    ahead = repository.now() + datetime.timedelta(days=900)
    forge(repo, repository.listing(repo).backups[-1], made=ahead.isoformat())
    with pytest.raises(errors.BackupFromFuture):
        repository.prune(repo, Policy(last=1))


@pytest.mark.rows(1, "prune.middle-")
@pytest.mark.parametrize(
    ("point", "more"),
    [
        *((point, "") for point in ("copy.middle", "prune.middle", *(f"{a}.{b}" for a in STEPS for b in POINTS))),
        *((point, "--incremental") for point in ("copy.middle", "publish.middle", "publish.recorded")),
    ],
)
def test_run_killed(stopped: Slapd, repo: Path, point: str, more: str) -> None:
    if more:
        take(stopped, repo, incremental=True)
    *_, before = assert_all_good(repo)
    command = ("run", repo, "--config", stopped.config_path, "--init", "--keep-last", 1, *more.split())
    assert backup(*command, DITSEED_KILL_AT=point).status == -signal.SIGKILL
    left = assert_all_good(repo)
    assert before in left or len(left) == 1
    backup(*command).ok()
    assert not repository.unfinished_backups(repo)
    (after,) = assert_all_good(repo)
    assert after not in (before, *left)
    assert {path.name for path in (repo / "pages").glob("*")} == {use.name for use in only(repo).packs}


@pytest.mark.rows(1)
@pytest.mark.parametrize("point", ["drill.restored", "drill.started"])
def test_drill_killed(repo: Path, scratch: Path, point: str) -> None:
    command = ("drill", repo, "latest", "--tmp", scratch)
    assert backup(*command, DITSEED_KILL_AT=point).status == -signal.SIGKILL
    assert repository.proofs(repo, only(repo)).drill is None
    (left,) = scratch.iterdir()

    def uses(process: Path) -> bool:
        with suppress(OSError):
            return str(left).encode() in (process / "cmdline").read_bytes()
        return False

    until(lambda: not any(map(uses, Path("/proc").glob("[0-9]*"))))  # the kernel ends the drill's slapd with the drill
    backup(*command).ok()
    assert not list(scratch.iterdir())


def test_a_backup_that_has_its_name_stays(source: Path, tmp_path: Path) -> None:
    """Also where the run is ended before it has written down that it was published."""
    command = ("backup", "run", "--init", "--from", source, "-R", tmp_path)
    assert stopped_at("publish.unrecorded", *command).end(signal.SIGTERM).status == 143
    backup("verify", tmp_path, only(tmp_path).id).ok()


def test_free_pages_need_no_room() -> None:
    with closing(Slapd()) as server, loop_filesystem(8) as disk:
        server.slapadd(ONE_ENTRY)
        with lmdb.open(str(server.database_dir), max_dbs=64, map_size=1 << 30) as opened:
            with opened.begin(write=True) as transaction:
                junk = opened.open_db(b"junk", transaction)
                for number in range(4000):
                    transaction.put(b"%d" % number, bytes(3000), db=junk)
            with opened.begin(write=True) as transaction:
                transaction.drop(junk)
        used, free = meta.read_meta(server.database_dir).used, files.free_bytes(disk)
        assert used > free
        made = take(server.database_dir, disk / "repo", packing=Packing(keep_free=free // 2))
        assert made.data_bytes < used // 4
        with pytest.raises(errors.NoSpace, match="needed"):
            take(server.database_dir, disk / "repo", packing=Packing(keep_free=files.free_bytes(disk)))


def in_the_middle(monkeypatch: pytest.MonkeyPatch, fault: Callable[[], object]) -> None:
    """`fault` happens once, behind the first piece that is stored; pieces are small, so that others follow."""
    happened: list[object] = []

    def happen(point: str) -> None:
        if point == "copy.middle" and not happened:
            happened.append(fault())

    monkeypatch.setattr(pack, "PIECE", 64 << 10)
    monkeypatch.setattr(pack, "killpoint", happen)


@pytest.mark.rows(1)
@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("looks", [True, False])
def test_the_disk_fills(stopped: Slapd, monkeypatch: pytest.MonkeyPatch, looks: bool, incremental: bool) -> None:
    """Noticed before the next piece is written; or by the write itself, where the room goes just then."""
    with loop_filesystem(8) as disk:
        repo = disk / "repo"
        take(stopped, repo)

        def fill_it() -> None:
            fill(disk)
            if not looks:
                monkeypatch.setattr(files, "require_space", lambda *told: None)

        with monkeypatch.context() as changed:
            in_the_middle(changed, fill_it)
            with pytest.raises(errors.NoSpace):
                take(stopped, repo, incremental=incremental)
        assert len(assert_all_good(repo)) == 1
        assert not repository.unfinished_backups(repo)
        (disk / "filler").unlink()
        monkeypatch.undo()
        take(stopped, repo, incremental=incremental)
        assert len(assert_all_good(repo)) == 2


@pytest.mark.rows(1)
@pytest.mark.parametrize("how", ["moved", "removed"])
def test_the_repository_goes_away(stopped: Slapd, repo: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    away = repo.with_name("away")

    def vanish() -> None:
        repo.rename(away)
        if how == "removed":
            shutil.rmtree(away)

    with monkeypatch.context() as changed:
        in_the_middle(changed, vanish)
        with pytest.raises(errors.LoaderError):
            take(stopped, repo)
        if how == "moved":  # it is held open: the backup goes where the repository has gone
            away.rename(repo)
            assert len(assert_all_good(repo)) == 2
    take(stopped, repo)
    assert not repository.unfinished_backups(repo)
    assert len(assert_all_good(repo)) == (3 if how == "moved" else 1)


def test_throttled(stopped: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "PIECE", 64 << 10)
    rate, started = 4 << 20, time.monotonic()
    made = take(stopped, tmp_path, packing=Packing(throttle=rate))
    assert time.monotonic() - started > (made.data_bytes - 8192) / rate


@pytest.mark.long
def test_the_repository_is_unmounted_meanwhile(source: Path) -> None:
    """umount -l leaves the open directory usable, but the backup is not where the operator looks for it."""
    with loop_filesystem(20) as disk:
        stopped = stopped_at("copy.middle", "backup", "run", "--init", "--from", source, "-R", disk)
        subprocess.run(["umount", "-l", disk], check=True)
        try:
            done = stopped.end()
        finally:
            subprocess.run(["mount", "-o", "loop", disk.with_name("image"), disk], check=True)
    done.refused(errors.SystemFailed, "was unmounted or moved")


def test_a_directory_that_was_emptied_is_noticed(repo: Path) -> None:
    """By its backup, before those with the entries are pruned."""
    whole = forge(repo, only(repo), entries=2)
    backup("check", repo).ok()
    with closing(Slapd()) as emptied:
        emptied.slapadd(ONE_ENTRY)
        take(emptied.database_dir, repo)
    backup("check", repo).ok()
    assert backup("check", repo, "--max-shrink", "40%").status == 1
    forge(repo, whole, entries=3)
    for damaged in (False, True):
        if damaged:
            (repo / whole.id / "pages.pack").write_bytes(b"")
            backup("verify", repo)
        done = backup("check", repo)
        assert done.status == 1
        assert "has fewer entries (1) than those before it (3)" in done.out
        assert (f"{whole.id} was found damaged" in done.out) is damaged


def test_prometheus_reads_what_is_found(repo: Path, tmp_path: Path) -> None:
    """Without a backup, the time of the last backup, drill and verification is 0: alerts on their age go off."""
    path, before = tmp_path / "backup.prom", repository.now().timestamp()
    backup("verify", repo).ok()
    one = only(repo)
    backup("check", repo, "--metrics", path).ok()
    families = text_string_to_metric_families(path.read_text())
    found = {(one.name, *one.labels.values()): one.value for f in families for one in f.samples}
    assert found["ditseed_backup_status", one.suffix] == 0
    assert found["ditseed_backup_last_entries", one.suffix] == 1029
    assert found["ditseed_backup_last_stored_bytes", one.suffix] == one.stored_bytes
    assert abs(found["ditseed_backup_last_timestamp_seconds", one.suffix] - before) < 300
    assert found["ditseed_backup_verified_timestamp_seconds", one.suffix] >= before - 2
    assert found["ditseed_backup_drilled_timestamp_seconds", one.suffix] == 0
    assert path.stat().st_mode & 0o777 == 0o644
    (repo / one.id / "manifest.json").write_text("{")
    (tmp_path / "empty").mkdir()
    for place, suffix, status in ((repo, "", 2), (tmp_path / "empty", "", 2), (tmp_path / "gone", "dc=x", 3)):
        assert backup("check", place, "--metrics", path, *(["-b", suffix] * bool(suffix))).status == status
        told = path.read_text()
        for name in ("last", "verified", "drilled"):
            assert f'ditseed_backup_{name}_timestamp_seconds{{suffix="{suffix}"}} 0.0' in told
        assert f'ditseed_backup_status{{suffix="{suffix}"}} {status}.0' in told


def test_only_in_one_role_or_on_some_hosts(source: Path, tmp_path: Path) -> None:
    """A provider is spared where consumers make the backups, and the other way round."""
    command = ("run", repo := tmp_path / "repo", "--init", "--from", source)
    backup(*command, "--only-on", "elsewhere.example.com").ok()
    assert not repo.exists()
    backup(*command, "--only-on", "elsewhere", "--only-on", socket.gethostname()).ok()
    assert only(repo)
    with closing(replication.provider()) as provider:
        provider.slapadd(TREE)
        with closing(replication.consumer(provider)) as consumer:
            consumer.slapadd(TREE)
            for server, role in ((provider, "provider"), (consumer, "consumer")):
                command = ("run", tmp_path / role, "--init", "--config", server.config_path)
                other = {"provider": "consumer", "consumer": "provider"}[role]
                assert "none: the database is no" in backup(*command, "-v", "--only-role", other).ok().out
                assert not (tmp_path / role).exists()
                backup(*command, "--only-role", role).ok()
                backup(*command, "--only-role", role, "--all-databases").ok()
                assert len(repository.listing(tmp_path / role).backups) == 2
