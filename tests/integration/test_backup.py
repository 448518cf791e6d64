"""Backups of real databases: taken beside a busy slapd, restored so that slapd goes on with them, damaged, killed."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import logging
import os
import pwd
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from fixtures import replication
from fixtures.churn import Churn
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import typed
from loader.errors import (
    BackupDamaged,
    BackupFromFuture,
    LatestBroken,
    LoaderError,
    Locked,
    ManifestBroken,
    NoSpace,
    NoSuchBackup,
    NoSuchPath,
    NoSuchSuffix,
    NotLmdb,
    OtherFormat,
    TargetInUse,
    TargetNotEmpty,
    UsageProblem,
)
from loader.mdb import contents, meta
from loader.operations.backup import manifest, repository, restore
from loader.operations.backup import run as taking
from loader.operations.backup.check import Limits, Status, check
from loader.operations.backup.manifest import Backup
from loader.operations.backup.pack import Packing
from loader.operations.backup.restore import RestoreOptions, RestoreReport
from loader.operations.backup.run import BackupOptions
from loader.operations.publish import REPLACED
from loader.progress import Progress
from loader.run.log import exclusive
from loader.storage import files
from loader.units import parse_size
from tests.support.command import ditseed, start
from tests.support.lag import oldest_lag
from tests.support.require import require
from tests.support.stopping import Stopping
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

ONE_ENTRY = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"


def take(server: Slapd, repo: Path, **options: object) -> Backup:
    made = BackupOptions(repo, server.config_path, packing=Packing(**options))  # type: ignore[arg-type]
    return taking.run(made, Progress("none"))


def put_back(repo: Path, server: Slapd, name: str = "latest", **options: object) -> RestoreReport:
    asked = RestoreOptions(repo, name, server.config_path, **options)  # type: ignore[arg-type]
    return restore.restore(asked, Progress("none"))[0]


@pytest.fixture(scope="module")
def source(people_ldif: Path) -> Iterator[Slapd]:
    """A running provider with 1,029 entries in a file that looks 10 GiB large. Read it only."""
    server = replication.provider(Settings(maxsize=parse_size("10G")))
    server.slapadd(people_ldif, "-w")
    with server:
        yield server


@pytest.fixture(scope="module")
def repo(source: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One backup of `source`. Read it only."""
    made = tmp_path_factory.mktemp("backups") / "repo"
    take(source, made)
    return made


@pytest.fixture
def other(source: Slapd) -> Iterator[Slapd]:
    """A stopped server of the same kind, empty."""
    server = Slapd(source.settings)
    yield server
    server.close()


