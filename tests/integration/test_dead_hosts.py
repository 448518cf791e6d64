"""What can end or starve the slapd of a host, its watch and its backups, and what `ditseed doctor --check`,
`ditseed storage watch --check` and `ditseed backup check` make of it: never OK."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import ldap
import pytest

from fixtures import replication
from fixtures.limits import loop_device, loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.waiting import until
from loader.mdb import contents, edits
from loader.operations.backup import manifest, repository
from tests.support.adding import SUFFIX, TOP, people, write
from tests.support.command import Done, ditseed, start
from tests.support.nobody import NOBODY
from tests.support.require import require

pytestmark = [pytest.mark.slapd, pytest.mark.skipif(os.geteuid() != 0, reason="chown")]

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
    settings = Settings(maxsize=64 << 20, loglevel="none", overlays=("overlay syncprov",))
    with Slapd(settings, user="openldap") as server:
        path = write(tmp_path_factory.mktemp("host") / "x.ldif", TOP, people(200))
        server.ldapadd(path)
        yield server


def checked(server: Slapd, *more: object, **environment: str) -> Done:
    state = {"DITSEED_STATE_DIR": str(server.home / "state"), **environment}
    return ditseed("doctor", "--check", "--config", server.config_path, *more, env=state)


def assert_told(done: Done, monitor: str, status: int, words: str) -> None:
    """It prints the first line, so that `pytest -rA` shows a table of all."""
    print(done.out.partition(" | ")[0].partition("\n")[0])
    assert done.status == status, done
    assert done.out.startswith(f"{monitor} {NAMES[status]} - "), done
    assert re.search(words, done.out), done
    assert not re.search(r"\bOK\b", done.out), done


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
def directory_gone(server: Slapd) -> Iterator[None]:
    aside = server.database_dir.with_name("aside")
    server.database_dir.rename(aside)
    try:
        yield
    finally:
        aside.rename(server.database_dir)


@contextmanager
def not_mounted(server: Slapd) -> Iterator[None]:
    """slapd has the files open; whoever takes the path comes into an empty directory."""
    subprocess.run(["mount", "-t", "tmpfs", "none", str(server.database_dir)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(server.database_dir)], check=True)


def configured(setting: str, wrong: str, right: str) -> Fault:
    """A setting of the database; without a value it is removed."""

    def put(server: Slapd, value: str) -> None:
        change = f"dn: olcDatabase={{3}}mdb,cn=config\nchangetype: modify\nreplace: {setting}\n"
        server.configure(change + "".join(f"{setting}: {one}\n" for one in value.split("; ") if one))

    @contextmanager
    def fault(server: Slapd) -> Iterator[None]:
        put(server, wrong)
        try:
            yield
        finally:
            put(server, right)

    return fault


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        pytest.param(data(None), CRITICAL, "there is no .*data.mdb", id="data.mdb gone"),
        pytest.param(data(lambda _: b""), CRITICAL, r"data.mdb: .*\(empty\)", id="emptied"),
        pytest.param(data(cut), CRITICAL, "data.mdb: it was cut", id="cut"),
        pytest.param(data(without_root), CRITICAL, "data.mdb: ", id="overwritten"),
        pytest.param(data(lambda old: os.urandom(len(old))), CRITICAL, "no 64-bit LMDB database", id="no LMDB"),
        pytest.param(lock(lambda old: os.urandom(len(old))), UNKNOWN, "lock format", id="lock of another LMDB"),
        pytest.param(setting(None), CRITICAL, "tools cannot read", id="slapd.d without cn=config"),
        pytest.param(setting(lambda _: b"no LDIF"), CRITICAL, "tools cannot read", id="slapd.d that is none"),
        pytest.param(
            roots_of("data/data.mdb", 0o600), CRITICAL, "openldap cannot read .*data.mdb", id="data.mdb of root"
        ),
        pytest.param(
            roots_of("data/data.mdb", 0o644),
            CRITICAL,
            "openldap cannot write .*data.mdb",
            id="data.mdb of root, readable",
        ),
        pytest.param(
            roots_of("data/lock.mdb", 0o600), CRITICAL, "openldap cannot read .*lock.mdb", id="lock.mdb of root"
        ),
        pytest.param(roots_of("data accounts", 0o700), CRITICAL, "Permission denied", id="directories"),
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
        pytest.param(
            configured("olcDbNoSync", "TRUE", "FALSE"), CRITICAL, "nosync, no checkpoint", id="nosync left on"
        ),
        pytest.param(directory_gone, CRITICAL, "olcDbDirectory: .* No such file", id="directory gone"),
        pytest.param(not_mounted, CRITICAL, "there is no .*data.mdb", id="volume not mounted"),
        pytest.param(
            configured("olcDbMaxSize", "", str(64 << 20)), WARNING, "maxsize was never set", id="maxsize unset"
        ),
        pytest.param(
            configured("olcDbIndex", "objectClass eq", "; ".join(Settings.indexes)),
            WARNING,
            "no index entryCSN eq",
            id="index missing",
        ),
    ],
)
def test_a_fault_is_never_ok(host: Slapd, fault: Fault, status: int, words: str) -> None:
    quick = {"LDAPTIMEOUT": "1", "LDAPNETWORK_TIMEOUT": "1"} if fault is hanging else {}
    with fault(host):
        done = checked(host, **quick)
    assert_told(done, "DOCTOR", status, words)


@contextmanager
def map_full(_: Path) -> Iterator[Slapd]:
    """slapd has refused a write."""
    with Slapd(Settings(maxsize=1 << 20, loglevel="none")) as server:
        server.ldapadd(TOP)
        _fill(server)
        yield server


def _fill(server: Slapd) -> None:
    """Until slapd refuses a write: MDB_MAP_FULL, or ENOSPC."""
    with server.connection() as handle, suppress(ldap.OTHER):
        for number in range(10_000):
            facts = {"objectClass": "person", "sn": "x", "description": os.urandom(4000).hex()}
            entry = [(name, [value.encode()]) for name, value in facts.items()]
            handle.add_s(f"cn={number},{SUFFIX}", entry)
        pytest.fail("it takes every write")


@contextmanager
def disk_full(_: Path) -> Iterator[Slapd]:
    """It has a tenth of maxsize; slapd has refused a write."""
    require(missing_loop_filesystem())
    settings = Settings(maxsize=64 << 20, loglevel="none")
    with loop_filesystem(6) as disk, Slapd(settings, directory=disk / "home") as server:
        server.ldapadd(TOP)
        _fill(server)
        yield server


@contextmanager
def disk_fails(_: Path) -> Iterator[Slapd]:
    """Each read from the disk gives EIO; slapd answers from the page cache."""
    require(missing_loop_filesystem("xfs"))
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
def certificate_ended(scratch: Path) -> Iterator[Slapd]:
    with Slapd(Settings(tls=Authority(scratch / "ca").expired(), loglevel="none")) as server:
        server.ldapadd(TOP)
        yield server


@contextmanager
def without_server_id(_: Path) -> Iterator[Slapd]:
    """One of two providers that both write."""
    with Slapd(Settings(loglevel="none", overlays=("overlay syncprov",))) as other:
        other.ldapadd(TOP)
        line = replication.syncrepl(other, other.uri)
        lines = (line, "multiprovider on")
        settings = replication.as_consumer(other.settings, database_lines=lines)
        with Slapd(settings) as server:
            replication.wait_in_sync(other, server)
            yield server


@pytest.mark.parametrize(
    ("made", "status", "words"),
    [
        pytest.param(map_full, CRITICAL, r"of maxsize 1\.0 MiB are available \([0-9] %\)", id="map full"),
        pytest.param(disk_full, CRITICAL, "the disk has room for .* only", id="disk full"),
        pytest.param(disk_fails, CRITICAL, "from the disk failed: Input/output error", id="disk EIO"),
        pytest.param(certificate_ended, CRITICAL, "has expired .* ago", id="certificate ended"),
        pytest.param(without_server_id, CRITICAL, "olcServerID is not set", id="server ID missing"),
    ],
)
def test_a_host_of_its_own_is_never_ok(
    tmp_path: Path, made: Callable[[Path], AbstractContextManager[Slapd]], status: int, words: str
) -> None:
    with made(tmp_path) as server:
        assert_told(checked(server), "DOCTOR", status, words)


@pytest.mark.parametrize("tool", ["find", "slapd"])
def test_a_tool_that_a_signal_ends_leaves_something_unknown(host: Slapd, tool: str) -> None:
    folder = host.home / tool  # which openldap reaches
    folder.mkdir()
    (folder / tool).write_text("#!/bin/sh\nkill -9 $$\n")
    (folder / tool).chmod(0o755)
    done = checked(host, PATH=f"{folder}:{os.environ['PATH']}")
    assert_told(done, "DOCTOR", UNKNOWN, "not looked at: ")


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


def test_slapd_that_was_stopped_is_a_warning_without_check_and_one_that_died_is_not(host: Slapd) -> None:
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
        assert_told(checked(server), "DOCTOR", CRITICAL, "is not that of the certificate")
        good.key.unlink()
        assert_told(checked(server), "DOCTOR", CRITICAL, f"there is no {good.key}")
        shutil.copy(tmp_path / "kept", good.key)
        good.certificate.write_text("no certificate\n")
        assert_told(checked(server), "DOCTOR", CRITICAL, "has no certificate in PEM form")
    finally:
        server.close()


def test_no_database_at_all(tmp_path: Path) -> None:
    config = tmp_path / "slapd.conf"
    config.write_text("include /etc/ldap/schema/core.schema\n")
    done = ditseed("doctor", "--check", "--config", config)
    assert_told(done, "DOCTOR", CRITICAL, "has no mdb database")


def test_a_consumer_and_its_provider(provider: Slapd) -> None:
    """The password of olcSyncrepl is wrong; the provider was restored from an older backup; the provider is gone."""
    server = replication.consumer(provider)
    try:
        server.slapadd(provider.slapcat(), "-w")

        def rules() -> dict[str, str]:
            done = ditseed("doctor", "--config", server.config_path, "--json")
            return {one["rule"]: one["severity"] for one in done.facts["findings"]}

        assert rules()["replication"] == "ok"
        (stored,) = contents.context_csns(server.database_dir, SUFFIX)
        edits.stamp(server.database_dir, SUFFIX, (f"2099{stored[4:]}",))
        assert rules()["replication.ahead"] == "critical"
        assert_told(checked(server), "DOCTOR", CRITICAL, "has newer changes of server ID 001")
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
    finally:
        server.close()


# --- storage watch --check --------------------------------------------------------------------------


@contextmanager
def watching(scratch: Path) -> Iterator[tuple[subprocess.Popen[Any], Path, Path]]:
    """A watch of a device, its process, the file behind the device, and its state."""
    require(missing_loop_filesystem())
    image, state = scratch / "image", scratch / "state"
    with loop_device(image, 8) as device:
        layer = ("--layer", f"disk={device}", "--interval", "0.1")
        process = start("storage", "watch", *layer, "--state", state, "--json")
        assert process.stdout is not None
        try:
            next(line for line in process.stdout if json.loads(line)["layers"][0]["reads"] > 1)
            yield process, image, state
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state of one that runs, and is well."""
    with watching(tmp_path_factory.mktemp("watch")) as (_, _, state):
        yield state


