"""What becomes of backups afterwards: verified, pruned, and not begun where the disk has no room."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import lmdb
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fixtures import replication
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from loader.errors import BackupDamaged, BackupFromFuture, Locked, NoSpace, UsageProblem
from loader.mdb import meta
from loader.operations.backup import drill as verifying
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup import run as taking
from loader.operations.backup.drill import VerifyOptions
from loader.operations.backup.manifest import Backup
from loader.operations.backup.pack import Packing
from loader.operations.backup.repository import Policy
from loader.operations.backup.run import BackupOptions
from loader.progress import Meter, Progress
from loader.run.log import exclusive
from loader.storage import files
from tests.support.command import ditseed, start
from tests.support.require import require
from tests.support.stopping import Stopping

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slapd

TREE = (
    "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"
    "dn: ou=people,dc=example,dc=com\nobjectClass: organizationalUnit\nou: people\n\n"
)
QUIET = Progress("none")


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    """The directory of a database with two entries. Read it only."""
    with closing(Slapd()) as server:
        server.slapadd(TREE)
        yield server.database_dir


@pytest.fixture
def repo(source: Path, tmp_path: Path) -> Path:
    """With one backup."""
    taking.run(BackupOptions(tmp_path / "repo", source=source), QUIET)
    return tmp_path / "repo"


def only(repo: Path) -> Backup:
    (found,) = repository.listing(repo).backups
    return found


def aged(repo: Path, days: Sequence[float]) -> list[str]:
    """Copies of the only backup, so many days older; their IDs. The original goes."""
    one = only(repo)
    made = []
    for ago in sorted(days, reverse=True):
        when = repository.now() - datetime.timedelta(days=ago)
        name = repository.new_id(repo, when, one.suffix)
        shutil.copytree(repo / one.id, repo / name)
        told = manifest.sealed(dataclasses.replace(one, id=name, made=when.isoformat()))
        (repo / name / "manifest.json").write_bytes(manifest.text(told))
        made.append(name)
    shutil.rmtree(repo / one.id)
    return made


# --- verify -----------------------------------------------------------------------------------------


def test_a_good_one(repo: Path) -> None:
    (found,) = verifying.verify(VerifyOptions(repo), QUIET)
    assert found.is_whole
    assert repository.proofs(repo, only(repo)).verification == found
    told = ditseed("backup", "show", "latest", "-R", repo).ok().out
    assert "read: good" in told
    assert json.loads(ditseed("backup", "list", "-R", repo, "--json").ok().out)["backups"][0]["verification"]


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
        listed = repository.listing(repo)
        if name == "manifest.json":
            assert listed.broken, place
            continue
        (found,) = verifying.verify(VerifyOptions(repo), QUIET)
        assert not found.is_good, place
    assert ditseed("backup", "verify", "-R", repo).status == 1


def test_a_sample_is_a_part(repo: Path) -> None:
    (found,) = verifying.verify(VerifyOptions(repo, sample=1e-9), QUIET)
    assert found.is_good
    assert not found.is_whole
    assert 0 < found.read < found.stored


def test_a_record_that_was_changed_does_not_count(repo: Path) -> None:
    verifying.verify(VerifyOptions(repo), QUIET)
    path = repo / only(repo).id / manifest.VERIFIED
    path.write_bytes(path.read_bytes().replace(b'"problem": ""', b'"problem": "?"'))
    assert repository.proofs(repo, only(repo)).verification is None


# --- prune ------------------------------------------------------------------------------------------


def test_what_is_kept(repo: Path) -> None:
    names = aged(repo, [0, 1, 2, 3, 40, 400])
    planned = repository.plan_pruning(repo, Policy(daily=2, within=2.5 * 86400))
    assert planned.removed == tuple(sorted(names[:3]))
    yearly = repository.plan_pruning(repo, Policy(yearly=9))
    assert names[-1] in yearly.kept
    told = ditseed("backup", "prune", "-R", repo, "--keep-last", "2", "--dry-run").ok().out
    assert told.count("would be removed") == 4
    assert len(repository.listing(repo).backups) == 6
    found = repository.prune(repo, Policy(last=2))
    assert {one.id for one in repository.listing(repo).backups} == set(names[-2:])
    assert found.freed == 4 * repository.listing(repo).backups[0].stored_bytes


def test_the_last_good_one_is_never_removed(repo: Path) -> None:
    """Nor one that nobody can read."""
    names = aged(repo, [0, 1, 2, 3])
    verifying.verify(VerifyOptions(repo, [names[0]]), QUIET)
    for name in names[2:]:
        (repo / name / "pages.pack").write_bytes(b"")
        verifying.verify(VerifyOptions(repo, [name]), QUIET)
    (repo / "20200101T000000Z-mystery").mkdir()
    repository.prune(repo, Policy(last=1))
    left = {one.id for one in repository.listing(repo).backups}
    assert left == {names[0], names[1], names[3]}
    assert (repo / "20200101T000000Z-mystery").is_dir()


@pytest.mark.parametrize("how", ["cut", "gone", "pages.map"])
def test_one_that_cannot_be_restored_takes_no_place(repo: Path, source: Path, how: str) -> None:
    """Nobody has verified it, but its files tell."""
    names = aged(repo, [0.1, 1.1, 2.1])
    data = repo / names[-1] / ("pages.map" if how == "pages.map" else "pages.pack")
    data.unlink() if how == "gone" else data.write_bytes(data.read_bytes()[:-1])
    planned = repository.plan_pruning(repo, Policy(last=1))
    assert planned.removed == (names[0],)
    repository.prune(repo, Policy(last=1))
    assert ditseed("backup", "check", "-R", repo).status == 2
    ditseed("backup", "restore", names[1], "-R", repo, "--target", repo / "restored").ok()
    ditseed("backup", "run", "--init", "--from", source, "-R", repo, "--keep-last", "2").ok()
    left = [one.id for one in repository.listing(repo).backups]
    assert (len(left), left[0]) == (2, names[1])


def test_where_none_can_be_restored_all_stay(repo: Path) -> None:
    names = aged(repo, [0, 1, 2])
    for name in names:
        (repo / name / "pages.pack").write_bytes(b"")
    assert repository.prune(repo, Policy(last=1)).removed == ()


@pytest.mark.parametrize("hours", [24, 0.05])
def test_the_clock_went_back(
    repo: Path, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hours: float
) -> None:
    """What is taken then is the latest all the same, also once the clock is right again."""
    before, right = only(repo), repository.now()
    monkeypatch.setattr(repository, "now", lambda: right - datetime.timedelta(hours=hours))
    taken = taking.run(BackupOptions(repo, source=source), QUIET)
    assert f"backup {before.id} is dated {before.made}, later than now" in caplog.text
    monkeypatch.setattr(repository, "now", lambda: right + datetime.timedelta(minutes=1))
    assert [one.id for one in repository.listing(repo).backups] == [before.id, taken.id]
    assert repository.find(repo, "latest") == taken
    done = ditseed("backup", "check", "-R", repo)
    assert (done.status, "the clock had gone back" in done.out) == (1, True), done
    assert repository.prune(repo, Policy(last=1)).removed == (before.id,)


def test_the_clock_was_ahead(repo: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next backup is known to be the later one, so nothing is refused for long."""
    right = repository.now()
    monkeypatch.setattr(repository, "now", lambda: right + datetime.timedelta(days=900))
    wrong = taking.run(BackupOptions(repo, source=source), QUIET)
    monkeypatch.undo()
    assert repository.listing(repo).future == (wrong,)
    assert ditseed("backup", "check", "-R", repo).status == 2
    for _ in range(2):
        taken = taking.run(BackupOptions(repo, source=source), QUIET)
        assert repository.find(repo, "latest") == taken
    repository.prune(repo, Policy(last=1))
    assert only(repo) == taken


