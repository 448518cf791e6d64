"""`clone` in its kinds: compacting, sharing blocks, through a pipe; of sparse files on real file systems."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fixtures.limits import Filesystem, loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.waiting import until
from loader.errors import NoReflink, NoSpace, NoSuchPath, StreamBroken, StreamRefused, UsageProblem
from loader.mdb import meta
from loader.mdb.copy import Sizes
from loader.operations.publish import WORKSHOP
from loader.units import parse_size
from tests.support.command import Done, arguments_of, ditseed, environment, start
from tests.support.require import require
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

HUGE = parse_size("250G")
CUT = 800_000  # bytes of some three million; the pipe holds another MiB that the sender is rid of
CHANGE = "dn: dc=example,dc=com\nchangetype: modify\nreplace: o\no: more\n\n"


def piped(sending: tuple[object, ...], receiving: tuple[object, ...], most: int | None = None) -> tuple[Done, Done]:
    """Both ends, with no more than `most` bytes between them."""
    with (
        _run("clone", *sending, stdin=subprocess.DEVNULL) as sender,
        _run("clone", *receiving, stdin=subprocess.PIPE) as receiver,
    ):
        assert sender.stdout is not None
        assert receiver.stdin is not None
        passed = sender.stdout.read(-1 if most is None else most)
        sender.stdout.close()
        with suppress(BrokenPipeError):  # it has ended by itself
            receiver.stdin.write(passed)
            receiver.stdin.close()
        assert receiver.stdout is not None
        assert receiver.stderr is not None
        out, said = receiver.stdout.read(), receiver.stderr.read()
        assert sender.stderr is not None
        words = sender.stderr.read()
        statuses = sender.wait(), receiver.wait()
    return (Done(statuses[0], "", words.decode()), Done(statuses[1], out.decode(), said.decode()))


def _run(*arguments: object, stdin: int) -> subprocess.Popen[bytes]:
    return start(*arguments, stdin=stdin, text=False)


# --- compacting -----------------------------------------------------------------------------------


def test_a_compacting_clone_is_the_same_database(stopped: Slapd, other: Slapd) -> None:
    options = ("--compact", "--verify", "pages", "--json")
    done = ditseed("clone", stopped.database_dir, other.database_dir, *options).ok()
    assert_same(stopped, other)
    source, copy = meta.read_meta(stopped.database_dir), meta.read_meta(other.database_dir)
    assert (copy.txnid, copy.map_size) == (source.txnid, source.map_size)
    assert copy.used < source.used
    assert done.facts["compact"]
    assert len(done.facts["context_csns"]) == 1
    other.start()
    assert len(other.search()) == 1029
    other.ldapmodify(CHANGE)
    other.stop()
    assert meta.read_meta(other.database_dir).txnid > source.txnid


def test_a_damaged_source_is_not_compacted(stopped: Slapd, tmp_path: Path) -> None:
    source = tmp_path / "source"
    ditseed("clone", stopped.database_dir, source).ok()
    with (source / "data.mdb").open("r+b") as file:
        for page in range(10, meta.read_meta(source).pages, 7):
            file.seek(page * 4096)
            file.write(bytes(4096))
    done = ditseed("clone", source, tmp_path / "clone", "--compact", "--verify", "none")
    assert done.status == 54
    assert "page" in done.err
    assert not (tmp_path / "clone").exists()


# --- holes and shared blocks ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_sparse_file_takes_what_it_took(stopped: Slapd, people_ldif: Path, kind: Filesystem) -> None:
    require(missing_loop_filesystem(kind))
    with loop_filesystem(400, kind) as disk:
        server = Slapd(Settings(maxsize=HUGE), directory=disk / "s")
        try:
            server.slapadd(people_ldif)
            source = server.database_dir
            before = Sizes.of(source / "data.mdb")
            assert before.apparent == HUGE
            for options in ((), ("--compact",), ("--reflink", "never")):
                done = ditseed("clone", source, disk / "clone", "--replace", "--json", *options)
                assert done.ok().facts["target_allocated"] <= before.allocated + (1 << 20)
                assert meta.read_meta(disk / "clone").map_size == HUGE
            assert Sizes.of(source / "data.mdb") == before
        finally:
            server.close()


@pytest.mark.long
def test_blocks_are_shared_where_the_file_system_can(people_ldif: Path, tmp_path: Path) -> None:
    require(missing_loop_filesystem("xfs"))
    with loop_filesystem(400, "xfs") as disk:
        server, other = Slapd(directory=disk / "s"), Slapd(directory=disk / "t")
        try:
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
            done = ditseed("clone", source, tmp_path / "x", "--reflink", "always")
            assert done.status == NoReflink.exit_status
            assert not (tmp_path / "x").exists()
        finally:
            server.close()
            other.close()


# --- through a pipe -------------------------------------------------------------------------------


def test_through_a_pipe(stopped: Slapd, other: Slapd) -> None:
    sent, received = piped((stopped.database_dir, "-"), ("-", other.database_dir, "--verify", "pages", "--json"))
    sent.ok()
    assert "sent: " in sent.err
    assert received.ok().facts["entries"] == 1029
    assert [path.name for path in other.database_dir.iterdir()] == ["data.mdb"]
    assert (other.database_dir / "data.mdb").stat().st_mode & 0o777 == 0o600
    assert_same(stopped, other)


@pytest.mark.parametrize("most", [30, CUT])
def test_a_stream_that_breaks(stopped: Slapd, other: Slapd, most: int) -> None:
    target = other.database_dir
    sent, received = piped((stopped.database_dir, "-"), ("-", target), most)
    assert (sent.status, received.status) == (StreamBroken.exit_status, StreamBroken.exit_status)
    assert not (target / "data.mdb").exists()
    if most < 100:
        return
    told = ditseed("clone", "-", target, "--dry-run", "--json").ok().facts
    assert 0 < told["have"] < most
    assert told["token"] in received.err
    again = (stopped.database_dir, "-", "--skip", told["token"])
    sent, received = piped(again, ("-", target))
    assert "left out" in sent.ok().err
    received.ok()
    assert [path.name for path in target.iterdir()] == ["data.mdb"]
    assert_same(stopped, other)


# --- compacted, through a pipe ----------------------------------------------------------------------


def test_compacted_through_a_pipe(stopped: Slapd, other: Slapd, tmp_path: Path) -> None:
    """Byte for byte the compacted clone; the copy in between has no name, and is gone."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    here = ditseed("clone", stopped.database_dir, tmp_path / "here", "--compact").ok()
    sending = (stopped.database_dir, "-", "--compact", "--tmp", scratch)
    sent, received = piped(sending, ("-", other.database_dir, "--verify", "tree"))
    assert "compact: " in sent.ok().err
    received.ok()
    assert "entries" in here.out
    made = (other.database_dir / "data.mdb").read_bytes()
    assert made == (tmp_path / "here" / "data.mdb").read_bytes()
    assert len(made) < meta.read_meta(stopped.database_dir).used
    assert_same(stopped, other)
    assert not list(scratch.iterdir())