def judged(state: Path, *more: object, prefix: tuple[str, ...] = ()) -> Done:
    return ditseed("storage", "watch", "--check", "--state", state, *more, prefix=prefix)


def test_a_watch_that_is_well(watch: Path) -> None:
    """On a loaded host a round may be late."""
    until(lambda: judged(watch).out.startswith("STORAGE WATCH OK - "))


State = dict[str, Any]


def of_layer(**facts: object) -> Callable[[State], State]:
    return lambda old: {**old, "layers": [{**one, **facts} for one in old["layers"]]}


def ago(name: str, seconds: float) -> Callable[[State], State]:
    return lambda old: {**old, name: old[name] - seconds}


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        pytest.param(lambda _: None, UNKNOWN, "No such file", id="state gone"),
        pytest.param(lambda _: b"", UNKNOWN, "state: ", id="state emptied"),
        pytest.param(lambda old: json.dumps(old).encode()[:-9], UNKNOWN, "state: ", id="state cut"),
        pytest.param(lambda old: {**old, "format": 2}, UNKNOWN, "format 2", id="state of another format"),
        pytest.param(ago("written", 60), UNKNOWN, "is the watch running", id="state old"),
        pytest.param(ago("written", -3600), UNKNOWN, "later than now", id="clock gone back"),
        pytest.param(lambda old: {**old, "layers": []}, UNKNOWN, "no layer is timed", id="no layer"),
        pytest.param(
            of_layer(figures=None, measured=None, problem="cached"),
            UNKNOWN,
            "not measured: cached",
            id="layer not measured",
        ),
        pytest.param(of_layer(in_flight_since=1.0), CRITICAL, "in flight for", id="device hangs"),
        pytest.param(of_layer(errors=1, error="EIO"), CRITICAL, "1 read failed: EIO", id="EIO before"),
    ],
)
def test_a_state_is_never_ok(
    watch: Path, tmp_path: Path, change: Callable[[State], State | bytes | None], status: int, words: str
) -> None:
    """What the watch wrote, otherwise only in one thing."""
    path = tmp_path / "state"
    now = {**json.loads(watch.read_text()), "written": time.time(), "interval": 10.0}
    content = change(now)
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert_told(judged(path), "STORAGE WATCH", status, words)


