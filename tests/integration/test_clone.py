"""`clone` of databases: beside a busy slapd, compacted, through a pipe, of sparse files, on full disks, killed."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import time
from collections import deque
from contextlib import closing
from pathlib import Path

import ldap
import pytest

from fixtures import replication
from fixtures.aside import BackgroundThread
from fixtures.churn import Churn
from fixtures.limits import Filesystem
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.waiting import until
from loader import errors
from loader.mdb import contents, copy, meta
from loader.mdb.copy import Sizes
from loader.operations.clone import CloneReport, clone, plan
from loader.operations.options import CloneOptions
from loader.operations.publish import WORKSHOP
from loader.run.log import exclusive
from loader.storage import files
from loader.units import parse_size
from tests.support import nobody
from tests.support.backups import ONE_ENTRY, QUIET, fill, read_only
from tests.support.command import Done, arguments_of, ditseed, environment, start
from tests.support.command import piped as fed
from tests.support.disks import loop_filesystem
from tests.support.killing import Stamp
from tests.support.mapped import oldest_lag
from tests.support.refusal import error_as_nobody
from tests.support.require import require_root
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

HUGE = parse_size("250G")
CUT = 800_000  # bytes of some three million; the pipe holds another MiB that the sender is rid of
CHANGE = "dn: dc=example,dc=com\nchangetype: modify\nreplace: o\no: more\n\n"
RATE = 1000  # modifications a second
WINDOW = 16  # that wait for their answers


def run(source: Path, target: Path, **options: object) -> CloneReport:
    return clone(CloneOptions(source, target, **options), QUIET)  # type: ignore[arg-type]


def test_the_clone_is_the_same_database(stopped: Slapd, other: Slapd) -> None:
    report = run(stopped.database_dir, other.database_dir)
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert_same(stopped, other)
    assert report.entries == 1029
    assert report.suffixes == ("dc=example,dc=com",)
    assert list(report.context_csns) == contents.context_csns(stopped.database_dir)
    assert (len(report.context_csns), report.verified) == (1, "pages")
    sizes = (parse_size("10G"), meta.read_meta(stopped.database_dir).used)
    assert (report.source_apparent, report.target_apparent) == sizes
    with other:
        assert len(other.search()) == report.entries


def test_it_says_what_it_will_make_and_what_it_made(provider: Slapd, tmp_path: Path) -> None:
    command = ("clone", provider.database_dir, tmp_path / "clone")
    planned = ditseed(*command, "--dry-run", "--json").ok().facts
    assert (planned["needed"] > 0, planned["replaces"]) == (True, False)
    assert "\nneeded  " in ditseed(*command, "--dry-run").ok().out
    assert not (tmp_path / "clone").exists()
    done = ditseed(*command).ok()
    words = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert (words["entries"].strip(), words["verified"].strip()) == ("1,029", "pages")
    assert "copy: " in done.err
    done = ditseed(*command, "--replace", "--json", "--progress", "none", "--verify", "quick").ok()
    assert [done.facts[name] for name in ("entries", "format", "verified")] == [1029, 1, "quick"]
    assert done.err == ""


def test_beside_a_busy_server(people_ldif: Path, tmp_path: Path) -> None:
    server = replication.provider()
    server.slapadd(people_ldif)
    with server, Churn(server, rate=500) as churn:
        for verify in ("none", "quick", "pages"):
            churn.wait_for(churn.changes() + 100)
            report = run(server.database_dir, tmp_path / verify, verify=verify)
            with closing(Slapd(server.settings)) as reader:  # slapd's own reading of it
                shutil.copy(tmp_path / verify / "data.mdb", reader.database_dir)
                assert reader.slapcat().count("\ndn:") + 1 == report.entries
        assert oldest_lag(server.database_dir) == 0
        churn.stop()
        final = run(server.database_dir, tmp_path / "final")
        assert final.entries == len(server.search())


def test_a_source_on_a_read_only_mount(stopped: Slapd, tmp_path: Path) -> None:
    """A snapshot of a file system, for instance, with the lock.mdb that slapd left."""
    require_root()
    kept = tmp_path / "kept"
    run(stopped.database_dir, kept)
    (kept / "lock.mdb").touch()
    with read_only(kept):
        for compact in (False, True):
            assert run(kept, tmp_path / f"clone{compact:d}", compact=compact).entries == 1029
        ditseed("backup", "run", "--init", "-R", tmp_path / "repo", "--from", kept).ok()


def test_owner_and_mode(stopped: Slapd, tmp_path: Path) -> None:
    require_root()
    target = tmp_path / "clone"
    target.mkdir()
    os.chown(target, nobody.ID, nobody.ID)
    run(stopped.database_dir, target)
    status = (target / "data.mdb").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (nobody.ID, nobody.ID, 0o600)


def test_a_target_in_use_and_one_that_is_not_to_be_replaced(stopped: Slapd, other: Slapd) -> None:
    other.slapadd(ONE_ENTRY)
    command = ("clone", stopped.database_dir, other.database_dir)
    ditseed(*command).refused(errors.TargetNotEmpty, "--replace")
    assert other.slapcat().count("\ndn:") == 0
    with other:
        before = {path.name: Stamp.of(path) for path in other.database_dir.iterdir()}
        ditseed(*command, "--replace").refused(errors.TargetInUse, "slapd", "systemctl stop slapd")
        assert {path.name: Stamp.of(path) for path in other.database_dir.iterdir()} == before
        assert len(other.search()) == 1


def test_places_that_are_none(stopped: Slapd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    source, clone = stopped.database_dir, tmp_path / "clone"
    for wrong_source, wrong_target, error, words in [
        (tmp_path / "nowhere", clone, errors.NoSuchPath, "no such file"),
        (tmp_path / "empty", clone, errors.NoSuchPath, ""),
        (tmp_path / "file", clone, errors.NotLmdb, ""),
        (source / "data.mdb", clone, errors.NotLmdb, ""),
        (source, tmp_path / "file", errors.UsageProblem, ""),
        (source, source, errors.UsageProblem, "the source itself"),
    ]:
        for more in ((), ("--dry-run",)):
            ditseed("clone", wrong_source, wrong_target, "--replace", *more).refused(error, words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]
    assert not list((tmp_path / "empty").iterdir())


def test_a_disk_that_is_full_or_fills_up_meanwhile(stopped: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    """By somebody else, once there was found to be room."""
    enough = copy.require_space
    with loop_filesystem(32) as disk:
        target = disk / "clone"
        filler = fill(disk)
        with pytest.raises(errors.NoSpace, match="needed"):
            run(stopped.database_dir, target)
        filler.unlink()

        def enough_until_now(*asked: Path) -> int:
            found = enough(*asked)
            fill(disk)
            return found

        monkeypatch.setattr(copy, "require_space", enough_until_now)
        with pytest.raises(errors.NoSpace, match=str(target)):
            run(stopped.database_dir, target)
        assert filler.exists()
        assert not target.exists()


@pytest.mark.parametrize(("place", "mode"), [("source", 0o000), ("source/data.mdb", 0o600), ("target", 0o755)])
def test_without_permission(stopped: Slapd, short_tmp: Path, place: str, mode: int) -> None:
    require_root()
    short_tmp.chmod(0o755)
    source, target = short_tmp / "source", short_tmp / "target"
    source.mkdir(mode=0o755)
    target.mkdir(mode=0o777)
    run(stopped.database_dir, short_tmp / "copy")
    (short_tmp / "copy" / "data.mdb").rename(source / "data.mdb")
    (source / "data.mdb").chmod(0o644)
    (short_tmp / place).chmod(mode)
    assert error_as_nobody(lambda: run(source, target)).startswith(f"{errors.NotPermitted.code}: ")
    assert not list(target.iterdir())


def test_one_at_a_time(stopped: Slapd, tmp_path: Path) -> None:
    target = tmp_path / "clone"
    (target / WORKSHOP).mkdir(parents=True)
    busy = exclusive(target / WORKSHOP / "lock")
    with busy, pytest.raises(errors.Locked, match=str(os.getpid())):
        run(stopped.database_dir, target)
    run(stopped.database_dir, target)
    assert [path.name for path in target.iterdir()] == ["data.mdb"]


def test_what_a_killed_run_left_is_not_in_the_way(stopped: Slapd) -> None:
    used = meta.read_meta(stopped.database_dir).used
    with loop_filesystem(64) as disk:
        target = disk / "clone"
        (target / WORKSHOP).mkdir(parents=True)
        (disk / "filler").write_bytes(bytes(files.free_bytes(disk) - used - (1 << 20)))
        (target / WORKSHOP / "data.mdb.partial").write_bytes(bytes(used - 4096))
        assert plan(CloneOptions(stopped.database_dir, target)).free > used
        run(stopped.database_dir, target)
        assert [path.name for path in target.iterdir()] == ["data.mdb"]


# --- interrupted --------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["clone.copied", pytest.param("clone.received", marks=pytest.mark.long)])
def test_killed_then_run_again(stopped: Slapd, other: Slapd, point: str) -> None:
    """At each point, all has come and nothing is in its place yet."""
    other.slapadd(ONE_ENTRY)
    before = other.slapcat()
    is_piped = point == "clone.received"
    text = whole_stream(stopped) if is_piped else b""
    command = ("clone", "-" if is_piped else stopped.database_dir, other.database_dir, "--replace")
    for each in (point, "publish.middle"):
        assert fed(text, *command, env={"DITSEED_KILL_AT": each}).status == -signal.SIGKILL
        assert other.slapcat() == before
    fed(text, *command).ok()
    assert_same(stopped, other)
    assert not list(other.database_dir.glob("*partial*"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_ended_while_it_copies(stopped: Slapd, other: Slapd, number: signal.Signals, status: int) -> None:
    command = ("clone", stopped.database_dir, other.database_dir, "--verify", "quick")
    for _ in range(20):  # it may be done before the signal comes
        process = start(*command)
        until(lambda: (other.database_dir / WORKSHOP / "data.mdb.partial").exists())
        process.send_signal(number)
        process.communicate()
        if process.returncode != 0:
            break
        (other.database_dir / "data.mdb").unlink()
    assert process.returncode == status
    assert not (other.database_dir / "data.mdb").exists()
    if number != signal.SIGKILL:
        assert not list(other.database_dir.iterdir())
    ditseed(*command).ok()
    assert_same(stopped, other)


def piped(sending: tuple[object, ...], receiving: tuple[object, ...], most: int | None = None) -> tuple[Done, Done]:
    """Both ends, with no more than `most` bytes between them."""
    with start("clone", *sending, text=False) as sender:
        assert sender.stdout is not None
        assert sender.stderr is not None
        passed = sender.stdout.read(-1 if most is None else most)
        sender.stdout.close()
        received = fed(passed, "clone", *receiving)
        words = sender.stderr.read().decode()
    return Done(sender.returncode, "", words), received


def token_of(target: Path) -> str:
    """By which a stream to it goes on."""
    return str(ditseed("clone", "-", target, "--dry-run", "--json").ok().facts["token"])


def whole_stream(source: Slapd) -> bytes:
    words = arguments_of("clone", source.database_dir, "-")
    return subprocess.run(words, capture_output=True, env=environment(), check=True).stdout


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_sparse_file_takes_what_it_took(people_ldif: Path, kind: Filesystem) -> None:
    with loop_filesystem(400, kind) as disk, closing(Slapd(Settings(maxsize=HUGE), directory=disk / "s")) as server:
        server.slapadd(people_ldif)
        source = server.database_dir
        before = Sizes.of(source / "data.mdb")
        assert before.apparent == HUGE
        for options in ((), ("--compact",), ("--reflink", "never")):
            done = ditseed("clone", source, disk / "clone", "--replace", "--json", *options)
            assert done.ok().facts["target_allocated"] <= before.allocated + (1 << 20)
            assert meta.read_meta(disk / "clone").map_size == HUGE
            assert (disk / "clone").stat().st_mode & 0o777 == 0o700
        assert Sizes.of(source / "data.mdb") == before


@pytest.mark.long
def test_blocks_are_shared_where_the_file_system_can(people_ldif: Path, tmp_path: Path) -> None:
    with (
        loop_filesystem(400, "xfs") as disk,
        closing(Slapd(directory=disk / "s")) as server,
        closing(Slapd(directory=disk / "t")) as other,
    ):
        server.slapadd(people_ldif)
        free = os.statvfs(disk).f_bavail
        source = server.database_dir
        done = ditseed("clone", source, other.database_dir, "--json", "--verify", "pages").ok()
        assert done.facts["shared"]
        assert (free - os.statvfs(disk).f_bavail) * 4096 < 1 << 20
        assert_same(server, other)
        server.start()  # in use: only when asked for
        again = ("clone", source, disk / "u", "--replace", "--json")
        assert not ditseed(*again).ok().facts["shared"]
        assert ditseed(*again, "--reflink", "always").ok().facts["shared"]
        server.stop()
        ditseed("clone", source, tmp_path / "x", "--reflink", "always").refused(errors.NoReflink)
        assert not (tmp_path / "x").exists()


# --- through a pipe -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["send", "compact"])
def test_through_a_pipe(stopped: Slapd, other: Slapd, tmp_path: Path, step: str) -> None:
    """Byte for byte what a clone without a pipe makes; the compacted copy in between has no name, and is gone."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    more: tuple[object, ...] = ("--compact",) if step == "compact" else ()
    done = ditseed("clone", stopped.database_dir, tmp_path / "here", "--json", *more).ok()
    assert (done.facts["compact"], len(done.facts["context_csns"])) == (bool(more), 1)
    sending = (stopped.database_dir, "-", *more, *(("--tmp", scratch) if more else ()))
    sent, received = piped(sending, ("-", other.database_dir, "--verify", "tree", "--json"))
    assert f"{step}: " in sent.ok().err
    assert received.ok().facts["entries"] == 1029
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert (other.database_dir / "data.mdb").stat().st_mode & 0o777 == 0o600
    made = (other.database_dir / "data.mdb").read_bytes()
    assert made == (tmp_path / "here" / "data.mdb").read_bytes()
    source, copied = meta.read_meta(stopped.database_dir), meta.read_meta(other.database_dir)
    assert (copied.txnid, copied.map_size) == (source.txnid, source.map_size)
    assert (copied.used < source.used) == bool(more)
    assert_same(stopped, other)
    assert not list(scratch.iterdir())
    with other:
        assert len(other.search()) == 1029
        other.ldapmodify(CHANGE)
        assert meta.read_meta(other.database_dir).txnid > source.txnid