@pytest.fixture
def damaged(repo: Path, tmp_path: Path) -> Path:
    """A repository of one's own to damage: hard to break by accident, so it is copied."""
    made = tmp_path / "damaged"
    for path in repo.rglob("*"):
        place = made / path.relative_to(repo)
        if path.is_dir():
            place.mkdir(parents=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    return made


# --- there and back -------------------------------------------------------------------------------


def test_restored_it_is_the_same_database(source: Slapd, other: Slapd, tmp_path: Path) -> None:
    made = take(source, tmp_path)
    report = put_back(tmp_path, other)
    assert report.entries == made.entries == 1029
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert_same(source, other)
    with other:
        assert len(other.search()) == 1029
        other.ldapadd("dn: ou=more,dc=example,dc=com\nobjectClass: organizationalUnit\nou: more\n")


@pytest.mark.long
def test_beside_a_busy_server(people_ldif: Path, tmp_path: Path) -> None:
    server = replication.provider()
    server.slapadd(people_ldif)
    target = Slapd(server.settings)
    try:
        with server, Churn(server, rate=500) as churn:
            for _ in range(3):
                churn.wait_for(churn.changes() + 100)
                made = take(server, tmp_path)
                report = put_back(tmp_path, target, made.id, replace=True, verify="pages")
                assert report.entries == made.entries
                assert target.slapcat().count("\ndn:") + 1 == made.entries
            churn.stop()
            take(server, tmp_path)
            put_back(tmp_path, target, replace=True)
            assert_same(server, target)
    finally:
        target.close()
    assert len(repository.listing(tmp_path).backups) == 4


@pytest.mark.long
def test_a_restored_consumer_goes_on_from_its_context_csn(source: Slapd, tmp_path: Path) -> None:
    """The stored contextCSN comes back with the backup, and syncrepl takes it up."""
    target = replication.consumer(source)
    try:
        target.start()
        replication.wait_in_sync(source, target)
        made = take(target, tmp_path)
        assert set(made.context_csns) == source.context_csns()
        target.stop()
        put_back(tmp_path, target, replace=True)
        assert contents.context_csns(target.database_dir) == list(made.context_csns)
        target.start()
        replication.wait_in_sync(source, target)
        assert_same(source, target)
    finally:
        target.close()


# --- what lies in the repository --------------------------------------------------------------------


def test_the_manifest_tells_what_was_backed_up(source: Slapd, repo: Path) -> None:
    (made,) = repository.listing(repo).backups
    facts = meta.read_meta(source.database_dir)
    assert re.fullmatch(r"\d{8}T\d{6}Z-dc-example-dc-com", made.id)
    assert (made.suffix, made.entries) == ("dc=example,dc=com", 1029)
    assert (made.lmdb_format, made.page_size, made.map_size) == (1, 4096, parse_size("10G"))
    assert made.txnid == facts.txnid
    assert list(made.context_csns) == contents.context_csns(source.database_dir)
    newest = contents.newest_csns(source.database_dir)
    assert list(made.newest_csns) == contents.ordered(newest.values())
    assert made.source == str(source.database_dir)
    assert made.ditseed


def test_a_sparse_source_does_not_inflate(source: Slapd, repo: Path) -> None:
    (made,) = repository.listing(repo).backups
    assert made.data_bytes <= meta.read_meta(source.database_dir).used < parse_size("20M")
    stored = repo / made.id / made.file
    assert stored.stat().st_size < made.stored_bytes < made.data_bytes / 2


def test_nothing_there_is_for_other_eyes(repo: Path) -> None:
    for path in (repo, *repo.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_configuration_lies_beside_it(source: Slapd, repo: Path) -> None:
    (config,) = repo.glob("*/config.ldif")
    text = config.read_text()
    assert "olcDatabase={" in text
    assert "olcRootPW:" in text


# --- restore ------------------------------------------------------------------------------------


def test_owner_and_mode_are_the_servers(source: Slapd, repo: Path) -> None:
    require(None if os.geteuid() == 0 else "slapd as another user needs root")
    server = Slapd(dataclasses.replace(source.settings, database_lines=("mode 0640",)), user="openldap")
    try:
        put_back(repo, server)
        status = (server.database_dir / "data.mdb").stat()
        assert status.st_uid == pwd.getpwnam("openldap").pw_uid
        assert status.st_mode & 0o777 == 0o640
        with server:
            assert len(server.search()) == 1029
    finally:
        server.close()


def test_what_is_replaced_is_kept(other: Slapd, repo: Path) -> None:
    where = ("backup", "restore", "latest", "-R", repo, "--config", other.config_path, "--replace")
    other.slapadd("")  # a database without an entry: nothing to keep
    assert ditseed(*where, "--json").ok().facts["kept"] is None
    kept = [ditseed(*where, "--json").ok().facts["kept"] for _ in range(2)]
    assert sorted(kept) == sorted(map(str, other.database_dir.glob(f"{REPLACED}*")))
    told = ditseed("doctor", "--config", other.config_path, "--json").facts["findings"]
    (found,) = (one for one in told if one["rule"] == "kept")
    assert (found["severity"], found["mend"]) == ("note", [f"rm -- {one}" for one in sorted(kept)])


@pytest.mark.long
def test_replace(source: Slapd, other: Slapd, repo: Path) -> None:
    other.slapadd(ONE_ENTRY)
    with pytest.raises(TargetNotEmpty):
        put_back(repo, other)
    assert other.slapcat().count("\ndn:") == 0
    put_back(repo, other, replace=True)
    assert not (other.database_dir / "lock.mdb").exists()
    assert_same(source, other)


def test_a_database_in_use(other: Slapd, repo: Path) -> None:
    other.slapadd(ONE_ENTRY)
    with other:
        with pytest.raises(TargetInUse):
            put_back(repo, other, replace=True)
        assert len(other.search()) == 1


def test_what_it_refuses(other: Slapd, repo: Path, tmp_path: Path) -> None:
    options = RestoreOptions(repo, "latest", target=tmp_path / "look")
    cases: list[tuple[RestoreOptions, type[LoaderError]]] = [
        (dataclasses.replace(options, which="20200101T000000Z-none"), NoSuchBackup),
        (dataclasses.replace(options, which="../repo"), NoSuchBackup),
        (dataclasses.replace(options, which="lock"), NoSuchBackup),
        (dataclasses.replace(options, suffix="dc=other"), NoSuchBackup),
        (dataclasses.replace(options, repo=tmp_path / "none"), NoSuchPath),
        (dataclasses.replace(options, target=None), UsageProblem),
        (dataclasses.replace(options, target=None, config_path=tmp_path / "none"), NoSuchPath),
        (dataclasses.replace(options, target=None, config_path=other.config_path, suffix="dc=other"), NoSuchSuffix),
    ]
    for asked, error in cases:
        with pytest.raises(error):
            restore.restore(asked, Progress("none"))
        with pytest.raises(error):
            restore.plan(asked)
    assert not list(tmp_path.iterdir())


def test_the_backup_of_another_suffix(repo: Path) -> None:
    server = Slapd(Settings(suffix="dc=other,dc=org"))
    try:
        name = repository.find(repo, "latest").id
        with pytest.raises(UsageProblem, match="dc=other"):
            put_back(repo, server, name)
        with pytest.raises(NoSuchBackup):
            put_back(repo, server)
    finally:
        server.close()


def test_a_maxsize_that_is_too_small_is_said(source: Slapd, repo: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Slapd(dataclasses.replace(source.settings, maxsize=1 << 20))
    try:
        with caplog.at_level(logging.WARNING):
            put_back(repo, server)
        assert "maxsize of dc=example,dc=com is 1.0 MiB" in caplog.text
    finally:
        server.close()


@pytest.mark.parametrize("what", ["bit", "cut", "garbage", "manifest", "map", "missing"])
def test_a_damaged_backup_changes_nothing(other: Slapd, damaged: Path, what: str) -> None:
    other.slapadd(ONE_ENTRY)
    before = other.slapcat()
    (stored,) = damaged.glob("*/pages.pack")
    data = bytearray(stored.read_bytes())
    if what == "bit":
        data[len(data) // 2] ^= 1
    elif what == "cut":
        del data[len(data) * 2 // 3 :]
    elif what == "garbage":
        data[:1000] = bytes(1000)
    stored.write_bytes(data)
    if what == "manifest":
        (made,) = repository.listing(damaged).backups
        told = [{**dataclasses.asdict(one), "sums": ["0" * 64]} for one in made.files]
        _alter(damaged, files=told)
    elif what == "map":
        (map_,) = damaged.glob("*/pages.map")
        map_.write_bytes(map_.read_bytes()[::-1])
    elif what == "missing":
        stored.unlink()
    with pytest.raises((BackupDamaged, NoSuchPath)):
        put_back(damaged, other, replace=True)
    assert other.slapcat() == before
    assert not list(other.database_dir.glob("*partial*"))


def _alter(repo: Path, **facts: object) -> None:
    """With a seal that fits, as far as the types allow one."""
    for path in repo.glob("*/manifest.json"):
        told = {**json.loads(path.read_text()), **facts}
        try:
            made = manifest.sealed(typed.parse(json.dumps(told).encode(), Backup, manifest.FORMAT))
        except typed.Unfit:
            path.write_text(json.dumps(told))
        else:
            path.write_bytes(manifest.text(made))


def test_a_backup_of_another_openldap(other: Slapd, damaged: Path) -> None:
    _alter(damaged, lmdb_format=3)
    with pytest.raises(OtherFormat, match="format 3"):
        put_back(damaged, other)
    _alter(damaged, lmdb_format=1, machine="64-bit big-endian (s390x)")
    with pytest.raises(BackupDamaged, match="s390x"):
        put_back(damaged, other)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 1}', '{"format": 99}', "\xff{"])
def test_a_manifest_that_is_none(damaged: Path, text: str) -> None:
    (manifest,) = damaged.glob("*/manifest.json")
    manifest.write_text(text, encoding="latin-1")
    found = repository.listing(damaged)
    assert (len(found.backups), len(found.broken)) == (0, 1)
    with pytest.raises(ManifestBroken):
        repository.find(damaged, manifest.parent.name)


def test_no_room_for_the_restored(repo: Path) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(4) as disk:
        (disk / "filler").write_bytes(bytes(files.free_bytes(disk) - (1 << 20)))
        with pytest.raises(NoSpace, match="needed"):
            restore.restore(RestoreOptions(repo, "latest", target=disk / "a"), Progress("none"))
        assert not (disk / "a").exists()


# --- run ----------------------------------------------------------------------------------------


def test_what_run_refuses(source: Slapd, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_text("not a database")
    repo = tmp_path / "repo"
    cases: list[tuple[BackupOptions, type[LoaderError]]] = [
        (BackupOptions(repo), UsageProblem),
        (BackupOptions(repo, source=tmp_path / "none"), NoSuchPath),
        (BackupOptions(repo, source=tmp_path), NotLmdb),
        (BackupOptions(repo, config_path=tmp_path / "none"), NoSuchPath),
        (BackupOptions(repo, config_path=source.config_path, suffix="dc=no"), NoSuchSuffix),
    ]
    for options, error in cases:
        with pytest.raises(error):
            taking.run(options, Progress("none"))
    assert not repo.exists()


def test_one_at_a_time(source: Slapd, tmp_path: Path) -> None:
    with exclusive(tmp_path / repository.LOCK), pytest.raises(Locked, match=str(os.getpid())):
        take(source, tmp_path)
    take(source, tmp_path)


@pytest.mark.long
def test_two_in_one_second(source: Slapd, tmp_path: Path) -> None:
    names = [take(source, tmp_path).id for _ in range(4)]
    assert len(set(names)) == 4
    assert [one.id for one in repository.listing(tmp_path).backups] == names


def test_a_full_disk_leaves_nothing(source: Slapd) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(4) as disk:
        (disk / "filler").write_bytes(bytes(files.free_bytes(disk) - (128 << 10)))
        with pytest.raises(NoSpace):
            take(source, disk / "repo")
        assert sorted(path.name for path in (disk / "repo").iterdir()) == [".ditseed", "lock"]
        with pytest.raises(NoSpace, match="needed"):
            take(source, disk / "repo", keep_free=1 << 40)


@pytest.mark.long
@pytest.mark.parametrize("point", ["publish.middle", "restore.kept", "restore.unpacked"])
def test_restore_killed_then_run_again(source: Slapd, other: Slapd, repo: Path, point: str) -> None:
    other.slapadd(ONE_ENTRY)
    before = other.slapcat()
    command = ("backup", "restore", "latest", "-R", repo, "--config", other.config_path, "--replace")
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    assert other.slapcat() == before
    ditseed(*command).ok()
    assert_same(source, other)
    assert not list(other.database_dir.glob("*partial*"))
    (kept,) = other.database_dir.glob(f"{REPLACED}*")
    assert kept.stat().st_nlink == 1
    kept.replace(other.database_dir / "data.mdb")  # as docs/backup.md has it
    assert other.slapcat() == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_while_it_streams_it_holds_no_pages(people_ldif: Path, tmp_path: Path, number: signal.Signals) -> None:
    """The reader of a killed backup keeps the pages of its moment until somebody clears it away."""
    server = replication.provider()
    server.slapadd(people_ldif)
    with server:
        command = ("backup", "run", "--init", "--config", server.config_path, "-R", tmp_path)
        process = start(*command, env={"DITSEED_STOP_AT": "copy.middle"})
        stopped = Stopping(process)
        stopped.wait_for_stop()
        _write_a_little(server)
        assert oldest_lag(server.database_dir) > 0
        process.send_signal(number)
        stopped.go_on()
        process.communicate()
        if number == signal.SIGKILL:
            ditseed(*command).ok()
        else:
            assert process.returncode == 143
        assert oldest_lag(server.database_dir) == 0
        assert not repository.unfinished_backups(tmp_path)


def _write_a_little(server: Slapd) -> None:
    for number in range(20):
        server.ldapadd(f"dn: ou=w{number},dc=example,dc=com\nobjectClass: organizationalUnit\nou: w{number}\n")


# --- check --------------------------------------------------------------------------------------


def test_check(source: Slapd, damaged: Path, tmp_path: Path) -> None:
    assert check(damaged, Limits(3600)).status == Status.OK
    assert check(damaged, Limits(3600, min_count=2)).status == Status.WARNING
    assert check(damaged, Limits(3600), "dc=other").status == Status.CRITICAL
    assert check(tmp_path, Limits(3600)).status == Status.CRITICAL
    assert check(tmp_path / "none", Limits(3600)).status == Status.UNKNOWN
    _alter(damaged, made="2020-01-01T00:00:00+00:00")
    old = check(damaged, Limits(3600))
    assert old.status == Status.CRITICAL
    assert "old" in old.reason
    assert re.fullmatch(r"BACKUP CRITICAL - [^|]+ \| age=\d+s;;3600;0 count=1;1: .*", old.line())


# --- what a manifest may say that is not so ------------------------------------------------------


def test_a_backup_from_the_future_is_a_problem(damaged: Path, other: Slapd) -> None:
    """It was the latest, 0.0 s old, and OK for ever."""
    (made,) = repository.listing(damaged).backups
    _alter(damaged, made="2031-01-01T00:00:00+00:00")
    found = check(damaged, Limits(26 * 3600.0))
    assert (found.status, found.latest) == (Status.CRITICAL, None)
    assert f"{made.id} is dated 2031-01-01T00:00:00+00:00, later than now" in found.reason
    told = ditseed("backup", "check", "-R", damaged)
    assert (told.status, "BACKUP CRITICAL" in told.out) == (2, True)
    with pytest.raises(BackupFromFuture, match="2031-01-01"):
        put_back(damaged, other)
    assert "dated later than now" in ditseed("backup", "list", "-R", damaged).ok().out
    put_back(damaged, other, made.id)


def test_clocks_may_differ_a_little(damaged: Path) -> None:
    _alter(damaged, made=(repository.now() + repository.SKEW / 2).isoformat())
    assert check(damaged, Limits(26 * 3600.0)).status is Status.OK


def test_no_more_is_unpacked_than_a_map_may_hold(source: Slapd, other: Slapd, tmp_path: Path) -> None:
    """4 GiB in a file of some KiB: memory would be full."""
    made = take(source, tmp_path / "repo")
    path = tmp_path / "repo" / made.id / manifest.MAP
    path.write_bytes(bomb := _bomb(4 << 30))
    with pytest.raises(BackupDamaged, match="the manifest says"):
        put_back(tmp_path / "repo", other)
    sums = [hashlib.sha256(bomb).hexdigest()]
    forged = {"name": manifest.MAP, "bytes": len(bomb), "sums": sums}
    others = [dataclasses.asdict(one) for one in made.files if one.name != manifest.MAP]
    _alter(tmp_path / "repo", files=[forged, *others])
    with pytest.raises(BackupDamaged, match="more than the map of any backup"):
        put_back(tmp_path / "repo", other)
    assert not list(other.database_dir.glob("*partial*"))


def _bomb(size: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    zeros = bytes(8 << 20)
    return b"".join([*(compressor.compress(zeros) for _ in range(size >> 23)), compressor.flush()])


def _alter_text(path: Path, **facts: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def test_a_manifest_that_was_changed(damaged: Path) -> None:
    (made,) = repository.listing(damaged).backups
    _alter_text(damaged / made.id / "manifest.json", entries=made.entries + 1)
    with pytest.raises(ManifestBroken, match="seal"):
        repository.find(damaged, made.id)


@pytest.mark.parametrize(
    "facts",
    [
        {"entries": "many"},
        {"made": "yesterday"},
        {"made": "2026-11-21T07:05:01"},
        {"made": 5},
        {"suffix": None},
        {"context_csns": "x"},
        {"context_csns": [None]},
        {"data_bytes": -1},
        {"data_bytes": 10**30},
        {"files": []},
        {"files": None},
        {"files": [{"name": "../pages.pack", "bytes": 0, "sums": []}]},
        {"files": [{"name": "pages.pack", "bytes": 1, "sums": []}]},
        {"files": [{"name": "pages.pack", "bytes": 1, "sums": ["short"]}]},
        {"packs": [{"name": "pages.pack", "bytes": 0, "sums": []}]},
        {"is_ldif": True},
        {"recipients": ["age1x"]},
        {"incremental": True},
        {"format": 2},
        {"machine": 64},
        {"with_config": "yes"},
        {"seconds": "NaN"},
        {"unheard_of": 1},
    ],
)
def test_a_manifest_of_wrong_types_is_refused(damaged: Path, facts: dict[str, object]) -> None:
    """No verb ends with [internal]."""
    (made,) = repository.listing(damaged).backups
    _alter(damaged, **facts)
    with pytest.raises(ManifestBroken):
        repository.find(damaged, made.id)
    assert len(repository.listing(damaged).broken) == 1
    for verb in ("list", "check"):
        told = ditseed("backup", verb, "-R", damaged)
        assert "internal" not in told.out + told.err


@pytest.mark.parametrize("what", ["no manifest", "cut", "alone"])
def test_the_latest_is_not_an_older_one(damaged: Path, tmp_path: Path, what: str) -> None:
    """Whoever asks for the latest state gets it, or is told which one cannot be had, and how to take the one before."""
    (older,) = repository.listing(damaged).backups
    newer = damaged / repository.new_id(damaged, repository.now(), older.suffix)
    newer.mkdir()
    if what != "no manifest":
        (newer / "manifest.json").write_bytes((damaged / older.id / "manifest.json").read_bytes()[:99])
    if what == "alone":
        shutil.rmtree(damaged / older.id)
    into = ("-R", damaged, "--target", tmp_path / "made")
    for more in ((), ("-b", older.suffix), ("--dry-run",)):
        done = ditseed("backup", "restore", "latest", *into, *more)
        assert (done.status, done.out) == (LatestBroken.exit_status, ""), done.err
        assert newer.name in done.err
        assert (f"backup restore {older.id} -R {damaged}" in done.err) == (what != "alone")
    assert not (tmp_path / "made").exists()
    assert ditseed("backup", "check", "-R", damaged).status == Status.CRITICAL
    if what != "alone":
        ditseed("backup", "restore", older.id, *into).ok()


def test_as_of_a_time(damaged: Path, tmp_path: Path) -> None:
    """The newest that was made by then, and no older one in its place."""
    (made,) = repository.listing(damaged).backups
    first, second, third = (_dated(damaged, made, f"2026-01-0{day}T02:15:00+00:00") for day in (1, 2, 3))
    for moment, wanted in [
        ("2026-01-02T02:15Z", second),
        ("2026-01-02T03:14:59+01:00", first),
        ("2026-01-09 00:00", third),
    ]:
        shown = ditseed("backup", "show", "--as-of", moment, "-R", damaged, "--json").ok()
        assert shown.facts["backup"]["id"] == wanted
    into = ("-R", damaged, "--target", tmp_path / "made")
    done = ditseed("backup", "restore", "--as-of", "2026-01-01T02:14Z", *into)
    assert (done.status, done.out) == (NoSuchBackup.exit_status, "")
    assert "no backup at all made by 2026-01-01 02:14:00" in done.err
    (damaged / second / "manifest.json").write_text("{")
    done = ditseed("backup", "restore", "--as-of", "2026-01-02T12:00Z", *into)
    assert (done.status, done.out) == (LatestBroken.exit_status, "")
    assert f"the latest backup made by 2026-01-02 12:00:00+00:00, {second}, cannot be used" in done.err
    assert f"backup restore {first} -R {damaged}" in done.err
    ditseed("backup", "restore", "--as-of", "2026-01-01T12:00Z", *into).ok()


def _dated(repo: Path, made: Backup, when: str) -> str:
    """A copy that was made at another time; its ID."""
    moment = datetime.datetime.fromisoformat(when)
    name = repository.new_id(repo, moment, made.suffix)
    shutil.copytree(repo / made.id, repo / name)
    again = dataclasses.replace(made, id=name, made=when)
    (repo / name / "manifest.json").write_bytes(manifest.text(manifest.sealed(again)))
    return name


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "say which backup"),
        (("latest", "--as-of", "2026-01-01T00:00"), "say which backup"),
        (("--as-of", "2999-01-01T00:00"), "is in the future"),
        (("--as-of", "2026-01-01"), "not a time"),
        (("--as-of", "yesterday"), "not a time"),
    ],
)
def test_which_backup_is_meant(repo: Path, words: tuple[str, ...], reason: str) -> None:
    for verb in (("restore", "--target", "/nowhere/x"), ("show",), ("drill",), ("extract", "--dn", "")):
        done = ditseed("backup", *verb, *words, "-R", repo)
        assert (done.status, reason in done.err) == (UsageProblem.exit_status, True), done


def test_the_latest_is_the_last_of_the_list(damaged: Path) -> None:
    """It is found by the names, without the list; of two of the same second, too."""
    (made,) = repository.listing(damaged).backups
    other = dataclasses.replace(made, suffix="dc=another,dc=org")
    for when in ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"):
        names = [_dated(damaged, one, when) for one in (other, made, other)]
    for suffix in (None, made.suffix, other.suffix):
        last = repository.listing(damaged, suffix).backups[-1]
        assert repository.find(damaged, "latest", suffix) == last
    assert repository.find(damaged, "latest", other.suffix).id == names[-1]


def test_a_broken_one_of_another_suffix_or_an_older_one_is_no_reason(damaged: Path) -> None:
    (made,) = repository.listing(damaged).backups
    when = repository.now()
    repository_of_both = repository.new_id(damaged, when, "dc=another,dc=org")
    (damaged / repository_of_both).mkdir()
    (damaged / f"20200101T000000Z-{made.id.partition('-')[2]}").mkdir()
    assert repository.find(damaged, "latest", made.suffix).id == made.id
    with pytest.raises(LatestBroken, match=repository_of_both):
        repository.find(damaged, "latest")


def test_other_entries_than_the_manifest_says_are_told(
    damaged: Path, other: Slapd, caplog: pytest.LogCaptureFixture
) -> None:
    """The sha256 is right, so a number is no reason to leave an operator without a database at night."""
    _alter(damaged, entries=7)
    with caplog.at_level(logging.WARNING):
        put_back(damaged, other)
    assert "says 7 entries, the database holds" in caplog.text