def test_a_compacted_stream_that_breaks(stopped: Slapd, other: Slapd) -> None:
    """It is made again, the same, and goes on; a stream that is not compacted does not go on with it."""
    target, sending = other.database_dir, (stopped.database_dir, "-", "--compact")
    sent, received = piped(sending, ("-", target), CUT)
    assert (sent.status, received.status) == (StreamBroken.exit_status, StreamBroken.exit_status)
    assert str(stopped.database_dir) in sent.err
    told = ditseed("clone", "-", target, "--dry-run", "--json").ok().facts
    assert told["have"] > 0
    plain, _ = piped((stopped.database_dir, "-", "--skip", told["token"]), ("-", "/dev/null"))
    assert "all was sent" in plain.err or plain.status == StreamBroken.exit_status
    assert "left out" not in plain.err
    sent, received = piped((*sending, "--skip", told["token"]), ("-", target))
    assert "left out" in sent.ok().err
    received.ok()
    assert_same(stopped, other)


def test_no_room_for_the_compacted_copy(stopped: Slapd, tmp_path: Path) -> None:
    require(missing_loop_filesystem())
    with loop_filesystem(8) as small:
        filler = small / "filler"
        filler.write_bytes(bytes(6 << 20))
        sending = (stopped.database_dir, "-", "--compact", "--tmp", small)
        sent, received = piped(sending, ("-", tmp_path))
        assert sent.status == NoSpace.exit_status
        assert str(small) in sent.err
        assert "needed" in sent.err
        assert received.status == StreamBroken.exit_status
        assert [path.name for path in small.iterdir() if path.name != "lost+found"] == ["filler"]
    sent, _ = piped((*sending[:-1], tmp_path / "nowhere"), ("-", tmp_path))
    assert sent.status == NoSuchPath.exit_status