@pytest.mark.parametrize("more", [(), ("--compact",)], ids=["plain", "compact"])
def test_a_stream_that_breaks(stopped: Slapd, other: Slapd, more: tuple[str, ...]) -> None:
    """A compacted one is made again, the same, and goes on; one that is not compacted does not go on with it."""
    target, sending = other.database_dir, (stopped.database_dir, "-", *more)
    for most in (30, CUT):
        sent, received = piped(sending, ("-", target), most)
        sent.refused(errors.StreamBroken, str(stopped.database_dir))
        received.refused(errors.StreamBroken)
        assert not (target / "data.mdb").exists()
    told = ditseed("clone", "-", target, "--dry-run", "--json").ok().facts
    assert 0 < told["have"] < CUT
    assert told["token"] in received.err
    if more:
        plain, _ = piped((*sending[:2], "--skip", told["token"]), ("-", "/dev/null"))
        assert "everything was sent" in plain.err or plain.status == errors.StreamBroken.exit_status
        assert "skipped  0 B" in plain.err or plain.status
    sent, received = piped((*sending, "--skip", told["token"]), ("-", target))
    assert re.search("skipped +[1-9]", sent.ok().err)
    received.ok()
    assert [path.name for path in target.iterdir()] == ["data.mdb"]
    assert_same(stopped, other)