def test_a_state_that_cannot_be_read_is_never_ok(watch: Path) -> None:
    """Directories of pytest are closed to others."""
    assert_told(judged(watch, prefix=NOBODY), "STORAGE WATCH", UNKNOWN, "(P|no p)ermission")


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        pytest.param("killed", UNKNOWN, "has ended", id="watch killed"),
        pytest.param("stopped", UNKNOWN, "is the watch running", id="watch stopped"),
        pytest.param("fails", CRITICAL, "the last read failed: Input/output error", id="disk EIO"),
        pytest.param("-w", WARNING, r"disk: davg .*limit 0\.00 ms", id="slower than the limit"),
        pytest.param("-c", CRITICAL, r"disk: davg .*limit 0\.00 ms", id="much slower"),
    ],
)
def test_a_watch_is_never_ok(tmp_path: Path, what: str, status: int, words: str) -> None:
    more = (what, "0.0001") if what.startswith("-") else ()
    with watching(tmp_path) as (process, image, state):
        if what == "killed":
            process.kill()
            process.wait()
        elif what == "stopped":
            process.send_signal(signal.SIGSTOP)
        elif what == "fails":
            os.truncate(image, 0)
        # A state may be old, and a read in flight, for a moment on a loaded host.
        done = until(lambda: found if re.search(words, (found := judged(state, *more)).out) else None)
    assert_told(done, "STORAGE WATCH", status, words)


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


