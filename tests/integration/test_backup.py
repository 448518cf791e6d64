"""Backups of real databases: taken beside a busy slapd, restored so that slapd goes on with them, damaged, killed; and
backups of entries, restored for another configuration."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import os
import pwd
import re
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from msgspec import structs

from fixtures import replication
from fixtures.churn import Churn
from fixtures.slapd import Slapd
from loader import errors
from loader.mdb import contents, meta
from loader.operations.backup import manifest, repository
from loader.operations.backup.check import Status, check
from loader.operations.backup.options import Limits
from loader.operations.publish import REPLACED
from loader.units import parse_size
from tests.support.backups import ONE_ENTRY, alter, backup, dated, flip, forge_file, only, put_back, take
from tests.support.command import Done, ditseed
from tests.support.keys import generated
from tests.support.mapped import oldest_lag
from tests.support.require import require
from tests.support.stopping import stopped_at
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd


def test_restored_it_is_the_same_database(stopped: Slapd, other: Slapd, backed_up: Path) -> None:
    assert put_back(backed_up, other).entries == only(backed_up).entries == 1029
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert_same(stopped, other)
    with other:
        assert len(other.search()) == 1029
        other.ldapadd("dn: ou=more,dc=example,dc=com\nobjectClass: organizationalUnit\nou: more\n")


@pytest.mark.long
def test_beside_a_busy_server(provider: Slapd, tmp_path: Path) -> None:
    with closing(Slapd(provider.settings)) as target, Churn(provider, rate=500) as churn:
        for _ in range(3):
            churn.wait_for(churn.changes() + 100)
            made = take(provider, tmp_path)
            report = put_back(tmp_path, target, made.id, replace=True, verify="pages")
            assert report.entries == made.entries
            assert target.slapcat().count("\ndn:") + 1 == made.entries
        churn.stop()
        take(provider, tmp_path)
        put_back(tmp_path, target, replace=True)
        assert_same(provider, target)
    assert len(repository.listing(tmp_path).backups) == 4


@pytest.mark.long
def test_a_restored_consumer_goes_on_from_its_context_csn(provider: Slapd, tmp_path: Path) -> None:
    """The stored contextCSN comes back with the backup, and syncrepl takes it up."""
    with closing(replication.consumer(provider)) as target:
        target.start()
        replication.wait_in_sync(provider, target)
        made = take(target, tmp_path)
        assert set(made.context_csns) == provider.context_csns()
        target.stop()
        put_back(tmp_path, target, replace=True)
        assert contents.context_csns(target.database_dir) == list(made.context_csns)
        target.start()
        replication.wait_in_sync(provider, target)
        assert_same(provider, target)


def test_what_lies_in_the_repository(stopped: Slapd, backed_up: Path, tmp_path: Path) -> None:
    """The manifest tells what was backed up, the configuration lies beside it, and nothing is for other eyes."""
    made, database = only(backed_up), stopped.database_dir
    facts = meta.read_meta(database)
    assert re.fullmatch(r"\d{8}T\d{6}Z-dc-example-dc-com", made.id)
    assert (made.suffix, made.entries) == ("dc=example,dc=com", 1029)
    assert (made.lmdb_format, made.page_size, made.map_size) == (1, 4096, parse_size("10G"))
    assert made.txnid == facts.txnid
    assert list(made.context_csns) == contents.context_csns(database)
    assert list(made.newest_csns) == contents.ordered(contents.newest_csns(database).values())
    assert made.source == str(database)
    assert made.ditseed
    # A sparse source does not inflate.
    assert made.data_bytes <= facts.used < parse_size("20M")
    assert (backed_up / made.id / made.file).stat().st_size < made.stored_bytes < made.data_bytes / 2
    text = (backed_up / made.id / manifest.CONFIG).read_text()
    assert "olcDatabase={" in text
    assert "olcRootPW:" in text
    for path in (backed_up, *backed_up.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    odd = tmp_path / os.fsdecode(b"not of UTF-8\xff")
    shutil.copytree(database, odd)
    assert take(odd, tmp_path).source.endswith(r"not of UTF-8\xff")


def test_owner_and_mode_are_the_servers(stopped: Slapd, backed_up: Path) -> None:
    require(None if os.geteuid() == 0 else "slapd as another user needs root")
    settings = dataclasses.replace(stopped.settings, database_lines=("mode 0640",))
    with closing(Slapd(settings, user="openldap")) as server:
        put_back(backed_up, server)
        status = (server.database_dir / "data.mdb").stat()
        assert status.st_uid == pwd.getpwnam("openldap").pw_uid
        assert status.st_mode & 0o777 == 0o640
        with server:
            assert len(server.search()) == 1029


def test_what_is_replaced_is_kept(other: Slapd, backed_up: Path) -> None:
    where = ("backup", "restore", "latest", "-R", backed_up, "--config", other.config_path, "--replace")
    other.slapadd("")  # a database without an entry: nothing to keep
    assert ditseed(*where, "--json").ok().facts["kept"] is None
    kept = [ditseed(*where, "--json").ok().facts["kept"] for _ in range(2)]
    assert sorted(kept) == sorted(map(str, other.database_dir.glob(f"{REPLACED}*")))
    told = ditseed("doctor", "--config", other.config_path, "--json").facts["findings"]
    (found,) = (one for one in told if one["rule"] == "kept")
    assert (found["severity"], found["mend"]) == ("note", [f"rm -- {one}" for one in sorted(kept)])


def test_what_is_only_warned_of(stopped: Slapd, repo: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A small maxsize, or a number where all checksums are right, is no reason to leave an operator without a database
    at night."""
    alter(repo, entries=7)
    with closing(Slapd(dataclasses.replace(stopped.settings, maxsize=1 << 20))) as server:
        with caplog.at_level(logging.WARNING):
            put_back(repo, server)
        assert "maxsize of dc=example,dc=com is 1.0 MiB" in caplog.text
        assert "says 7 entries, the database holds" in caplog.text


