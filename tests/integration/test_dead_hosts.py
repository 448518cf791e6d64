"""What can end or starve the slapd of a host, and what `ditseed doctor --check` makes of it: never OK."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader.mdb import context_csn
from tests.support.adding import SUFFIX, TOP, people, write
from tests.support.command import Done, ditseed

pytestmark = [
    pytest.mark.slapd,
    pytest.mark.skipif(os.geteuid() != 0, reason="chown"),
]

WARNING, CRITICAL, UNKNOWN = 1, 2, 3
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
    settings = Settings(maxsize=64 << 20, loglevel="none")
    with Slapd(settings, user="openldap") as server:
        path = write(tmp_path_factory.mktemp("host") / "x.ldif", TOP, people(200))
        server.ldapadd(path)
        yield server


def checked(server: Slapd, *more: object, **environment: str) -> Done:
    state = {"DITSEED_STATE_DIR": str(server.home / "state"), **environment}
    return ditseed("doctor", "--check", "--config", server.config_path, *more, env=state)


def test_a_host_that_is_well(host: Slapd) -> None:
    done = checked(host)
    assert (done.status, done.out.startswith("DOCTOR OK - ")) == (0, True), done


@contextmanager
def _replaced(path: Path, content: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """Another file has its name; slapd goes on with the one that it has open."""
    aside = path.with_name(path.name + ".aside")
    status = path.stat()
    path.rename(aside)
    try:
        if content is not None:
            path.write_bytes(content(aside.read_bytes()))
            path.chmod(status.st_mode)
            os.chown(path, status.st_uid, status.st_gid)
        yield
    finally:
        path.unlink(missing_ok=True)
        aside.rename(path)


def data(content: Callable[[bytes], bytes] | None) -> Fault:
    return lambda server: _replaced(server.database_dir / "data.mdb", content)


def lock(content: Callable[[bytes], bytes] | None) -> Fault:
    return lambda server: _replaced(server.database_dir / "lock.mdb", content)


def setting(content: Callable[[bytes], bytes] | None) -> Fault:
    return lambda server: _replaced(server.config_path / "cn=config.ldif", content)


def roots_of(names: str, mode: int) -> Fault:
    """Files or directories that root has, as a tool leaves them that root ran."""

    @contextmanager
    def fault(server: Slapd) -> Iterator[None]:
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

    return fault


def without_root(content: bytes) -> bytes:
    """The pages of the tables are other bytes, the meta pages and the length are as they were."""
    return content[:8192] + b"\xa5" * (len(content) - 8192)


def cut(content: bytes) -> bytes:
    return content[:-100]


@contextmanager
def down(server: Slapd) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def hanging(server: Slapd) -> Iterator[None]:
    pid = int((server.home / "slapd.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def readers_full(server: Slapd) -> Iterator[None]:
    command = [sys.executable, "-c", TAKE_ALL, str(server.database_dir)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "full\n"
        try:
            yield
        finally:
            reader.communicate()  # it ends, and gives its slots back


@contextmanager
def nosync(server: Slapd) -> Iterator[None]:
    change = "dn: olcDatabase={3}mdb,cn=config\nchangetype: modify\nreplace: olcDbNoSync\n"
    server.configure(f"{change}olcDbNoSync: TRUE\n")
    try:
        yield
    finally:
        server.configure(f"{change}olcDbNoSync: FALSE\n")


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        pytest.param(data(None), CRITICAL, "there is no .*data.mdb", id="data.mdb gone"),
        pytest.param(data(lambda _: b""), CRITICAL, r"data.mdb: .*\(empty\)", id="emptied"),
        pytest.param(data(cut), CRITICAL, "data.mdb: it was cut", id="cut"),
        pytest.param(data(without_root), CRITICAL, "data.mdb: ", id="overwritten"),
        pytest.param(
            data(lambda old: os.urandom(len(old))), CRITICAL, "magic number", id="no LMDB"
        ),
        pytest.param(
            lock(lambda old: os.urandom(len(old))),
            UNKNOWN,
            "lock format",
            id="lock of another LMDB",
        ),
        pytest.param(setting(None), CRITICAL, "tools cannot read", id="slapd.d without cn=config"),
        pytest.param(
            setting(lambda _: b"no LDIF"), CRITICAL, "tools cannot read", id="slapd.d that is none"
        ),
        pytest.param(
            roots_of("data/data.mdb", 0o600),
            CRITICAL,
            "openldap cannot read .*data.mdb",
            id="data.mdb of root",
        ),
        pytest.param(
            roots_of("data/data.mdb", 0o644),
            CRITICAL,
            "openldap cannot write .*data.mdb",
            id="data.mdb of root, readable",
        ),
        pytest.param(
            roots_of("data/lock.mdb", 0o600),
            CRITICAL,
            "openldap cannot read .*lock.mdb",
            id="lock.mdb of root",
        ),
        pytest.param(
            roots_of("data accounts", 0o700),
            CRITICAL,
            "openldap cannot read .*/data ",
            id="directories",
        ),
        pytest.param(roots_of("data", 0o700), CRITICAL, "Permission denied", id="directory"),
        pytest.param(
            roots_of("slapd.d/cn=config/cn=schema.ldif", 0o600),
            CRITICAL,
            "openldap cannot read .*cn=schema.ldif",
            id="slapd.d",
        ),
        pytest.param(
            roots_of("slapd.d/cn=config/cn=schema.ldif", 0o644),
            WARNING,
            "openldap cannot write .*cn=schema.ldif",
            id="slapd.d, readable",
        ),
        pytest.param(down, CRITICAL, "slapd is not running", id="down"),
        pytest.param(hanging, CRITICAL, "does not answer", id="hanging"),
        pytest.param(readers_full, CRITICAL, r"(\d+) of \1 reader slots", id="readers full"),
        pytest.param(nosync, CRITICAL, "nosync, no checkpoint", id="nosync left on"),
    ],
)
def test_a_fault_is_never_ok(host: Slapd, fault: Fault, status: int, words: str) -> None:
    quick = {"LDAPTIMEOUT": "1", "LDAPNETWORK_TIMEOUT": "1"} if fault is hanging else {}
    with fault(host):
        done = checked(host, **quick)
    assert done.status == status, done
    assert re.search(words, done.out), done


@pytest.mark.parametrize("tool", ["find", "slapd"])
def test_a_tool_that_a_signal_ends_leaves_something_unknown(host: Slapd, tool: str) -> None:
    folder = host.home / tool  # which openldap reaches
    folder.mkdir()
    (folder / tool).write_text("#!/bin/sh\nkill -9 $$\n")
    (folder / tool).chmod(0o755)
    done = checked(host, PATH=f"{folder}:{os.environ['PATH']}")
    assert (done.status, "not looked at: " in done.out) == (UNKNOWN, True), done


def test_the_host_is_well_again(host: Slapd) -> None:
    assert checked(host).out.startswith("DOCTOR OK - ")


def test_a_command_that_is_printed_gives_the_file_back(host: Slapd) -> None:
    with roots_of("data/data.mdb", 0o600)(host):
        where = ("--config", host.config_path, "--json")
        found = ditseed("doctor", *where).facts["findings"]
        (one,) = (each for each in found if each["rule"] == "access")
        assert one["mend"] == [f"chown -h openldap: -- {host.database_dir / 'data.mdb'}"]
        subprocess.run(one["mend"][0], shell=True, check=True)
        assert checked(host).status == 0


def test_slapd_that_was_stopped_is_a_warning_without_check_and_one_that_died_is_not(
    host: Slapd,
) -> None:
    with down(host):
        told = ditseed("doctor", "--config", host.config_path, "--json")
        (one,) = (each for each in told.facts["findings"] if each["rule"] == "slapd")
        assert (told.status, one["severity"]) == (1, "warning")
        (host.home / "slapd.pid").write_text("4194304\n")  # more than the kernel's greatest
        told = ditseed("doctor", "--config", host.config_path, "--json")
        (one,) = (each for each in told.facts["findings"] if each["rule"] == "slapd")
        assert one["severity"] == "critical"
        assert "it did not stop, it died" in one["what"]
        (host.home / "slapd.pid").unlink()


def test_tls_files(tmp_path: Path) -> None:
    """slapd is not started: it would not."""
    good, other = (Authority(tmp_path / name).valid() for name in ("one", "other"))
    server = Slapd(Settings(tls=good), user="openldap")
    try:
        assert "is not that of" not in checked(server).out
        shutil.copy(good.key, tmp_path / "kept")
        shutil.copy(other.key, good.key)
        done = checked(server)
        assert (done.status, "is not that of the certificate" in done.out) == (CRITICAL, True), done
        good.key.unlink()
        assert f"there is no {good.key}" in checked(server).out
        shutil.copy(tmp_path / "kept", good.key)
        good.certificate.write_text("no certificate\n")
        assert "has no certificate in PEM form" in checked(server).out
    finally:
        server.close()


def test_no_database_at_all(tmp_path: Path) -> None:
    config = tmp_path / "slapd.conf"
    config.write_text("include /etc/ldap/schema/core.schema\n")
    done = ditseed("doctor", "--check", "--config", config)
    assert done.status != 0, done
    assert "has no mdb database" in done.out


def test_a_consumer_and_its_provider(provider: Slapd) -> None:
    """The password of olcSyncrepl is wrong; the provider was restored from an older backup; the provider is gone."""
    server = replication.consumer(provider)
    try:
        server.slapadd(provider.slapcat(), "-w")

        def rules() -> dict[str, str]:
            done = ditseed("doctor", "--config", server.config_path, "--json")
            return {one["rule"]: one["severity"] for one in done.facts["findings"]}

        assert rules()["replication"] == "ok"
        (stored,) = context_csn.stored(server.database_dir, SUFFIX)
        context_csn.stamp(server.database_dir, SUFFIX, (f"2099{stored[4:]}",))
        assert rules()["replication.ahead"] == "critical"
        server.start()
        where = ("-H", provider.uri, "-D", "cn=replicator", "-b", SUFFIX)
        where += (
            "-y",
            str(provider.replicator_password_file),
            "--consumer",
            server.uri,
            "--consumer-bind-dn",
            "cn=replicator",
        )
        where += ("--consumer-password-file", str(server.replicator_password_file))
        told = ditseed("replica", "verify", *where, "--config", server.config_path)
        assert "the replica has newer changes of server ID 001 than the provider" in told.out
        server.stop()
        context_csn.stamp(server.database_dir, SUFFIX, (stored,))
        change = "dn: olcDatabase={2}ldif,cn=config\nchangetype: modify\nreplace: olcRootPW\nolcRootPW: x\n"
        provider.configure(change)
        done = checked(server)
        assert "the provider refuses the account of olcSyncrepl" in done.out
        assert done.status == CRITICAL
        secret = provider.replicator_password_file.read_text()
        assert secret not in done.out + done.err
        provider.stop()
        done = checked(server)
        assert f"the provider {provider.uri} cannot be reached" in done.out
    finally:
        server.close()