def aged(repo: Path, **facts: object) -> None:
    """The backup, with another manifest, which is sealed."""
    (one,) = repository.listing(repo).backups
    told = manifest.sealed(dataclasses.replace(one, **facts))
    (repo / one.id / "manifest.json").write_bytes(manifest.text(told))


def moment(hours: float) -> str:
    return (repository.now() + datetime.timedelta(hours=hours)).isoformat()


def removed(names: str) -> Callable[[Path], None]:
    def fault(repo: Path) -> None:
        (first, *_) = sorted(repo.glob(names))
        shutil.rmtree(first) if first.is_dir() else first.unlink()

    return fault


def shortened(names: str) -> Callable[[Path], None]:
    def fault(repo: Path) -> None:
        (first, *_) = sorted(repo.glob(names))
        os.truncate(first, first.stat().st_size - 1)

    return fault


def emptied(repo: Path) -> None:
    for path in repo.glob("2*"):
        shutil.rmtree(path)


def found_damaged(repo: Path) -> None:
    (data,) = repo.glob("*/pages.pack")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert ditseed("backup", "verify", "-R", repo).status == 1


def verified_long_ago(repo: Path) -> None:
    ditseed("backup", "verify", "-R", repo).ok()
    (record,) = repo.glob("*/verified.json")
    (one,) = repository.listing(repo).backups
    known = repository.proofs(repo, one).verification
    assert known is not None
    record.write_bytes(manifest.text(manifest.sealed(dataclasses.replace(known, made=moment(-999)))))


def shrunk(repo: Path) -> None:
    """Its two backups before had more entries."""
    (one,) = repository.listing(repo).backups
    when = repository.now() - datetime.timedelta(hours=5)
    name = repository.new_id(repo, when, one.suffix)
    shutil.copytree(repo / one.id, repo / name)
    more = dataclasses.replace(one, id=name, made=when.isoformat(), entries=10 * one.entries)
    (repo / name / "manifest.json").write_bytes(manifest.text(manifest.sealed(more)))


def nothing(_: Path) -> None:
    pass