def test_no_room_for_the_compacted_copy(stopped: Slapd, tmp_path: Path) -> None:
    with loop_filesystem(8) as small:
        (small / "filler").write_bytes(bytes(6 << 20))
        sending = (stopped.database_dir, "-", "--compact", "--tmp")
        sent, received = piped((*sending, small), ("-", tmp_path))
        sent.refused(errors.NoSpace, str(small), "needed")
        received.refused(errors.StreamBroken)
        assert [path.name for path in small.iterdir() if path.name != "lost+found"] == ["filler"]
    piped((*sending, tmp_path / "nowhere"), ("-", tmp_path))[0].refused(errors.NoSuchPath)


def test_a_source_that_changed_since_is_sent_whole(people_ldif: Path, other: Slapd) -> None:
    with closing(Slapd(other.settings)) as server:
        server.slapadd(people_ldif)
        target = other.database_dir
        piped((server.database_dir, "-"), ("-", target), 3_000_000)
        token = token_of(target)
        server.start()
        server.ldapmodify(CHANGE)
        server.stop()
        sent, received = piped((server.database_dir, "-", "--skip", token), ("-", target))
        assert "has changed since" in sent.ok().err
        received.ok()
        assert_same(server, other)


def test_what_goes_on_with_another_copy(stopped: Slapd, other: Slapd, tmp_path: Path) -> None:
    piped((stopped.database_dir, "-"), ("-", tmp_path), 3_000_000)
    again = (stopped.database_dir, "-", "--skip")
    piped((*again, token_of(tmp_path)), ("-", other.database_dir))[1].refused(errors.StreamRefused)
    assert not list(other.database_dir.iterdir())
    piped((*again, "nonsense"), ("-", other.database_dir))[0].refused(errors.StreamRefused)


