"""`ditseed doctor` at real servers that have what it warns of; and what can end or starve the slapd of a host and its
backups, of which `ditseed doctor --check` and `ditseed backup check` never make OK."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import ldap
import pytest
from msgspec import structs

from fixtures import replication
from fixtures.partial import LOG, with_log
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader import units
from loader.mdb import contents, edits, meta
from loader.operations.backup import repository
from tests.support import plugin
from tests.support.adding import SUFFIX, TOP, people, write
from tests.support.backups import alter, dated, flip, only
from tests.support.command import Done, ditseed
from tests.support.disks import loop_filesystem
from tests.support.mapped import read_by_another
from tests.support.nobody import NOBODY
from tests.support.processes import announced
from tests.support.require import require_root

pytestmark = [pytest.mark.slapd, pytest.mark.usefixtures("state")]

Facts = dict[str, Any]
MIB = 1 << 20


def examined(server: Slapd, *more: object) -> Done:
    return ditseed("doctor", "--config", server.config_path, *more)


def of_rule(done: Done, rule: str) -> list[Facts]:
    return [one for one in done.facts["findings"] if one["rule"] == rule]


def numbers(done: Done) -> dict[str, plugin.Datum]:
    return plugin.read(done.out.splitlines(), "DOCTOR")[1]


def write_to(server: Slapd, times: int) -> None:
    with server.connection() as handle:
        for _ in range(times):
            change = [(ldap.MOD_REPLACE, "description", os.urandom(12).hex().encode())]
            handle.modify_s(SUFFIX, change)


def test_maxsize_below_what_is_used(tmp_path: Path) -> None:
    """LMDB maps what is used in any case, so shares are of that."""
    with Slapd(Settings(maxsize=16 * MIB, loglevel="none"), form="config") as server:
        server.ldapadd(write(tmp_path / "x.ldif", TOP, people(50)))
        server.stop()
        used = meta.read_meta(server.database_dir).used
        (path,) = server.config_path.glob("cn=config/olcDatabase=*mdb.ldif")
        text = path.read_text()
        path.write_text(text.replace(f"olcDbMaxSize: {16 * MIB}", f"olcDbMaxSize: {used // 2}"))
        done = examined(server, "--json")
        (found,) = of_rule(done, "maxsize")
        assert (found["severity"], f"{units.size(used // 2)} are configured" in found["what"]) == ("warning", True)
        (room,) = (one["room"] for one in done.facts["databases"])
        assert room["maxsize"] == used >= room["reusable"]
        server.start()
        write_to(server, 1)  # into a free page


def test_a_stuck_reader_is_warned_about_before_slapd_fails(tmp_path: Path) -> None:
    """While writes still succeed. The reader is killed then, --fix clears its slot, and writes go on."""
    with Slapd(Settings(maxsize=4 * MIB, loglevel="none")) as server:
        server.ldapadd(write(tmp_path / "x.ldif", TOP, people(50)))
        write_to(server, 5)
        assert checked(server).out.startswith("DOCTOR OK - ")
        with read_by_another(server.database_dir) as reader:
            os.kill(reader.pid, signal.SIGSTOP)  # as Ctrl-Z does
            statuses, written = [], 0
            while CRITICAL not in statuses:
                write_to(server, 10)  # raises when slapd refuses
                written += 10
                if meta.read_meta(server.database_dir).used >= 3 * MIB:
                    done = checked(server)
                    statuses.append(done.status)
                    assert done.status in (0, WARNING, CRITICAL), done
            assert WARNING in statuses, statuses
            assert statuses == sorted(statuses)
            assert re.match(r"DOCTOR CRITICAL - dc=example,dc=com: .* of maxsize 4\.0 MiB are", done.out)
            told = numbers(done)
            assert told["mdb3_lag"].value == written
            available, limit = told["mdb3_available"], told["mdb3_available"].limits[1]
            assert (available.unit, limit is not None and available.value < limit.start) == ("B", True)

            shown = examined(server)
            assert shown.status == 1
            assert f"(process {reader.pid}), is {written} transactions behind" in shown.out
            assert f"    kill {reader.pid} || kill -9 {reader.pid}\n" in shown.out
            where = f"-H {shlex.quote(server.ldapi_uri)} -Y EXTERNAL"
            assert f"ditseed tune maxsize {where} -b dc=example,dc=com" in shown.out

            write_to(server, 3)  # it still succeeds
            with pytest.raises(ldap.OTHER):  # MDB_MAP_FULL
                write_to(server, 500)
            assert_told(checked(server), "DOCTOR", CRITICAL, r"of maxsize 4\.0 MiB are available \([0-9] %\)")
            reader.kill()
            reader.wait()
            with pytest.raises(ldap.OTHER):  # a slot that nobody clears
                write_to(server, 1)
            (dead,) = of_rule(examined(server, "--json"), "readers.dead")
            assert (dead["severity"], f"dead processes ({reader.pid})" in dead["what"]) == ("warning", True)
            fixed = examined(server, "--fix", "--json")
            assert fixed.facts["fixed"] == [f"{SUFFIX}: slots of dead readers cleared: 1"]
            readers = fixed.facts["databases"][0]["readers"]  # slapd itself may be reading
            assert [one for one in readers if one["pid"] != server.pid] == []
        write_to(server, 50)
        assert checked(server).status == 0


@pytest.mark.long
def test_what_a_killed_run_left_is_put_back_by_fix(slapd_instance: Slapd, tmp_path: Path) -> None:
    server = slapd_instance
    path = write(tmp_path / "x.ldif", TOP, people(5))
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL", "-b", SUFFIX)
    kill = {"DITSEED_KILL_AT": "nosync.taken"}
    assert ditseed("add", path, *where, "--nosync", env=kill).status == -signal.SIGKILL
    done = examined(server, "--json")
    assert done.status == 1
    assert [one["severity"] for one in of_rule(done, "lease")] == ["warning"]
    assert [one["severity"] for one in of_rule(done, "sync")] == ["critical"]
    monitored = checked(server)
    assert monitored.status == 2
    assert numbers(monitored)["leases"].value == 1
    fixed = examined(server, "--fix")
    told = f"fixed: nosync of {SUFFIX} at {server.ldapi_uri}: restored"
    assert (fixed.status, told in fixed.out) == (0, True), fixed
    assert of_rule(examined(server, "--json"), "lease") == []


@pytest.mark.long
def test_an_index_that_the_configuration_has_and_the_file_lacks(tmp_path: Path) -> None:
    """Added to slapd.conf while slapd was stopped; the command that is printed makes it."""
    with Slapd(Settings(), form="conf") as server:
        server.stop()
        server.slapadd(write(tmp_path / "x.ldif", TOP, people(20)))
        assert of_rule(examined(server, "--json"), "indexes")[0]["severity"] == "ok"
        conf = server.home / "slapd.conf"
        conf.write_text(conf.read_text() + "\nindex givenName,description eq\n")
        server.tool("slapcat", "-f", str(conf), "-l", "/dev/null")
        done = examined(server, "--json")
        (found,) = of_rule(done, "indexes")
        assert (done.status, found["severity"]) == (1, "warning")
        assert "givenName" in found["what"]
        _, command, _ = found["mend"]
        subprocess.run(command, shell=True, check=True, env=server.installation.environment())
        assert of_rule(examined(server, "--json"), "indexes")[0]["severity"] == "ok"


@pytest.mark.long
@pytest.mark.parametrize("form", ["config", "conf"])
def test_commands_make_a_log_replayable(tmp_path: Path, form: Form) -> None:
    logs = "logops add session\nlogsuccess TRUE\nlogoldattr cn\nlogpurge 0+12:00 0+01:00"
    settings = with_log(tmp_path / "log", Settings(database_lines=("lastmod off",)), logs=logs)
    with Slapd(settings, form=form) as server:
        server.ldapadd(TOP)
        (one,) = of_rule(examined(server, "--json"), "accesslog")
        assert (one["severity"], one["subject"]) == ("note", SUFFIX)
        problems = ("lastmod", "logops", "logsuccess", "logold ", "logoldattr", "logpurge after 12 h 0 min")
        assert [word for word in problems if word not in one["what"]] == []
        first, *mend = one["mend"]
        assert (first[0], len(mend)) == ("#", len(problems))
        if form == "conf":
            assert "# in slapd.conf: logops session add writes" in mend
            assert "# in slapd.conf: lastmod TRUE" in mend
            return
        for command in mend:
            subprocess.run(command, shell=True, check=True)
        assert of_rule(examined(server, "--json"), "accesslog") == []
        written = server.search("(objectClass=auditAdd)", base=LOG)
        server.ldapadd(people(1))
        assert len(server.search("(objectClass=auditAdd)", base=LOG)) == len(written) + 1


@pytest.mark.long
def test_a_log_without_order(tmp_path: Path) -> None:
    with closing(Slapd(with_log(tmp_path / "log", lines=("multival reqMod 2,1",)))) as server:
        (one,) = of_rule(examined(server, "--json"), "accesslog")
        assert (one["severity"], "multival reqMod of cn=accesslog" in one["what"]) == ("critical", True)


WARNING, CRITICAL, UNKNOWN = 1, 2, 3
NAMES = {WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}
TAKE_ALL = """
import lmdb, sys
environment, held = lmdb.open(sys.argv[1], readonly=True, max_dbs=64), []
try:
    while True:
        held.append(environment.begin())