@contextmanager
def dead_disk(template: Path) -> Iterator[Path]:
    """The repository is on it; nothing of it is in memory."""
    require(missing_loop_filesystem())
    with loop_filesystem(16) as disk:
        image = disk.parent / "image"
        shutil.copytree(template, disk / "repo")
        subprocess.run(["umount", str(disk)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
        os.truncate(image, 0)
        yield disk / "repo"


@pytest.mark.parametrize("name", ["one", "set", "shared"])
def test_backups_that_are_well(kept: Path, host: Slapd, name: str) -> None:
    done = ditseed("backup", "check", "-R", kept / name)
    assert (done.status, done.out.startswith("BACKUP OK - ")) == (0, True), done
    assert checked(host, "-R", kept / name).status == 0


Damage = Callable[[Path], object]


@pytest.mark.parametrize(
    ("name", "fault", "status", "words"),
    [
        pytest.param("one", shutil.rmtree, UNKNOWN, "no such file or directory", id="repository gone"),
        pytest.param("one", emptied, CRITICAL, "no backup", id="repository emptied"),
        pytest.param("one", lambda repo: aged(repo, made=moment(-50)), CRITICAL, "is 2.* old", id="too old"),
        pytest.param("one", lambda repo: aged(repo, made=moment(9)), CRITICAL, "later than now", id="clock gone back"),
        pytest.param("one", removed("2*/manifest.json"), CRITICAL, "the latest cannot be used", id="manifest gone"),
        pytest.param("one", shortened("2*/manifest.json"), CRITICAL, "the latest cannot be used", id="manifest cut"),
        pytest.param("one", removed("2*/config.ldif"), CRITICAL, "config.ldif", id="config.ldif gone"),
        pytest.param("one", removed("2*/pages.map"), CRITICAL, "pages.map", id="pages.map gone"),
        pytest.param("one", removed("2*/pages.pack"), CRITICAL, "pages.pack", id="data gone"),
        pytest.param("one", shortened("2*/pages.pack"), CRITICAL, "pages.pack", id="data cut"),
        pytest.param("one", found_damaged, CRITICAL, "was found damaged", id="found damaged"),
        pytest.param("one", shrunk, WARNING, "has fewer entries", id="directory emptied before"),
        pytest.param("shared", removed("pages/*"), CRITICAL, "cannot be restored", id="pack gone"),
        pytest.param("shared", shortened("pages/*"), CRITICAL, "cannot be restored", id="pack cut"),
        pytest.param("set", removed("2*-dc-other-dc-org"), CRITICAL, "cannot be restored", id="set torn"),
    ],
)
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
    ("fault", "more", "status", "words"),
    [
        pytest.param(
            nothing, "-b dc=example,dc=net", CRITICAL, "no backup of dc=example,dc=net", id="none of a suffix"
        ),
        pytest.param(nothing, "--min-count 2", WARNING, "1 of at least 2", id="too few"),
        pytest.param(nothing, "--max-verify-age 8d", WARNING, "no backup was ever verified", id="never verified"),
        pytest.param(nothing, "--max-drill-age 8d", WARNING, "no backup was ever drilled", id="never drilled"),
        pytest.param(
            verified_long_ago, "--max-verify-age 8d", WARNING, "no backup was for .* verified", id="verified long ago"
        ),
    ],
)
def test_a_backup_beyond_a_limit_is_never_ok(
    kept: Path, tmp_path: Path, fault: Damage, more: str, status: int, words: str
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(kept / "one", repo)
    fault(repo)
    assert_told(ditseed("backup", "check", "-R", repo, *more.split()), "BACKUP", status, words)


def test_a_repository_on_a_dead_disk_is_never_ok(kept: Path, host: Slapd) -> None:
    with dead_disk(kept / "one") as repo:
        done, doctor = ditseed("backup", "check", "-R", repo), checked(host, "-R", repo)
    assert_told(done, "BACKUP", UNKNOWN, "Input/output error")
    assert_told(doctor, "DOCTOR", UNKNOWN, "Input/output error")


def test_a_repository_that_cannot_be_read_is_never_ok(kept: Path) -> None:
    done = ditseed("backup", "check", "-R", kept / "one", prefix=NOBODY)
    assert_told(done, "BACKUP", UNKNOWN, "(P|no p)ermission")