def test_those_of_a_lost_database_take_no_place(tmp_path: Path) -> None:
    """It is told each time that the database has no entries."""
    with closing(Slapd()) as server:
        server.slapadd(TREE)
        command = ("backup", "run", "--init", "--config", server.config_path, "-R", tmp_path / "repo")
        assert ditseed(*command).ok().err == ""
        full = only(tmp_path / "repo")
        (server.database_dir / "data.mdb").unlink()
        server.start()
        server.stop()
        for _ in range(2):
            told = ditseed(*command, "--keep-last", "1").ok().err
            assert f"the database of {server.suffix} has no entries" in told
    found = repository.listing(tmp_path / "repo").backups
    assert [one.entries for one in found] == [2, 0]
    assert found[0] == full


def test_what_prune_refuses(repo: Path) -> None:
    aged(repo, [0, 1])
    with pytest.raises(UsageProblem):
        repository.prune(repo, Policy())
    with exclusive(repo / repository.LOCK), pytest.raises(Locked):
        repository.prune(repo, Policy(last=1))
    aged_wrongly = repository.listing(repo).backups[-1]
    made = repository.now() + datetime.timedelta(days=900)
    wrong = manifest.sealed(dataclasses.replace(aged_wrongly, made=made.isoformat()))
    (repo / wrong.id / "manifest.json").write_bytes(manifest.text(wrong))
    with pytest.raises(BackupFromFuture):
        repository.prune(repo, Policy(last=1))