except lmdb.ReadersFullError:
    print("full", flush=True)
sys.stdin.read()
for transaction in held:
    transaction.abort()
environment.close()
"""
Fault = Callable[[Slapd], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A slapd of openldap that is well, and is so again after each fault."""
    require_root()
    settings = Settings(maxsize=64 << 20, loglevel="none", overlays=("overlay syncprov",))
    with Slapd(settings, user="openldap") as server:
        path = write(tmp_path_factory.mktemp("host") / "x.ldif", TOP, people(200))
        server.ldapadd(path)
        yield server


def checked(server: Slapd, *more: object, **environment: str) -> Done:
    return ditseed("doctor", "--check", "--config", server.config_path, *more, env=environment)


def assert_told(done: Done, monitor: str, status: int, words: str) -> None:
    """It prints the first line, so that `pytest -rA` shows a table of all."""
    print(done.out.partition(" | ")[0].partition("\n")[0])
    assert done.status == status, done
    assert done.out.startswith(f"{monitor} {NAMES[status]} - "), done
    assert re.search(words, done.out), done
    assert not re.search(r"\bOK\b", done.out), done


def fault(make: Callable[..., Iterator[None]]) -> Callable[..., Fault]:
    """Makes a row of FAULTS of a function with one `yield`, between the fault and its end."""
    return lambda *given: lambda server: contextmanager(make)(server, *given)


