"""Backups on a real S3 server and over a real sshd: there and back, cut off, locked, damaged, refused."""

from __future__ import annotations

import dataclasses
import datetime
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import paramiko
import pytest

from fixtures import s3, sshd
from fixtures.network import Proxy
from fixtures.s3 import S3Server
from fixtures.slapd import Slapd
from fixtures.sshd import SshServer
from fixtures.waiting import until
from loader import errors
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup import remote as remote_lock
from loader.operations.backup import run as taking
from loader.operations.backup.options import BackupOptions
from loader.operations.monitoring import Status
from loader.storage import remote
from tests.support.backups import QUIET, fill
from tests.support.command import Done, ditseed
from tests.support.disks import loop_filesystem
from tests.support.require import require
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3.running() as made:
        yield made


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    require(sshd.missing_sshd())
    with sshd.running(tmp_path_factory.mktemp("ssh")) as made:
        yield made


@dataclass(frozen=True)
class Remote:
    """A repository of a test's own. `names`: of all files there."""

    url: str
    environment: dict[str, str]
    names: Callable[[], list[str]]
    proxy: Proxy

    @property
    def prefix(self) -> str:
        return self.url.partition(f"{s3.BUCKET}/")[2]

    def backup(self, verb: str, *words: object, **environment: str) -> Done:
        return ditseed("backup", verb, "-R", self.url, *words, env={**self.environment, **environment})

    def run(self, source: Slapd, *words: object, **environment: str) -> Done:
        return self.backup("run", "--init", "--config", source.config_path, *words, **environment)

    def take(self, source: Slapd, *words: object) -> str:
        """Makes a backup. Returns its ID."""
        return str(self.run(source, "--json", *words).ok().facts["id"])

    def listed(self) -> list[str]:
        return [one["id"] for one in self.backup("list", "--json").ok().facts["backups"]]

    def restore(self, target: Slapd, *words: object) -> Done:
        return self.backup("restore", *(words or ("latest",)), "--config", target.config_path)


def in_bucket(server: S3Server, prefix: str) -> Remote:
    def names() -> list[str]:
        return [key.removeprefix(f"{prefix}/") for key in server.keys(f"{prefix}/")]

    return Remote(f"s3://{s3.BUCKET}/{prefix}", server.environment, names, server.proxy)


def in_directory(ssh: SshServer, place: Path) -> Remote:
    def names() -> list[str]:
        return [str(one.relative_to(place)) for one in place.rglob("*") if one.is_file()]

    return Remote(ssh.url(place), ssh.environment, names, ssh.proxy)


@contextmanager
def own_directory(scratch: Path, options: str) -> Iterator[Remote]:
    """Yields a repository on an sshd of its own. `options`: of sftp-server(8)."""
    require(sshd.missing_sshd())
    (scratch / "ssh").mkdir()
    with sshd.running(scratch / "ssh", options) as made:
        yield in_directory(made, scratch / "far/repo")


def name_of(request: pytest.FixtureRequest) -> str:
    return "".join(one for one in request.node.name if one.isalnum())


@pytest.fixture
def bucket(server: S3Server, request: pytest.FixtureRequest) -> Iterator[Remote]:
    yield in_bucket(server, name_of(request))
    server.proxy.accept()


@pytest.fixture
def directory(ssh: SshServer, tmp_path: Path) -> Iterator[Remote]:
    yield in_directory(ssh, tmp_path / "far/repo")
    ssh.proxy.accept()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Remote:
    return request.getfixturevalue(request.param)


both = pytest.mark.parametrize("place", ["bucket", "directory"], indirect=True)


def assert_only(place: Remote, *backups: str) -> None:
    """These are there, and nothing else of any."""
    assert place.listed() == sorted(backups)
    assert {name.partition("/")[0] for name in place.names()} <= {*backups, "pages", repository.MARKER}