@pytest.mark.parametrize(
    ("text", "error"),
    [(b"", errors.StreamBroken), (b"hello\n", errors.StreamRefused), (b"x" * 99, errors.StreamRefused)],
    ids=["nothing", "a word", "another stream"],
)
def test_what_is_no_stream(tmp_path: Path, text: bytes, error: type[errors.LoaderError]) -> None:
    fed(text, "clone", "-", tmp_path / "x").refused(error)
    assert not (tmp_path / "x" / "data.mdb").exists()


def test_ctrl_c_while_it_receives(stopped: Slapd, tmp_path: Path) -> None:
    """It says how to go on."""
    whole = whole_stream(stopped)
    with start("clone", "-", tmp_path, stdin=subprocess.PIPE, text=False) as receiver:
        assert receiver.stdin is not None
        receiver.stdin.write(whole[: len(whole) // 2])
        receiver.stdin.flush()
        until((tmp_path / WORKSHOP / "data.mdb.partial.have").exists)
        time.sleep(0.5)
        receiver.send_signal(signal.SIGINT)
        assert receiver.stderr is not None
        told = receiver.stderr.read().decode()
        assert receiver.wait() == 130
    assert f"--skip {token_of(tmp_path)}" in told


def test_a_full_disk_at_the_receiver(stopped: Slapd) -> None:
    """It says how to go on; with room for the rest it does."""
    with loop_filesystem(64) as disk:
        target = disk / "clone"
        target.mkdir()
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - (1 << 20))
        sent, received = piped((stopped.database_dir, "-"), ("-", target))
        assert "Broken pipe" not in sent.err
        token = token_of(target)
        received.refused(errors.NoSpace, f"--skip {token}")
        filler.unlink()
        piped((stopped.database_dir, "-", "--skip", token), ("-", target))[1].ok()
        assert [path.name for path in target.iterdir()] == ["data.mdb"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-", "-"),
        ("-", "x", "--compact"),
        ("x", "-", "--dry-run"),
        ("x", "y", "--skip", "1"),
        ("-", "y", "--skip", "1"),
        ("x", "y", "--tmp", "/tmp"),
        ("x", "-", "--tmp", "/tmp"),
        ("x", "y", "--compact", "--reflink", "always"),
        ("x", "y", "--verify", "much"),
    ],
)
def test_what_makes_no_sense(arguments: tuple[str, ...]) -> None:
    ditseed("clone", *arguments).refused(errors.UsageProblem, arguments[-1] if "--verify" in arguments else "")