@pytest.mark.parametrize("what", ["bit", "machine", "manifest", "map"])
def test_a_damaged_backup_changes_nothing(other: Slapd, repo: Path, what: str) -> None:
    other.slapadd(ONE_ENTRY)
    before = other.slapcat()
    (stored,) = repo.glob("*/pages.pack")
    if what == "machine":
        alter(repo, machine="64-bit big-endian (s390x)")
    elif what == "manifest":
        alter(repo, files=[{**structs.asdict(one), "sums": ["0" * 64]} for one in only(repo).files])
    else:
        flip(stored if what == "bit" else stored.with_name(manifest.MAP))
    with pytest.raises(errors.BackupDamaged, match="s390x" if what == "machine" else None):
        put_back(repo, other, replace=True)
    assert other.slapcat() == before
    assert not list(other.database_dir.glob("*partial*"))


@pytest.mark.long
@pytest.mark.parametrize("point", ["publish.middle", "restore.kept", "restore.unpacked"])
def test_restore_killed_then_run_again(stopped: Slapd, other: Slapd, backed_up: Path, point: str) -> None:
    other.slapadd(ONE_ENTRY)
    before = other.slapcat()
    command = ("backup", "restore", "latest", "-R", backed_up, "--config", other.config_path, "--replace")
    assert ditseed(*command, env={"DITSEED_KILL_AT": point}).status == -signal.SIGKILL
    assert other.slapcat() == before
    ditseed(*command).ok()
    assert not (other.database_dir / "lock.mdb").exists()
    assert_same(stopped, other)
    assert not list(other.database_dir.glob("*partial*"))
    (kept,) = other.database_dir.glob(f"{REPLACED}*")
    assert kept.stat().st_nlink == 1
    kept.replace(other.database_dir / "data.mdb")  # as docs/restore.md has it
    assert other.slapcat() == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_while_it_streams_it_holds_no_pages(provider: Slapd, tmp_path: Path, number: signal.Signals) -> None:
    """The reader of a killed backup keeps the pages of its moment until somebody clears it away."""
    command = ("backup", "run", "--init", "--config", provider.config_path, "-R", tmp_path)
    stopped = stopped_at("copy.middle", *command)
    for one in range(20):
        provider.ldapadd(f"dn: ou=w{one},dc=example,dc=com\nobjectClass: organizationalUnit\nou: w{one}\n")
    assert oldest_lag(provider.database_dir) > 0
    assert stopped.end(number).status == (143 if number == signal.SIGTERM else -number)
    if number == signal.SIGKILL:
        ditseed(*command).ok()
    assert oldest_lag(provider.database_dir) == 0
    assert not repository.unfinished_backups(tmp_path)