def test_killed_while_it_prunes(repo: Path, source: Path) -> None:
    repository.init(repo)
    names = aged(repo, [0, 1, 2])
    command = ("backup", "prune", "-R", repo, "--keep-last", "1")
    killed = ditseed(*command, env={"DITSEED_KILL_AT": "prune.middle"})
    assert killed.status == -signal.SIGKILL
    assert [one.id for one in repository.listing(repo).backups] == names[1:]
    ditseed("backup", "run", "--init", "--from", source, "-R", repo, "--keep-last", "2").ok()
    assert not repository.unfinished_backups(repo)
    assert len(repository.listing(repo).backups) == 2


# --- run --------------------------------------------------------------------------------------------


def test_room_that_is_to_stay_free(source: Path) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(4) as disk:
        asked = BackupOptions(disk / "repo", source=source)
        free = files.free_bytes(disk)
        with pytest.raises(NoSpace, match="needed"):
            taking.run(dataclasses.replace(asked, packing=Packing(keep_free=free)), QUIET)
        taking.run(dataclasses.replace(asked, packing=Packing(keep_free=free // 2)), QUIET)


def test_free_pages_need_no_room() -> None:
    require(missing_loop_filesystem())
    with closing(Slapd()) as server, loop_filesystem(8) as disk:
        server.slapadd(TREE)
        with lmdb.open(str(server.database_dir), max_dbs=64, map_size=1 << 30) as opened:
            with opened.begin(write=True) as transaction:
                junk = opened.open_db(b"junk", transaction)
                for number in range(4000):
                    transaction.put(b"%d" % number, bytes(3000), db=junk)
            with opened.begin(write=True) as transaction:
                transaction.drop(junk)
        used = meta.read_meta(server.database_dir).used
        assert used > files.free_bytes(disk)
        packing = Packing()
        asked = BackupOptions(disk / "repo", source=server.database_dir, packing=packing)
        made = taking.run(asked, QUIET)
        assert made.data_bytes < used // 4
        too_much = Packing(keep_free=files.free_bytes(disk))
        with pytest.raises(NoSpace, match="needed"):
            taking.run(dataclasses.replace(asked, packing=too_much), QUIET)


def test_a_backup_that_has_its_name_stays(source: Path, tmp_path: Path) -> None:
    """Also where the run is ended before it has written down that it was published."""
    command = ("backup", "run", "--init", "--from", source, "-R", tmp_path)
    process = start(*command, env={"DITSEED_STOP_AT": "publish.unrecorded"})
    stopped = Stopping(process)
    stopped.wait_for_stop()
    process.send_signal(signal.SIGTERM)
    stopped.go_on()
    process.communicate()
    assert process.returncode == 143
    (one,) = repository.listing(tmp_path).backups
    ditseed("backup", "verify", one.id, "-R", tmp_path).ok()


def test_a_directory_that_was_emptied_is_noticed(repo: Path, tmp_path: Path) -> None:
    """By its backup, before those with the entries are pruned."""
    asked = ("backup", "check", "-R", repo)
    (whole,) = repository.listing(repo).backups
    assert ditseed(*asked).ok()
    with closing(Slapd()) as emptied:
        emptied.slapadd(TREE.partition("\n\n")[0] + "\n")
        taking.run(BackupOptions(repo, source=emptied.database_dir), QUIET)
    assert ditseed(*asked).ok()
    assert ditseed(*asked, "--max-shrink", "40%").status == 1
    more = manifest.sealed(dataclasses.replace(whole, entries=3))
    (repo / whole.id / "manifest.json").write_bytes(manifest.text(more))
    done = ditseed(*asked)
    assert done.status == 1
    assert "has fewer entries (1) than those before it (3)" in done.out
    (repo / whole.id / "pages.pack").write_bytes(b"")
    ditseed("backup", "verify", "-R", repo)
    done = ditseed(*asked)
    assert done.status == 1
    assert "has fewer entries (1) than those before it (3)" in done.out
    assert f"{whole.id} was found damaged" in done.out


def test_prometheus_reads_what_is_found(repo: Path, source: Path, tmp_path: Path) -> None:
    path, before = tmp_path / "backup.prom", repository.now().timestamp()
    ditseed("backup", "verify", "-R", repo).ok()
    (one,) = repository.listing(repo).backups
    ditseed("backup", "check", "-R", repo, "--metrics", path).ok()
    families = text_string_to_metric_families(path.read_text())
    found = {(one.name, *one.labels.values()): one.value for f in families for one in f.samples}
    assert found["ditseed_backup_status", one.suffix] == 0
    assert found["ditseed_backup_last_entries", one.suffix] == 2
    assert found["ditseed_backup_last_stored_bytes", one.suffix] == one.stored_bytes
    assert abs(found["ditseed_backup_last_timestamp_seconds", one.suffix] - before) < 300
    assert found["ditseed_backup_verified_timestamp_seconds", one.suffix] >= before - 2
    assert found["ditseed_backup_drilled_timestamp_seconds", one.suffix] == 0
    assert path.stat().st_mode & 0o777 == 0o644
    gone = ditseed("backup", "check", "-R", tmp_path / "none", "-b", "dc=x", "--metrics", path)
    assert gone.status == 3
    assert 'ditseed_backup_status{suffix="dc=x"} 3.0' in path.read_text()


@pytest.mark.parametrize("what", ["empty", "gone", "broken"])
def test_alerts_are_not_silent_without_a_backup(repo: Path, tmp_path: Path, what: str) -> None:
    """The time of the last backup, drill and verification is then 0: alerts on their age go off."""
    path, place = tmp_path / "backup.prom", repo
    if what == "broken":
        (repo / only(repo).id / "manifest.json").write_text("{")
    else:
        place = tmp_path / what
    if what == "empty":
        place.mkdir()
    done = ditseed("backup", "check", "-R", place, "--metrics", path)
    assert done.status == (3 if what == "gone" else 2)
    told = path.read_text()
    for name in ("last", "verified", "drilled"):
        assert f'ditseed_backup_{name}_timestamp_seconds{{suffix=""}} 0.0' in told
    assert f'ditseed_backup_status{{suffix=""}} {done.status}.0' in told


@pytest.mark.parametrize("name", ["pages.map", "config.ldif", "pages.pack"])
def test_a_file_that_is_gone(tmp_path: Path, name: str) -> None:
    """It is told by every verb that can know, before the work."""
    with closing(Slapd()) as server:
        server.slapadd(TREE)
        taking.run(BackupOptions(tmp_path / "repo", server.config_path), QUIET)
    (one,) = repository.listing(tmp_path / "repo").backups
    path = tmp_path / "repo" / one.id / name
    content = path.read_bytes()
    into = ("-R", tmp_path / "repo")
    for damage in (path.unlink, lambda: path.write_bytes(content[:-1])):
        damage()
        checked = ditseed("backup", "check", *into)
        assert (checked.status, name in checked.out) == (2, True), checked
        listed = ditseed("backup", "list", *into).ok()
        assert listed.out.splitlines()[1].split()[-1] == "no"
        assert name in listed.err
        assert ditseed("backup", "verify", *into).status == 1
        restored = ditseed("backup", "restore", "latest", *into, "--target", tmp_path / "x")
        assert restored.status == BackupDamaged.exit_status, restored
        drilled = ditseed("backup", "drill", "latest", *into)
        assert (drilled.status, name in drilled.out) == (1, True), drilled
        assert not (tmp_path / "x").exists()


def test_one_bad_manifest_is_no_reason_not_to_verify_the_others(repo: Path) -> None:
    first, last = aged(repo, [0, 1])
    (repo / first / "manifest.json").write_text("{")
    done = ditseed("backup", "verify", "-R", repo, "--json")
    assert done.status == 1
    found = {one["backup"]: one["problem"] for one in json.loads(done.out)["verified"]}
    assert found[last] == ""
    assert "manifest.json" in found[first]
    assert not (repo / first / manifest.VERIFIED).exists()


def test_only_in_one_role(tmp_path: Path) -> None:
    """A provider is spared where consumers make the backups, and the other way round."""
    with closing(replication.provider()) as provider:
        provider.slapadd(TREE)
        with closing(replication.consumer(provider)) as consumer:
            consumer.slapadd(TREE)
            for server, role in ((provider, "provider"), (consumer, "consumer")):
                command = ("backup", "run", "--init", "--config", server.config_path, "-R", tmp_path / role)
                other = {"provider": "consumer", "consumer": "provider"}[role]
                assert "none: the database is no" in ditseed("-v", *command, "--only-role", other).ok().out
                assert not (tmp_path / role).exists()
                ditseed(*command, "--only-role", role).ok()
                ditseed(*command, "--only-role", role, "--all-databases").ok()
                assert len(repository.listing(tmp_path / role).backups) == 2
    refused = ditseed("backup", "run", "--init", "--from", tmp_path, "-R", tmp_path, "--only-role", "provider")
    assert refused.status == UsageProblem.exit_status


def test_only_on_some_hosts(source: Path, tmp_path: Path) -> None:
    command = ("backup", "run", "--init", "--from", source, "-R", tmp_path / "repo")
    ditseed(*command, "--only-on", "elsewhere.example.com").ok()
    assert not (tmp_path / "repo").exists()
    ditseed(*command, "--only-on", "elsewhere", "--only-on", socket.gethostname()).ok()
    assert only(tmp_path / "repo")


def test_a_map_of_another_backup(repo: Path, source: Path) -> None:
    """Nor does a manifest lead out of its directory."""
    one = only(repo)
    path = repo / one.id / "manifest.json"
    outside = [dataclasses.replace(one.files[0], name=name) for name in ("../x", "/etc/passwd")]
    for facts in ({"files": outside[:1]}, {"id": "../x"}, {"files": outside[1:]}):
        told = manifest.sealed(dataclasses.replace(one, **facts))
        path.write_bytes(manifest.text(told))
        assert len(repository.listing(repo).broken) == 1
    path.write_bytes(manifest.text(one))
    (repo / one.id / "pages.map").write_bytes(b"")
    with pytest.raises(BackupDamaged, match=r"pages.map"):
        pack.verify(repo, one, lambda number: True, {}, Meter("x"))


def test_the_units_are_units(tmp_path: Path) -> None:
    require(None if shutil.which("systemd-analyze") else "systemd-analyze is not installed")
    units = sorted((ROOT / "bin" / "packaging" / "systemd").glob("ditseed-backup.*"))
    assert [path.name for path in units] == ["ditseed-backup.service", "ditseed-backup.timer"]
    for path in units:
        text = path.read_text().replace("ExecStart=ditseed", "ExecStart=/bin/true")
        (tmp_path / path.name).write_text(text)
    asked = ["systemd-analyze", "verify", "--man=no", *(tmp_path / path.name for path in units)]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert (done.returncode, "ditseed-backup" in done.stderr) == (0, False), done.stderr