def test_a_source_that_changed_since_is_sent_whole(people_ldif: Path, other: Slapd) -> None:
    server = Slapd(other.settings)
    try:
        server.slapadd(people_ldif)
        target = other.database_dir
        piped((server.database_dir, "-"), ("-", target), 3_000_000)
        token = ditseed("clone", "-", target, "--dry-run", "--json").ok().facts["token"]
        server.start()
        server.ldapmodify(CHANGE)
        server.stop()
        sent, received = piped((server.database_dir, "-", "--skip", token), ("-", target))
        assert "has changed since" in sent.ok().err
        received.ok()
        assert_same(server, other)
    finally:
        server.close()


def test_what_goes_on_with_another_copy(stopped: Slapd, other: Slapd, tmp_path: Path) -> None:
    piped((stopped.database_dir, "-"), ("-", tmp_path), 3_000_000)
    token = ditseed("clone", "-", tmp_path, "--dry-run", "--json").ok().facts["token"]
    again = (stopped.database_dir, "-", "--skip", token)
    _, received = piped(again, ("-", other.database_dir))
    assert received.status == StreamRefused.exit_status
    assert not list(other.database_dir.iterdir())
    sent, _ = piped((stopped.database_dir, "-", "--skip", "nonsense"), ("-", other.database_dir))
    assert sent.status == StreamRefused.exit_status


def test_what_is_no_stream(tmp_path: Path) -> None:
    for given, error in [(b"", StreamBroken), (b"hello\n", StreamRefused), (b"x" * 99, StreamRefused)]:
        done = subprocess.run(
            arguments_of("clone", "-", tmp_path / "x"), input=given, env=environment(), check=False, capture_output=True
        )
        assert done.returncode == error.exit_status
        assert not (tmp_path / "x" / "data.mdb").exists()


def test_ctrl_c_while_it_receives(stopped: Slapd, tmp_path: Path) -> None:
    """It says how to go on."""
    words = arguments_of("clone", stopped.database_dir, "-")
    whole = subprocess.run(words, capture_output=True, env=environment(), check=True).stdout
    with _run("clone", "-", tmp_path, stdin=subprocess.PIPE) as receiver:
        assert receiver.stdin is not None
        receiver.stdin.write(whole[: len(whole) // 2])
        receiver.stdin.flush()
        until((tmp_path / WORKSHOP / "data.mdb.partial.have").exists)
        time.sleep(0.5)
        receiver.send_signal(signal.SIGINT)
        assert receiver.stderr is not None
        told = receiver.stderr.read().decode()
        assert receiver.wait() == 130
    token = ditseed("clone", "-", tmp_path, "--dry-run", "--json").ok().facts["token"]
    assert f"--skip {token}" in told


def test_a_full_disk_at_the_receiver(stopped: Slapd) -> None:
    """It says how to go on; with room for the rest it does."""
    require(missing_loop_filesystem())
    with loop_filesystem(64) as disk:
        target = disk / "clone"
        target.mkdir()
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", 0) as file:
            file.writelines(bytes(1 << 20) for _ in range(64))
        os.truncate(filler, filler.stat().st_size - (1 << 20))
        sent, received = piped((stopped.database_dir, "-"), ("-", target))
        assert received.status == NoSpace.exit_status
        assert "Broken pipe" not in sent.err
        token = ditseed("clone", "-", target, "--dry-run", "--json").ok().facts["token"]
        assert f"--skip {token}" in received.err
        filler.unlink()
        piped((stopped.database_dir, "-", "--skip", token), ("-", target))[1].ok()
        assert [path.name for path in target.iterdir()] == ["data.mdb"]


@pytest.mark.long
def test_killed_while_it_receives(stopped: Slapd, other: Slapd) -> None:
    """At the named point, all has come and nothing is in its place yet."""
    other.slapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n")
    before = other.slapcat()
    whole = subprocess.run(
        arguments_of("clone", stopped.database_dir, "-"), capture_output=True, env=environment(), check=True
    ).stdout
    receiving = arguments_of("clone", "-", other.database_dir, "--replace")
    for point in ("clone.received", "publish.middle"):
        killed = environment({"DITSEED_KILL_AT": point})
        done = subprocess.run(receiving, input=whole, env=killed, check=False, capture_output=True)
        assert done.returncode == -signal.SIGKILL
        assert other.slapcat() == before
    subprocess.run(receiving, input=whole, env=environment(), check=True, capture_output=True)
    assert_same(stopped, other)


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
    ],
)
def test_what_makes_no_sense(arguments: tuple[str, ...]) -> None:
    assert ditseed("clone", *arguments).status == UsageProblem.exit_status