def test_the_time_of_a_backup(repo: Path, other: Slapd) -> None:
    """One from the future was the latest, 0.0 s old, and OK for ever."""
    made = only(repo)
    alter(repo, made=(repository.now() + manifest.SKEW / 2).isoformat())  # clocks may differ a little
    assert check(repo, Limits(26 * 3600.0)).status is Status.OK
    alter(repo, made="2020-01-01T00:00:00+00:00")
    old = check(repo, Limits(3600)).text()[0]
    assert re.fullmatch(r"BACKUP CRITICAL - [^|]+ \| age=\d+s;;3600;0 count=1;1: .*", old)
    alter(repo, made="2031-01-01T00:00:00+00:00")
    found = check(repo, Limits(26 * 3600.0))
    assert (found.status, found.latest) == (Status.CRITICAL, None)
    assert f"{made.id} is dated 2031-01-01T00:00:00+00:00, later than now" in found.reason
    with pytest.raises(errors.BackupFromFuture, match="2031-01-01"):
        put_back(repo, other)
    assert "dated later than now" in ditseed("backup", "list", "-R", repo).ok().out
    put_back(repo, other, made.id)


def test_no_more_is_unpacked_than_a_map_may_hold(repo: Path, other: Slapd) -> None:
    """4 GiB in a file of some KiB: memory would be full."""
    made, size = only(repo), 4 << 30
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    zeros = bytes(8 << 20)
    bomb = b"".join([*(compressor.compress(zeros) for _ in range(size >> 23)), compressor.flush()])
    (repo / made.id / manifest.MAP).write_bytes(bomb)
    with pytest.raises(errors.BackupDamaged, match="the manifest says"):
        put_back(repo, other)
    forge_file(repo, made, manifest.MAP, bomb)
    with pytest.raises(errors.BackupDamaged, match="larger than the map of any backup"):
        put_back(repo, other)
    assert not list(other.database_dir.glob("*partial*"))


@pytest.mark.parametrize(
    "facts",
    [
        *("", "{}", "[]", "null", '{"format": 1}', '{"format": 99}', "\xff{"),
        *({"id": "../x"}, {"id": "x"}, {"entries": "many"}, {"suffix": None}, {"data_bytes": -1}),
        *({"data_bytes": 10**30}, {"is_ldif": True}, {"recipients": ["age1x"]}, {"incremental": True}, {"format": 2}),
        *({"machine": 64}, {"with_config": "yes"}, {"seconds": "NaN"}, {"unheard_of": 1}),
        *({"made": time} for time in ("yesterday", "2026-11-21T07:05:01", 5)),
        *({"context_csns": csns} for csns in ("x", [None])),
        *({"files": files} for files in ([], None)),
        *({"files": [{"name": name, "bytes": 0, "sums": []}]} for name in ("../pages.pack", "/etc/passwd")),
        *({"files": [{"name": "pages.pack", "bytes": 1, "sums": sums}]} for sums in ([], ["short"])),
        {"packs": [{"name": "pages.pack", "bytes": 0, "sums": []}]},
    ],
)
def test_a_manifest_that_is_none_or_of_wrong_types(repo: Path, facts: str | dict[str, object]) -> None:
    """No verb ends with [internal]."""
    made = only(repo)
    if isinstance(facts, str):
        (repo / made.id / manifest.MANIFEST).write_text(facts, encoding="latin-1")
    else:
        alter(repo, **facts)
    with pytest.raises(errors.ManifestBroken):
        repository.find(repo, made.id)
    listed = repository.listing(repo)
    assert (len(listed.backups), len(listed.broken)) == (0, 1)
    for verb in ("list", "check"):
        told = ditseed("backup", verb, "-R", repo)
        assert "internal" not in told.out + told.err