@fault
def replaced(server: Slapd, name: str, content: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """Another file has its name; slapd goes on with the one that it has open."""
    path = server.home / name
    aside = path.rename(path.with_name(path.name + ".aside"))
    status = aside.stat()
    try:
        if content is not None:
            path.write_bytes(content(aside.read_bytes()))
            path.chmod(status.st_mode)
            os.chown(path, status.st_uid, status.st_gid)
        yield
    finally:
        aside.rename(path)


@fault
def roots_of(server: Slapd, names: str, mode: int) -> Iterator[None]:
    """Files or directories that root has, as a tool leaves them that root ran."""
    paths = [server.home / name for name in names.split()]
    before = [path.stat() for path in paths]
    for path in paths:
        os.chown(path, 0, 0)
        path.chmod(mode)
    try:
        yield
    finally:
        for path, status in zip(paths, before, strict=True):
            os.chown(path, status.st_uid, status.st_gid)
            path.chmod(status.st_mode)


@fault
def between(server: Slapd, do: Callable[[Slapd], object], undo: Callable[[Slapd], object]) -> Iterator[None]:
    do(server)
    try:
        yield
    finally:
        undo(server)


def without_root(content: bytes) -> bytes:
    """The pages of the tables are other bytes, the meta pages and the length are as they were."""
    return content[:8192] + b"\xa5" * (len(content) - 8192)


def signalled(number: signal.Signals) -> Callable[[Slapd], None]:
    return lambda server: os.kill(int((server.home / "slapd.pid").read_text()), number)


def run(*command: str) -> Callable[[Slapd], object]:
    """The command, with the database directory behind it."""
    return lambda server: subprocess.run([*command, str(server.database_dir)], check=True)


down = between(Slapd.stop, Slapd.start)
hanging = between(signalled(signal.SIGSTOP), signalled(signal.SIGCONT))
# slapd has the files open; whoever takes the path comes into an empty directory.
not_mounted = between(run("mount", "-t", "tmpfs", "none"), run("umount"))


@contextmanager
def readers_full(server: Slapd) -> Iterator[None]:
    with announced(TAKE_ALL, server.database_dir) as reader:
        yield
        reader.communicate()  # it ends, and gives its slots back


def configured(setting: str, wrong: str, right: str) -> Fault:
    """A setting of the database; without a value it is removed."""

    def put(value: str) -> Callable[[Slapd], None]:
        change = f"dn: olcDatabase={{3}}mdb,cn=config\nchangetype: modify\nreplace: {setting}\n"
        lines = "".join(f"{setting}: {one}\n" for one in value.split("; ") if one)
        return lambda server: server.configure(change + lines)

    return between(put(wrong), put(right))


SCHEMA = "slapd.d/cn=config/cn=schema.ldif"
INDEXES = "; ".join(Settings.indexes)
FAULTS: dict[str, tuple[Fault, int, str]] = {
    "data.mdb gone": (replaced("data/data.mdb", None), CRITICAL, "there is no .*data.mdb"),
    "emptied": (replaced("data/data.mdb", lambda _: b""), CRITICAL, r"data.mdb: .*\(empty\)"),
    "cut": (replaced("data/data.mdb", lambda old: old[:-100]), CRITICAL, "data.mdb: it was cut"),
    "overwritten": (replaced("data/data.mdb", without_root), CRITICAL, "data.mdb: "),
    "no LMDB": (replaced("data/data.mdb", lambda old: os.urandom(len(old))), CRITICAL, "not a 64-bit LMDB database"),
    "lock of another LMDB": (replaced("data/lock.mdb", lambda old: os.urandom(len(old))), UNKNOWN, "lock format"),
    "slapd.d without cn=config": (replaced("slapd.d/cn=config.ldif", None), CRITICAL, "tools cannot read"),
    "slapd.d that is none": (replaced("slapd.d/cn=config.ldif", lambda _: b"no LDIF"), CRITICAL, "tools cannot read"),
    "data.mdb of root": (roots_of("data/data.mdb", 0o600), CRITICAL, "openldap cannot read .*data.mdb"),
    "data.mdb of root, readable": (roots_of("data/data.mdb", 0o644), CRITICAL, "openldap cannot write .*data.mdb"),
    "lock.mdb of root": (roots_of("data/lock.mdb", 0o600), CRITICAL, "openldap cannot read .*lock.mdb"),
    "directories": (roots_of("data accounts", 0o700), CRITICAL, "Permission denied"),
    "directory": (roots_of("data", 0o700), CRITICAL, "Permission denied"),
    "slapd.d": (roots_of(SCHEMA, 0o600), CRITICAL, "openldap cannot read .*cn=schema.ldif"),
    "slapd.d, readable": (roots_of(SCHEMA, 0o644), WARNING, "openldap cannot write .*cn=schema.ldif"),
    "down": (down, CRITICAL, "slapd is not running"),
    "hanging": (hanging, CRITICAL, "does not answer"),
    "readers full": (readers_full, CRITICAL, r"(\d+) of \1 reader slots"),
    "nosync left on": (configured("olcDbNoSync", "TRUE", "FALSE"), CRITICAL, "nosync, no checkpoint"),
    "directory gone": (replaced("data", None), CRITICAL, "olcDbDirectory: .* No such file"),
    "volume not mounted": (not_mounted, CRITICAL, "there is no .*data.mdb"),
    "maxsize unset": (configured("olcDbMaxSize", "", str(64 << 20)), WARNING, "maxsize was never set"),
    "index missing": (configured("olcDbIndex", "objectClass eq", INDEXES), WARNING, "no index entryCSN eq"),
}


@pytest.mark.parametrize(("fault", "status", "words"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_never_ok(host: Slapd, fault: Fault, status: int, words: str) -> None:
    quick = {"LDAPTIMEOUT": "1", "LDAPNETWORK_TIMEOUT": "1"} if fault is hanging else {}
    with fault(host):
        done = checked(host, **quick)
    assert_told(done, "DOCTOR", status, words)


@contextmanager
def disk_full() -> Iterator[Slapd]:
    """It has a tenth of maxsize; slapd has refused a write."""
    settings = Settings(maxsize=64 << 20, loglevel="none")
    with loop_filesystem(6) as disk, Slapd(settings, directory=disk / "home") as server:
        server.ldapadd(TOP)
        with server.connection() as handle:
            for number in range(10_000):
                values = {"objectClass": "person", "sn": "x", "description": os.urandom(4000).hex()}
                try:
                    handle.add_s(f"cn={number},{SUFFIX}", [(name, [value.encode()]) for name, value in values.items()])
                except ldap.OTHER:  # ENOSPC
                    break
            else:
                pytest.fail("it takes every write")
        yield server


@contextmanager
def disk_fails() -> Iterator[Slapd]:
    """Each read from the disk gives EIO; slapd answers from the page cache."""
    settings = Settings(maxsize=16 << 20, loglevel="none")
    with loop_filesystem(300, "xfs") as disk, closing(Slapd(settings)) as server:
        subprocess.run(["mount", "--bind", str(disk), str(server.database_dir)], check=True)
        try:
            server.start()
            server.ldapadd(TOP)
            subprocess.run(["sync", "-f", str(disk)], check=True)
            os.truncate(disk.parent / "image", 0)
            assert len(server.search()) == 1
            yield server
        finally:
            server.stop()
            subprocess.run(["umount", str(server.database_dir)], check=True)


@contextmanager
def without_server_id() -> Iterator[Slapd]:
    """One of two providers that both write."""
    with Slapd(Settings(loglevel="none", overlays=("overlay syncprov",))) as other:
        other.ldapadd(TOP)
        line = replication.syncrepl(other)
        lines = (line, "multiprovider on")
        settings = replication.as_consumer(other.settings, database_lines=lines)
        with Slapd(settings) as server:
            replication.wait_in_sync(other, server)
            yield server


@pytest.mark.parametrize(
    ("made", "status", "words"),
    [
        pytest.param(disk_full, CRITICAL, "the disk has room for .* only", id="disk full"),
        pytest.param(disk_fails, CRITICAL, "from the disk failed: Input/output error", id="disk EIO"),
        pytest.param(without_server_id, CRITICAL, "olcServerID is not set", id="server ID missing"),
    ],
)
def test_a_host_of_its_own_is_never_ok(
    made: Callable[[], AbstractContextManager[Slapd]], status: int, words: str
) -> None:
    with made() as server:
        assert_told(checked(server), "DOCTOR", status, words)


@pytest.mark.parametrize("tool", ["find", "slapd"])
def test_a_tool_that_a_signal_ends_leaves_something_unknown(host: Slapd, tool: str) -> None:
    folder = host.home / tool  # which openldap reaches
    folder.mkdir()
    slapcat = f'exec {shutil.which("slapcat")} "$@"'  # the slapd beside it is used
    for name, line in (("slapcat", slapcat), (tool, "kill -9 $$")):
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    done = checked(host, PATH=f"{folder}:{os.environ['PATH']}")
    assert_told(done, "DOCTOR", UNKNOWN, "not looked at: ")


def test_a_command_that_is_printed_gives_the_file_back(host: Slapd) -> None:
    with roots_of("data/data.mdb", 0o600)(host):
        (one,) = of_rule(examined(host, "--json"), "access")
        assert one["mend"] == [f"chown -h openldap: -- {host.database_dir / 'data.mdb'}"]
        subprocess.run(one["mend"][0], shell=True, check=True)
        assert checked(host).status == 0


def test_slapd_that_was_stopped_is_a_warning_without_check_and_one_that_died_is_not(host: Slapd) -> None:
    with down(host):
        (one,) = of_rule(told := examined(host, "--json"), "slapd")
        assert (told.status, one["severity"]) == (1, "warning")
        (host.home / "slapd.pid").write_text("4194304\n")  # more than the kernel's greatest
        (one,) = of_rule(told := examined(host, "--json"), "slapd")
        assert (one["severity"], "it did not stop, it died" in one["what"]) == ("critical", True)
        (host.home / "slapd.pid").unlink()


def test_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    config = tmp_path / "slapd.conf"
    config.write_text("include /etc/ldap/schema/core.schema\n")
    for path, status, words in ((config, CRITICAL, "has no mdb database"), ("/nowhere", UNKNOWN, "no such file")):
        assert_told(ditseed("doctor", "--check", "--config", path), "DOCTOR", status, words)


def test_tls_files(tmp_path: Path) -> None:
    """slapd is not started: it would not."""
    require_root()
    good, other = (Authority(tmp_path / name).valid() for name in ("one", "other"))
    with closing(Slapd(Settings(tls=good), user="openldap")) as server:
        assert "does not belong to" not in checked(server).out
        shutil.copy(good.key, tmp_path / "kept")
        shutil.copy(other.key, good.key)
        assert_told(checked(server), "DOCTOR", CRITICAL, "does not belong to the certificate")
        good.key.unlink()
        assert_told(checked(server), "DOCTOR", CRITICAL, f"there is no {good.key}")
        shutil.copy(tmp_path / "kept", good.key)
        good.certificate.write_text("no certificate\n")
        assert_told(checked(server), "DOCTOR", CRITICAL, "has no certificate in PEM form")


def test_a_consumer_and_its_provider(provider: Slapd, tmp_path: Path) -> None:
    """The provider shows its contextCSN to accounts only, and a certificate has expired. The consumer is behind, then
    ahead, as of a provider that was restored from an older backup; the password of olcSyncrepl is wrong; the provider
    is gone."""
    tls = Authority(tmp_path / "ca").expired()
    settings = replication.as_consumer(provider.settings, tls=tls)
    account = ("-H", provider.uri, "-D", "cn=replicator", "-y", provider.replicator_password_file)
    with closing(replication.consumer(provider, settings)) as server:
        server.slapadd(provider.slapcat(), "-w")
        done = examined(server, "--json", "-R", tmp_path)
        assert done.status == 1
        (expired, authority) = of_rule(done, "certificate")
        assert (expired["severity"], authority["severity"]) == ("critical", "ok")
        assert re.search("has expired .* ago", expired["what"])
        assert [one["severity"] for one in of_rule(done, "backup")] == ["critical"]
        done = examined(server, "--json", "-R", tmp_path / "none", *account)
        assert of_rule(done, "backup") == []
        assert f"{SUFFIX}: backups" in [one["what"] for one in done.facts["not_looked_at"]]
        assert [one["severity"] for one in of_rule(done, "replication")] == ["ok"]

        (stored,) = contents.context_csns(server.database_dir, SUFFIX)
        write_to(provider, 1)
        edits.stamp(server.database_dir, SUFFIX, ("20200101000000.000000Z#000000#001#000000",))
        (late,) = of_rule(examined(server, "--json", *account), "replication")
        assert late["severity"] == "critical"
        assert f"behind {provider.uri}, by contextCSN" in late["what"]
        assert numbers(checked(server, *account))["mdb3_behind"].value > 1e8

        edits.stamp(server.database_dir, SUFFIX, (f"2099{stored[4:]}",))
        assert_told(checked(server), "DOCTOR", CRITICAL, "has newer changes from server ID 001")
        server.start()
        consumer = ("--consumer", server.uri, "--consumer-bind-dn", "cn=replicator")
        password = ("--consumer-password-file", server.replicator_password_file, "--config", server.config_path)
        told = ditseed("replica", "verify", *account, "-b", SUFFIX, *consumer, *password)
        assert "the replica has newer changes of server ID 001 than the provider" in told.out
        server.stop()
        edits.stamp(server.database_dir, SUFFIX, (stored,))
        change = "dn: olcDatabase={2}ldif,cn=config\nchangetype: modify\nreplace: olcRootPW\nolcRootPW: x\n"
        provider.configure(change)
        done = checked(server)
        assert_told(done, "DOCTOR", CRITICAL, "the provider refuses the account of olcSyncrepl")
        secret = provider.replicator_password_file.read_text()
        assert secret not in done.out + done.err
        provider.stop()
        gone = f"the provider {provider.uri} cannot be reached"
        assert_told(checked(server), "DOCTOR", CRITICAL, gone)


# --- backup check -----------------------------------------------------------------------------------

OTHER = "dc=other,dc=org"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories: `one` backup, with its configuration; a `set` of two databases; `shared`: pages in packs."""
    place = tmp_path_factory.mktemp("kept")
    (place / "other").mkdir()
    second = ("database mdb", f"suffix {OTHER}", f"directory {place}/other", f"maxsize {64 << 20}")
    with closing(Slapd(Settings(database_lines=second))) as server:
        server.slapadd(write(place / "x.ldif", TOP, people(20)))
        where = (*server.config_arguments, "-b", OTHER)
        entry = f"dn: {OTHER}\nobjectClass: dcObject\nobjectClass: organization\ndc: other\no: x\n"
        server.tool("slapadd", "-q", *where, stdin=entry.encode())
        run = ("backup", "run", "--init", "--config", server.config_path, "-R")
        ditseed(*run, place / "one", "-b", SUFFIX).ok()
        ditseed(*run, place / "set", "--all-databases").ok()
        ditseed(*run, place / "shared", "-b", SUFFIX, "--incremental").ok()
    return place


Damage = Callable[[Path], object]


def moment(hours: float) -> str:
    return (repository.now() + datetime.timedelta(hours=hours)).isoformat()


def first(names: str, damage: Callable[[Path], object]) -> Damage:
    return lambda repo: damage(sorted(repo.glob(names))[0])


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def found_damaged(repo: Path) -> None:
    (data,) = repo.glob("*/pages.pack")
    flip(data)
    assert ditseed("backup", "verify", "-R", repo).status == 1


def shrunk(repo: Path) -> None:
    """The backup before it had more entries."""
    one = only(repo)
    assert one.entries
    dated(repo, structs.replace(one, entries=10 * one.entries), repository.now() - datetime.timedelta(hours=5))


@pytest.mark.parametrize("name", ["one", "set", "shared"])
def test_backups_that_are_well(kept: Path, host: Slapd, name: str) -> None:
    done = ditseed("backup", "check", "-R", kept / name)
    assert (done.status, done.out.startswith("BACKUP OK - ")) == (0, True), done
    assert checked(host, "-R", kept / name).status == 0


DAMAGES: dict[str, tuple[str, Damage, int, str]] = {
    "repository gone": ("one", shutil.rmtree, UNKNOWN, "no such file or directory"),
    "repository emptied": ("one", first("2*", shutil.rmtree), CRITICAL, "no backup"),
    "too old": ("one", lambda repo: alter(repo, made=moment(-50)), CRITICAL, "is 2.* old"),
    "clock gone back": ("one", lambda repo: alter(repo, made=moment(9)), CRITICAL, "later than now"),
    "manifest gone": ("one", first("2*/manifest.json", Path.unlink), CRITICAL, "cannot be used"),
    "manifest cut": ("one", first("2*/manifest.json", shorten), CRITICAL, "cannot be used"),
    "config.ldif gone": ("one", first("2*/config.ldif", Path.unlink), CRITICAL, "config.ldif"),
    "pages.map gone": ("one", first("2*/pages.map", Path.unlink), CRITICAL, "pages.map"),
    "data gone": ("one", first("2*/pages.pack", Path.unlink), CRITICAL, "pages.pack"),
    "data cut": ("one", first("2*/pages.pack", shorten), CRITICAL, "pages.pack"),
    "found damaged": ("one", found_damaged, CRITICAL, "was found damaged"),
    "directory emptied before": ("one", shrunk, WARNING, "has fewer entries"),
    "pack gone": ("shared", first("pages/*", Path.unlink), CRITICAL, "cannot be restored"),
    "pack cut": ("shared", first("pages/*", shorten), CRITICAL, "cannot be restored"),
    "set torn": ("set", first("2*-dc-other-dc-org", shutil.rmtree), CRITICAL, "cannot be restored"),
}


@pytest.mark.parametrize(("name", "fault", "status", "words"), DAMAGES.values(), ids=DAMAGES)
def test_a_backup_is_never_ok(
    kept: Path, tmp_path: Path, host: Slapd, name: str, fault: Damage, status: int, words: str
) -> None:
    """Neither to `backup check` nor to `doctor --check`."""
    repo = tmp_path / "repo"
    shutil.copytree(kept / name, repo)
    fault(repo)
    assert_told(ditseed("backup", "check", "-R", repo), "BACKUP", status, words)
    assert_told(checked(host, "-R", repo), "DOCTOR", status, words)


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ("-b dc=example,dc=net", CRITICAL, "no backup of dc=example,dc=net"),
        ("--min-count 2", WARNING, "1 of at least 2"),
        ("--max-verify-age 8d", WARNING, "no backup was ever verified"),
        ("--max-drill-age 8d", WARNING, "no backup was ever drilled"),
    ],
)
def test_a_backup_beyond_a_limit_is_never_ok(kept: Path, more: str, status: int, words: str) -> None:
    assert_told(ditseed("backup", "check", "-R", kept / "one", *more.split()), "BACKUP", status, words)


def test_a_repository_on_a_dead_disk_is_never_ok(kept: Path, host: Slapd) -> None:
    with loop_filesystem(16) as disk:
        repo, image = disk / "repo", disk.parent / "image"
        shutil.copytree(kept / "one", repo)
        subprocess.run(["umount", str(disk)], check=True)  # nothing of it stays in memory
        subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
        os.truncate(image, 0)
        done, doctor = ditseed("backup", "check", "-R", repo), checked(host, "-R", repo)
    reason = "Input/output error|Bad message"  # the second if ext4 reads zeros, whose checksum is wrong
    assert_told(done, "BACKUP", UNKNOWN, reason)
    assert_told(doctor, "DOCTOR", UNKNOWN, reason)


def test_a_repository_that_cannot_be_read_is_never_ok(kept: Path) -> None:
    require_root()
    done = ditseed("backup", "check", "-R", kept / "one", prefix=NOBODY)
    assert_told(done, "BACKUP", UNKNOWN, "(P|no p)ermission")