class Hammer(BackgroundThread):
    """Modifies people, so many a second as the server takes, until the block ends."""

    def __init__(self, server: Slapd) -> None:
        super().__init__()
        self._server, self.done, self._started = server, 0, time.monotonic()

    def rate(self) -> float:
        assert self._thread.is_alive()
        return self.done / (time.monotonic() - self._started)

    def _work(self) -> None:
        names = [dn for dn, _ in self._server.search("(objectClass=person)")]
        with self._server.connection() as handle:
            waiting: deque[int] = deque()
            for number, dn in enumerate(itertools.cycle(names)):
                value = [f"{number}".encode()]
                waiting.append(handle.modify_ext(dn, [(ldap.MOD_REPLACE, "description", value)]))
                if len(waiting) > WINDOW:
                    handle.result3(waiting.popleft())
                    self.done += 1
                if self._over.is_set():
                    break
                time.sleep(max(0.0, number / RATE - (time.monotonic() - self._started)))
            for one in waiting:
                handle.result3(one)


@pytest.mark.parametrize(
    ("count", "least"), [pytest.param(3, 1, marks=pytest.mark.long), pytest.param(50, 900, marks=pytest.mark.heavy)]
)
def test_one_after_another(people_ldif: Path, tmp_path: Path, count: int, least: int) -> None:
    """Every other one compacting. least: modifications a second that there have to be."""
    # A server that does not wait for the disk, so that it can take so many.
    busy, went_on_by = Slapd(Settings(maxsize=4 << 30, database_lines=("dbnosync",))), 0
    busy.slapadd(people_ldif, "-w")
    with busy, Hammer(busy) as hammer:
        until(lambda: hammer.done)
        for number in range(count):
            with closing(Slapd(busy.settings, directory=tmp_path / str(number))) as clone:
                command = ("clone", busy.database_dir, clone.database_dir, "--verify", "pages", "--json")
                made = ditseed(*command, *(("--compact",) if number % 2 else ())).ok().facts
                assert made["verified"] == "pages"
                with clone:
                    assert len(clone.search()) == made["entries"]
                assert len(re.findall("^dn:", clone.slapcat(), re.MULTILINE)) == made["entries"]
                went_on_by += made["transactions"]
        assert hammer.rate() >= least
    assert went_on_by > 0