@pytest.mark.long
@both
def test_each_verb(people_ldif: Path, other: Slapd, tmp_path: Path, place: Remote) -> None:
    """Three moments, two of which share pages. What comes back is what comes back from a repository of this host."""
    unit, near = "dn: ou=n{},dc=example,dc=com\nobjectClass: organizationalUnit\n", ("-R", tmp_path / "near")
    with closing(Slapd(other.settings)) as source:
        source.slapadd(people_ldif, "-w")
        place.run(source).ok()
        for number in range(2):
            place.run(source, "--incremental").ok()
            source.slapadd(unit.format(number))
        place.run(source, "--incremental").ok()
        ids = place.listed()
        assert len(ids) == 4
        place.backup("verify").ok()
        place.backup("drill", "latest").ok()
        assert place.backup("check").status == 0
        known = place.backup("show", "latest", "--json").ok().facts
        assert known["verification"]["problem"] == known["drill"]["problem"] == ""
        assert "dn: dc=example,dc=com" in place.backup("extract", "latest", "--dn", "dc=example,dc=com").ok().out
        place.backup("restore", "latest", "--config", other.config_path, "--dry-run").ok()
        place.restore(other).ok()
        assert_same(source, other)
        ditseed("backup", "run", "--init", "--config", source.config_path, *near).ok()
    ditseed("backup", "restore", "latest", *near, "--target", tmp_path / "look").ok()
    assert (other.database_dir / "data.mdb").read_bytes() == (tmp_path / "look/data.mdb").read_bytes()
    packs = [name for name in place.names() if name.startswith("pages/")]
    place.backup("prune", "--keep-last", "2").ok()
    assert_only(place, *ids[2:])
    assert set(packs) >= {name for name in place.names() if name.startswith("pages/")}
    place.backup("verify").ok()


def test_either_can_be_copied_to_the_other(stopped: Slapd, server: S3Server, bucket: Remote, tmp_path: Path) -> None:
    near = tmp_path / "repo"
    ditseed("backup", "run", "--init", "--config", stopped.config_path, "-R", near, "--incremental").ok()
    for path in near.rglob("*"):
        if path.is_file():
            server.put(f"{bucket.prefix}/{path.relative_to(near)}", path.read_bytes())
    bucket.backup("verify").ok()


@pytest.mark.long
@both
def test_the_server_stops(stopped: Slapd, other: Slapd, place: Remote) -> None:
    """In the middle of a run, then of a restore."""
    good = place.take(stopped)
    place.proxy.refuse_after(50_000)
    _assert_told(place, place.run(stopped, "-v", "-v"))
    place.proxy.accept()
    assert place.listed() == [good]
    assert len({name.partition("/")[0] for name in place.names()}) > 1  # what the next run removes
    place.proxy.refuse_after(120_000)
    _assert_told(place, place.restore(other, "latest", "-v", "-v"))
    assert not list(other.database_dir.iterdir())
    place.proxy.accept()
    place.restore(other).ok()
    assert_same(stopped, other)
    assert_only(place, good, place.take(stopped))


def _assert_told(place: Remote, done: Done) -> None:
    assert done.status == errors.RemoteFailed.exit_status, done.err
    assert "hint: Check that the server runs" in done.err
    assert place.environment.get("AWS_SECRET_ACCESS_KEY", "none is given") not in done.out + done.err


@pytest.mark.rows(0, "remove.middle-directory")
@both
@pytest.mark.parametrize("point", ["send.middle", "remove.middle", "publish.recorded"])
def test_run_killed(stopped: Slapd, place: Remote, point: str) -> None:
    """It leaves its lock too."""
    command = (stopped, "--keep-last", 1)
    place.run(*command).ok()
    assert place.run(*command, DITSEED_KILL_AT=point).status == -signal.SIGKILL
    assert len(place.listed()) == 1
    place.backup("verify").ok()
    place.run(*command).ok()
    last = place.listed()
    assert len(last) in (1, 2)  # the one that was verified stays
    assert_only(place, *last)