@pytest.mark.parametrize("what", ["no manifest", "cut", "alone"])
def test_the_latest_is_not_an_older_one(repo: Path, tmp_path: Path, what: str) -> None:
    """Whoever asks for the latest state gets it, or is told which one cannot be had, and how to take the one before."""
    older = only(repo)
    newer = repo / repository.new_id(repo, repository.now(), older.suffix)
    newer.mkdir()
    if what != "no manifest":
        (newer / "manifest.json").write_bytes((repo / older.id / "manifest.json").read_bytes()[:99])
    if what == "alone":
        shutil.rmtree(repo / older.id)
    into = ("-R", repo, "--target", tmp_path / "made")
    for more in ((), ("-b", older.suffix), ("--dry-run",)):
        done = ditseed("backup", "restore", "latest", *into, *more)
        done.refused(errors.LatestBroken, newer.name)
        assert done.out == ""
        assert (f"backup restore {older.id} -R {repo}" in done.err) == (what != "alone")
    assert not (tmp_path / "made").exists()
    assert ditseed("backup", "check", "-R", repo).status == Status.CRITICAL
    if what != "alone":
        ditseed("backup", "restore", older.id, *into).ok()


def test_as_of_a_time(repo: Path, tmp_path: Path) -> None:
    """The newest that was made by then, and no older one in its place."""
    made = only(repo)
    first, second, third = (dated(repo, made, _january(day, "02:15")) for day in (1, 2, 3))
    wanted = {"2026-01-02T02:15Z": second, "2026-01-02T03:14:59+01:00": first, "2026-01-09 00:00": third}
    for moment, backup_id in wanted.items():
        shown = ditseed("backup", "show", "--as-of", moment, "-R", repo, "--json").ok()
        assert shown.facts["backup"]["id"] == backup_id

    def restore(moment: str) -> Done:
        return ditseed("backup", "restore", "--as-of", moment, "-R", repo, "--target", tmp_path / "made")

    early = restore("2026-01-01T02:14Z")
    early.refused(errors.NoSuchBackup, "no backup at all made by 2026-01-01 02:14:00")
    (repo / second / "manifest.json").write_text("{")
    late = restore("2026-01-02T12:00Z")
    broken = f"the latest backup made by 2026-01-02 12:00:00+00:00, {second}, cannot be used"
    late.refused(errors.LatestBroken, broken, f"backup restore {first} -R {repo}")
    assert early.out == late.out == ""
    restore("2026-01-01T12:00Z").ok()


def _january(day: int, time: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(f"2026-01-0{day}T{time}:00+00:00")


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
def test_which_backup_is_meant(backed_up: Path, words: tuple[str, ...], reason: str) -> None:
    for verb in (("restore", "--target", "/nowhere/x"), ("show",), ("drill",), ("extract", "--dn", "")):
        ditseed("backup", *verb, *words, "-R", backed_up).refused(errors.UsageProblem, reason)


def test_the_latest_is_the_last_of_the_list(repo: Path) -> None:
    """It is found by the names, without the list; of two of the same second, too."""
    made = only(repo)
    other = structs.replace(made, suffix="dc=another,dc=org")
    for day in (1, 2):
        names = [dated(repo, one, _january(day, "00:00")) for one in (other, made, other)]
    for suffix in (None, made.suffix, other.suffix):
        last = repository.listing(repo, suffix).backups[-1]
        assert repository.find(repo, "latest", suffix) == last
    assert repository.find(repo, "latest", other.suffix).id == names[-1]
    # A broken one of another suffix, or an older one, is no reason.
    broken = repository.new_id(repo, repository.now(), "dc=third,dc=org")
    for name in (broken, "20200101T000000Z-dc-example-dc-com"):
        (repo / name).mkdir()
    assert repository.find(repo, "latest", made.suffix).suffix == made.suffix
    with pytest.raises(errors.LatestBroken, match=broken):
        repository.find(repo, "latest")


# --- entries instead of pages -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def entries(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one backup of entries. Read it only."""
    made = tmp_path_factory.mktemp("ldif") / "repo"
    backup("run", made, "--init", "--config", stopped.config_path, "--kind", "ldif").ok()
    return made


def test_entries_restored_are_the_same_database(stopped: Slapd, entries: Path) -> None:
    """For a configuration with other indexes, which no copy of the pages would fit."""
    other = dataclasses.replace(stopped.settings, indexes=("objectClass,uid eq", "cn eq,sub"))
    with closing(Slapd(other)) as target:
        done = backup("restore", entries, "latest", "--config", target.config_path, "--json").ok()
        assert done.facts["entries"] == only(entries).entries == 1029
        target.own_files()
        assert target.slapcat() == stopped.slapcat()
        ditseed("verify", target.database_dir, "--config", target.config_path, "--verify", "indexes").ok()


@pytest.mark.long
def test_each_verb_with_entries(stopped: Slapd, entries: Path, scratch: Path, tmp_path: Path) -> None:
    shown = backup("show", entries, "latest").ok().out
    assert re.search(r"(?m)^kind +ldif$", shown), shown
    backup("verify", entries).ok()
    assert "good" in backup("drill", entries, "latest", "--tmp", scratch).ok().out
    dn = f"ou=people,{stopped.suffix}"
    assert backup("extract", entries, "latest", "--dn", dn, "--tmp", scratch).ok().out.startswith(f"dn: {dn}\n")
    assert not list(scratch.iterdir())
    backup("restore", entries, "latest", "--target", tmp_path / "look").ok()
    ditseed("compare", tmp_path / "look", stopped.database_dir).ok()


@pytest.mark.long
def test_entries_beside_a_writer_encrypted_and_throttled(people_ldif: Path, tmp_path: Path) -> None:
    key, repo = generated(tmp_path / "key"), tmp_path / "repo"
    with closing(replication.provider()) as server, closing(Slapd(server.settings)) as target:
        server.slapadd(people_ldif, "-w")
        server.start()
        more = ("--kind", "ldif", "--recipient", key.public, "--throttle", "1M")
        with Churn(server, rate=200.0) as churn:
            churn.wait_for(20)
            backup("run", repo, "--init", "--config", server.config_path, *more).ok()
        (directory,) = repo.glob("*Z-*")
        assert {one.name for one in directory.iterdir()} == {"config.ldif.age", "data.ldif.zst.age", "manifest.json"}
        into = ("--config", target.config_path, "--identity", key.path)
        assert backup("restore", repo, "latest", *into, "--json").ok().facts["entries"] >= 1029
        ditseed("verify", target.database_dir, "--config", target.config_path).ok()


@pytest.mark.long
def test_entries_damaged_then_killed(entries: Path, stopped: Slapd, tmp_path: Path) -> None:
    damaged = shutil.copytree(entries, tmp_path / "repo")
    flip(damaged / only(entries).id / "data.ldif.zst")
    assert backup("verify", damaged).status == 1
    with closing(Slapd(stopped.settings)) as target:
        into = ("latest", "--config", target.config_path)
        backup("restore", damaged, *into).refused(errors.BackupDamaged)
        assert not (target.database_dir / "data.mdb").exists()
        assert backup("restore", entries, *into, DITSEED_KILL_AT="load.unrecorded").status == -signal.SIGKILL
        backup("restore", entries, *into).ok()
        assert {one.name for one in target.database_dir.iterdir()} == {"data.mdb"}
        assert target.slapcat() == stopped.slapcat()