def test_one_at_a_time(stopped: Slapd, server: S3Server, bucket: Remote) -> None:
    """The lock of a process that may be at work stands; that of one that is gone from this host does not."""
    key = f"{bucket.prefix}/{remote_lock.LOCK}"
    mine = remote_lock.myself()
    elsewhere = msgspec.structs.replace(mine, host="elsewhere")
    for text in (b"garbage", msgspec.json.encode(mine), msgspec.json.encode(elsewhere)):
        server.put(key, text)
        done = bucket.run(stopped)
        done.refused(errors.RemoteLocked, f"remove {bucket.url}/{remote_lock.LOCK}")
    assert f"elsewhere (process {os.getpid()})" in done.err
    bucket.backup("prune", "--keep-last", 1).refused(errors.RemoteLocked)
    gone = msgspec.structs.replace(mine, started=mine.started + 1)
    ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=16)
    lapsed = msgspec.structs.replace(elsewhere, renewed=ago)
    for text in (msgspec.json.encode(gone), msgspec.json.encode(lapsed), b""):
        server.put(key, text)
        bucket.run(stopped).ok()
        assert remote_lock.LOCK not in bucket.names()


def test_a_lock_is_renewed(server: S3Server, bucket: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another has taken it meanwhile, that one keeps it."""
    _use(monkeypatch, bucket.environment)
    key = f"{bucket.prefix}/{remote_lock.LOCK}"
    with remote.opened(remote.parse(bucket.url)) as store, remote_lock.exclusive(store, renewal=0.05) as lock:
        first = server.get(key)
        until(lambda: server.get(key) != first)
        lock.require()
    with remote.opened(remote.parse(bucket.url)) as store, remote_lock.exclusive(store) as lock:
        other = msgspec.json.encode(msgspec.structs.replace(lock.own, host="elsewhere"))
        server.put(key, other)
        with pytest.raises(errors.RemoteFailed, match="another process"):
            lock.require()
        lock.renew(store)
    assert server.get(key) == other


@both
def test_a_run_that_has_lost_its_lock_publishes_nothing(
    stopped: Slapd, monkeypatch: pytest.MonkeyPatch, place: Remote
) -> None:
    _use(monkeypatch, place.environment)
    where = remote.parse(place.url)
    repository.init(where)
    with remote.opened(where) as far, repository.at(where, changes=True) as mine:
        far.write(remote_lock.LOCK, b"garbage")
        with pytest.raises(errors.RemoteFailed, match="another process"):
            taking.run(BackupOptions(mine, stopped.config_path), QUIET)
    assert place.listed() == []
    assert remote_lock.LOCK in place.names()


def _use(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """paramiko forgets to close the socket with which it looks for an agent under an empty name."""
    for name, value in environment.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kept_bucket(server: S3Server) -> Remote:
    return in_bucket(server, s3.KEPT)


@pytest.fixture
def kept_directory(tmp_path: Path) -> Iterator[Remote]:
    with own_directory(tmp_path, " -P remove,rmdir") as made:
        yield made


@pytest.mark.parametrize("place", ["kept_bucket", "kept_directory"], indirect=True)
def test_nothing_can_be_removed(stopped: Slapd, place: Remote) -> None:
    """What an interrupted run has left neither, but that is no obstacle."""
    killed = place.run(stopped, DITSEED_KILL_AT="send.middle")
    assert killed.status == -signal.SIGKILL
    made = [place.take(stopped) for _ in range(2)]
    assert place.listed() == made
    place.backup("verify").ok()
    for done in (place.backup("prune", "--keep-last", 1), place.run(stopped, "--keep-last", 1)):
        done.refused(errors.RemovalRefused, "account that may remove")
    assert place.listed()[:2] == made
    assert len(place.listed()) == 3


def test_a_full_server(stopped: Slapd, ssh: SshServer, tmp_path: Path) -> None:
    """Refused beforehand, with nothing left there; `prune` needs no room."""
    with loop_filesystem(8) as disk:
        place = in_directory(ssh, disk / "repo")
        made = [place.take(stopped) for _ in range(2)]
        fill(disk)
        there = sorted(disk.rglob("*"))
        place.run(stopped).refused(errors.RemoteFull)
        assert sorted(disk.rglob("*")) == there
        place.backup("prune", "--keep-last", 1).ok()
        assert place.listed() == made[1:]
        (disk / "filler").unlink()
        place.run(stopped).ok()


def test_a_server_that_fills_up(ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name there is that of half a file, in whatever way it is sent."""
    _use(monkeypatch, ssh.environment)
    (tmp_path / "large").write_bytes(os.urandom(1 << 20))
    with loop_filesystem(8) as disk:
        url = ssh.url(disk / "repo")
        with remote.opened(remote.parse(url)) as store:
            store.write("old", b"before")
            fill(disk)
            with pytest.raises(errors.RemoteFull):
                store.put(tmp_path / "large", "new")
            with pytest.raises(errors.RemoteFull):
                store.write("old", b"after")
            with pytest.raises(errors.RemoteFull):
                store.write("new", b"small", new=True)
        assert [one.name for one in (disk / "repo").iterdir()] == ["old"]
        assert (disk / "repo/old").read_bytes() == b"before"


@pytest.mark.long
def test_a_changed_object_is_found(stopped: Slapd, other: Slapd, server: S3Server, bucket: Remote) -> None:
    bucket.run(stopped).ok()
    (key,) = (key for key in server.keys(bucket.prefix) if key.endswith("pages.pack"))
    stored = bytearray(server.get(key))
    stored[len(stored) // 2] ^= 1
    for content in (stored, stored[:-1]):
        server.put(key, bytes(content))
        assert bucket.backup("verify").status == 1
        assert "bad" in bucket.backup("list").ok().out
        bucket.restore(other).refused(errors.BackupDamaged, bucket.url)
    assert not list(other.database_dir.glob("data.mdb"))


def test_names_that_are_none_of_ours(stopped: Slapd, server: S3Server, bucket: Remote) -> None:
    """They are neither fetched nor removed."""
    strange = ("20260101T000000Z-a..b/manifest.json", "pages/note", "20260101T000000Z-/x", "other/manifest.json")
    for name in strange:
        server.put(f"{bucket.prefix}/{name}", b"{}")
    assert [bucket.take(stopped, "--incremental")] == bucket.listed()
    assert set(bucket.names()) >= set(strange)


@pytest.mark.rows(2, "s3:///x", "sftp://host:port/x")
@pytest.mark.parametrize(
    "url",
    [
        *("s3://key:secret@bucket/x", "s3://bucket/x?secret=1", "s3://bucket/../x", "s3:///x"),
        *("sftp://user:secret@host/x", "sftp://host", "sftp://host:port/x"),
        *("ftp://host/x", "memory://x", "simplecache::s3://bucket/x"),
    ],
)
def test_a_location_that_is_refused(url: str) -> None:
    done = ditseed("backup", "list", "-R", url)
    done.refused(errors.UsageProblem)
    assert "secret" not in done.err


@pytest.mark.rows(0, "sftp-paramiko")
@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("sftp", "paramiko")])
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, scheme: str, package: str) -> None:
    monkeypatch.delitem(sys.modules, remote.SCHEMES[scheme], raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(errors.PackageMissing, match=package), repository.at(remote.parse(f"{scheme}://host/place")):
        pass


def test_an_endpoint_without_tls_is_told_of(bucket: Remote, stopped: Slapd) -> None:
    """Not one of this host; 0.0.0.0 is one to the kernel alone."""
    assert "not encrypted" not in bucket.run(stopped).ok().err
    url = bucket.environment["AWS_ENDPOINT_URL"].replace("127.0.0.1", "0.0.0.0")
    assert bucket.backup("list", AWS_ENDPOINT_URL=url).ok().err.count("not encrypted") == 1
    named = bucket.backup("list", AWS_ENDPOINT_URL=url.replace("//", "//user:secret@"))
    assert "not encrypted" in named.err
    assert "secret" not in named.err


def test_a_host_that_nobody_knows(stopped: Slapd, ssh: SshServer, directory: Remote, tmp_path: Path) -> None:
    known = ssh.known_hosts.read_text()
    another_key = known.split()[0] + " " + (ssh.home / ".ssh/id_ed25519.pub").read_text()
    try:
        for text in ("", another_key):
            ssh.known_hosts.write_text(text)
            directory.run(stopped).refused(errors.RemoteFailed, "known_hosts")
    finally:
        ssh.known_hosts.write_text(known)
    assert not (tmp_path / "far").exists()


def test_what_else_stops_it(stopped: Slapd, other: Slapd, bucket: Remote) -> None:
    nowhere = dataclasses.replace(bucket, url=f"s3://no-such-bucket/{other.port}")
    bucket.restore(other).refused(errors.NoSuchPath)
    bucket.backup("list").refused(errors.NoSuchPath)
    nowhere.run(stopped).refused(errors.RemoteFailed, "Create the bucket")
    assert bucket.backup("check").status == Status.UNKNOWN
    assert bucket.names() == []


@both
def test_a_repository_is_created_on_demand_only(stopped: Slapd, place: Remote) -> None:
    run = ("run", "--config", stopped.config_path)
    for words in (run, ("prune", "--keep-last", 1)):
        place.backup(*words).refused(errors.NoRepository, f"`ditseed backup init -R {place.url}`")
    assert place.names() == []
    for is_new in (True, False):
        assert place.backup("init", "--json").ok().facts["created"] is is_new
    place.backup(*run).ok()


@pytest.mark.long
def test_nothing_stays_on_this_host(stopped: Slapd, other: Slapd, bucket: Remote, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    bucket.run(stopped, "--tmp", tmp_path / "scratch").ok()
    bucket.restore(other, "latest", "--tmp", tmp_path / "scratch").ok()
    assert not list((tmp_path / "scratch").iterdir())
    killed = bucket.run(stopped, "--tmp", tmp_path / "scratch", DITSEED_KILL_AT="send.middle")
    assert killed.status == -signal.SIGKILL
    bucket.backup("verify", "latest", "--tmp", tmp_path / "scratch").ok()
    assert not list((tmp_path / "scratch").iterdir())
    shutil.rmtree(tmp_path / "scratch")


# --- a repository that nobody can empty -------------------------------------------------------------


APPEND_ONLY = " -P remove,rmdir,rename,posix-rename,setstat,fsetstat,lsetstat,symlink,copy-data"
_HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def added_bucket(server: S3Server, request: pytest.FixtureRequest) -> Remote:
    return in_bucket(server, f"{s3.ADDED}/{name_of(request)}")


@pytest.fixture
def added_directory(tmp_path: Path) -> Iterator[Remote]:
    with own_directory(tmp_path, APPEND_ONLY) as made:
        yield made


def owned(place: Remote) -> Remote:
    """The repository for an account that may remove and overwrite."""
    return dataclasses.replace(place, environment=place.environment | {"AWS_ACCESS_KEY_ID": s3.OWNER})


added = pytest.mark.parametrize("place", ["added_bucket", "added_directory"], indirect=True)


@pytest.mark.long
@added
def test_thirty_runs_that_only_add_files(people_ldif: Path, other: Slapd, tmp_path: Path, place: Remote) -> None:
    """The policy of the repository is no order for an account that may not remove."""
    place.backup("init", "--keep-last", 3).ok()
    with closing(Slapd(other.settings)) as source:
        source.slapadd(people_ldif, "-w")
        for number in range(30):
            source.slapadd(f"dn: ou=n{number},dc=example,dc=com\nobjectClass: organizationalUnit\n")
            place.run(source, "--incremental").ok()
        place.restore(other).ok()
        assert_same(source, other)
    first, *_ = made = place.listed()
    assert len(made) == 30
    for _ in range(2):
        place.backup("verify", first, made[-1]).ok()
    place.backup("pin", first, "--until", "2999-01-01").ok()
    place.backup("prune").refused(errors.RemovalRefused, "account that may remove")
    if place.url.startswith("s3://"):
        owned(place).backup("prune").ok()
        assert place.listed() == [first, *made[-3:]]
        assert not [name for name in place.names() if name.startswith("lock-")]
        place.backup("verify").ok()


@pytest.mark.long
def test_a_lease_keeps_those_away_who_may_remove(
    stopped: Slapd, server: S3Server, added_bucket: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But no run that only adds files, not even if it was forged."""
    made = [added_bucket.take(stopped) for _ in range(2)]
    prefix = added_bucket.prefix
    elsewhere = msgspec.structs.replace(remote_lock.myself(), host="elsewhere")
    server.put(f"{prefix}/lock-{'0' * 16}.json", msgspec.json.encode(elsewhere))
    owned(added_bucket).backup("prune", "--keep-last", 1).refused(errors.RemoteLocked, f"lock-{'0' * 16}.json")
    made.append(added_bucket.take(stopped))
    _use(monkeypatch, added_bucket.environment)
    with remote.opened(remote.parse(added_bucket.url)) as store, remote_lock.exclusive(store, renewal=0.05) as lock:
        assert len(lock.leases) == 1
        lock.require()
        server.put(f"{prefix}/{remote_lock.LOCK}", msgspec.json.encode(elsewhere))  # as `prune` does
        with pytest.raises(errors.RemoteFailed, match="another process"):
            lock.require()
    server.put(f"{prefix}/{remote_lock.LOCK}", b"")
    for name in added_bucket.names():
        if remote_lock.LEASE.fullmatch(name):
            lapsed = msgspec.structs.replace(elsewhere, renewed=elsewhere.renewed + 9 * _HOUR)
            server.put(f"{prefix}/{name}", msgspec.json.encode(lapsed))
    owned(added_bucket).backup("prune", "--keep-last", 1).ok()
    assert added_bucket.listed() == made[-1:]


def test_a_thief_who_has_the_key_of_the_writer(
    stopped: Slapd, server: S3Server, added_bucket: Remote, tmp_path: Path
) -> None:
    """He can put new objects of any name and content, which are dated later, or now."""
    added_bucket.backup("init", "--keep-within", "30d").ok()
    honest = [added_bucket.take(stopped, "--incremental") for _ in range(2)]
    before = datetime.datetime.now(datetime.timezone.utc).isoformat()
    added_bucket.backup("pin", honest[0], "--until", "2999-01-01").ok()
    prefix, names = added_bucket.prefix, added_bucket.names()
    with pytest.MonkeyPatch.context() as patch:
        _use(patch, added_bucket.environment)
        with remote.opened(remote.parse(added_bucket.url)) as store:
            for name in names:  # nothing that exists can be overwritten or removed
                with pytest.raises(errors.RemoteFailed):
                    store.write(name, b"forged")
                with pytest.raises(errors.RemovalRefused):
                    store.remove(name)
            stolen = msgspec.json.decode(server.get(f"{prefix}/{honest[1]}/manifest.json"), type=manifest.Backup)
            soon = repository.now() + datetime.timedelta(seconds=2)
            for number in range(4):
                when = soon + datetime.timedelta(seconds=number)
                name = repository.new_id(tmp_path, when, stopped.suffix)
                its = {"id": name, "made": when.isoformat(), "files": stolen.files if number else (), "entries": 9}
                forged = manifest.sealed(msgspec.structs.replace(stolen, **its))
                for stored in stolen.files:
                    store.write(f"{name}/{stored.name}", bytes(stored.bytes))
                store.write(f"{name}/manifest.json", manifest.text(forged))
            for name in honest:
                bad = manifest.Verification(backup=name, problem="it is said to be damaged")
                text, late = manifest.text(manifest.sealed(bad)), repository.stamp(soon)
                store.write(f"{name}/verified-{late}000000.json", text)
                store.write(f"{name}/pinned-20010101T000000Z.json", b"forged")
            store.write(f"pages/{'0' * 64}.pack", bytes(1 << 20))
            store.write(f"{honest[0]}/huge", bytes(4 << 20))
            store.write("lock-0123456789abcdef.json", b"forged")
    for number, name in enumerate(honest):
        added_bucket.backup("restore", name, "--target", tmp_path / str(number)).ok()
    assert added_bucket.backup("show", "--as-of", before, "--json").ok().facts["backup"]["id"] == honest[1]
    added_bucket.run(stopped, "--incremental").ok()  # the forged lock does not stop it, nor the forged packs
    owned(added_bucket).backup("prune", "--keep-last", 1).refused(errors.RemoteLocked, "lock-0123456789abcdef.json")
    server.delete(f"{prefix}/lock-0123456789abcdef.json")
    owned(added_bucket).backup("prune").ok()
    assert {*honest} < {*added_bucket.listed()}
    owned(added_bucket).backup("prune", "--keep-last", 1).ok()
    assert honest[0] in added_bucket.listed(), "a pin protects from planted backups that `--keep-last` counts"
    added_bucket.backup("restore", honest[0], "--target", tmp_path / "pinned").ok()
    added_bucket.backup("pin", honest[0], "--release").refused(errors.RemovalRefused)
    owned(added_bucket).backup("pin", honest[0], "--release").ok()
    assert added_bucket.backup("show", honest[0], "--json").ok().facts["pinned_until"] is None


@pytest.mark.long
def test_a_thief_who_has_the_sftp_key_of_the_writer(stopped: Slapd, tmp_path: Path) -> None:
    """He can only add files. The job on the vault, which the page names, has taken the stored ones from his account."""
    require(sshd.missing_sshd())
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a path that `nobody` can enter
        (home := Path(name)).chmod(0o711)
        (vault := home / "vault").mkdir()
        shutil.chown(vault, "nobody", "nogroup")
        with sshd.running(home, f" -u 0027{APPEND_ONLY}", "nobody") as made:
            place = in_directory(made, vault / "repo")
            place.backup("init", "--keep-within", "30d").ok()
            honest = [place.take(stopped, "--incremental") for _ in range(2)]
            stored = [path for path in (vault / "repo").rglob("*") if path.is_file()]
            for path in stored:
                os.chown(path, 0, -1)
            with paramiko.SSHClient() as client:
                client.load_host_keys(str(made.known_hosts))
                key = str(made.home / ".ssh/id_ed25519")
                client.connect("127.0.0.1", made.proxy.port, made.account, key_filename=key)
                ftp = client.open_sftp()
                for path in map(str, stored):
                    for attempt in (
                        *(lambda at, mode=mode: ftp.open(at, mode) for mode in ("w", "a", "r+")),
                        ftp.remove,
                        lambda at: ftp.rename(at, f"{at}.away"),
                        lambda at: ftp.posix_rename(at, f"{at}.away"),
                        lambda at: ftp.truncate(at, 0),
                        lambda at: ftp.chmod(at, 0o666),
                        lambda at: ftp.symlink("/etc/passwd", at),
                    ):
                        with pytest.raises(OSError, match=r"denied|[Ff]ailure|unsupported"):
                            attempt(path)
                with pytest.raises(OSError, match="denied"):
                    ftp.rename(str(vault / "repo" / honest[0]), str(vault / "gone"))
                forged = [f"{backup_id}/pinned-20010101T000000Z.json" for backup_id in honest]
                for name in (*forged, "lock-0123456789abcdef.json"):
                    with ftp.open(str(vault / "repo" / name), "w") as file:
                        file.write(b"forged")
            for number, backup_id in enumerate(honest):
                place.backup("verify", backup_id).ok()
                place.backup("restore", backup_id, "--target", tmp_path / str(number)).ok()
            place.run(stopped, "--incremental").ok()


@both
def test_parts_are_fetched_by_several_connections(
    stopped: Slapd, monkeypatch: pytest.MonkeyPatch, place: Remote, tmp_path: Path
) -> None:
    _use(monkeypatch, place.environment)
    monkeypatch.setattr(remote_lock, "_PART", 10_000)
    place.run(stopped).ok()
    before = place.proxy.connections
    with repository.at(remote.parse(place.url), scratch=tmp_path) as repo:
        backup = repository.find(repo, "latest", None)
        repo.bring(backup.stored())
        for name, stored in backup.stored():
            pack.require_sums(repo.path / name, stored)
    assert place.proxy.connections - before >= 4


@pytest.mark.long
def test_limited_rates(stopped: Slapd, ssh: SshServer, bucket: Remote, directory: Remote, tmp_path: Path) -> None:
    for place in (bucket, directory):
        place.run(stopped).ok()
        assert len(place.listed()) == 1
        for words in (
            ("run", "--config", stopped.config_path, "--limit-upload", "60K"),
            ("verify", "latest", "--limit-download", "60K"),
        ):
            start = time.monotonic()
            place.backup(*words).ok()
            assert time.monotonic() - start > 1.5
        place.backup("restore", "latest", "--target", tmp_path / place.url[:2]).ok()
