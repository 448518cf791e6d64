"""A connection keeps its password to itself: out of argument lists, out of what is printed and written down."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from loader import _native
from loader.errors import Cancelled, FileUnsafe, NoSuchPath, UsageProblem
from loader.progress import Meter
from loader.server.options import Connection, Search
from loader.server.wire import reading

SECRET = "S3CRET of the night"


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("connection", "who"),
    [
        (Connection(), "anonymous"),
        (Connection(bind_dn="cn=admin"), "cn=admin"),
        (Connection(mechanism="EXTERNAL", bind_dn="cn=admin"), "SASL EXTERNAL"),
    ],
)
def test_who(connection: Connection, who: str) -> None:
    assert connection.who == who


def test_what_is_printed_or_written_down_has_no_secret(password_file: Path) -> None:
    typed = Connection("ldap://x", "cn=admin", password=SECRET)
    filed = Connection("ldap://x", "cn=admin", password_file=str(password_file))
    for one in (typed, filed):
        assert SECRET not in repr(one)
        assert SECRET not in f"{one.identity()}"
        assert one.read_secret() == SECRET.encode()


def test_the_whole_file_is_the_password(password_file: Path) -> None:
    """A newline at its end too, as for ldapsearch -y."""
    password_file.write_bytes(b"word\n")
    assert Connection(password_file=str(password_file)).read_secret() == b"word\n"


def test_a_missing_password_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath, match="nowhere"):
        Connection(password_file=str(tmp_path / "nowhere")).read_secret()


def test_a_password_that_others_can_read_is_told_of_and_one_that_they_can_write_is_refused(
    password_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection(password_file=str(password_file))
    for mode, who in ((0o600, None), (0o640, "its group"), (0o604, "every user of this host")):
        password_file.chmod(mode)
        caplog.clear()
        assert connection.read_secret() == SECRET.encode()
        expected = [f"{password_file}: {who} can read the password"] if who else []
        assert [one.split(";")[0] for one in caplog.messages] == expected
    for mode in (0o620, 0o602):
        password_file.chmod(mode)
        with pytest.raises(UsageProblem, match="others can write to it: chmod go-w"):
            connection.read_secret()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_password_of_another_account_is_refused(password_file: Path, tmp_path: Path) -> None:
    """A link that the account made is not followed either: it could lead to any file of root's."""
    link = tmp_path / "link"
    link.symlink_to(password_file)
    assert Connection(password_file=str(link)).read_secret() == SECRET.encode()
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(FileUnsafe, match="a symbolic link"):
        Connection(password_file=str(link)).read_secret()
    os.chown(password_file, 65534, 65534)
    with pytest.raises(UsageProblem, match="belongs to uid 65534"):
        Connection(password_file=str(password_file)).read_secret()


def test_a_shell_may_give_the_password_through_a_pipe() -> None:
    """-y <(command)"""
    reading_end, writing_end = os.pipe()
    os.write(writing_end, SECRET.encode())
    os.close(writing_end)
    try:
        assert Connection(password_file=f"/dev/fd/{reading_end}").read_secret() == SECRET.encode()
    finally:
        os.close(reading_end)


def test_while_a_search_runs_its_password_is_nowhere_to_be_seen(password_file: Path) -> None:
    """Not in the arguments and environment of any process of this host, though it has been read and sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        uri = f"ldap://127.0.0.1:{listener.getsockname()[1]}"
        connection = Connection(uri, "cn=admin", password_file=str(password_file))
        meter = Meter("search")
        running = pool.submit(_read, connection, meter)
        asked, _ = listener.accept()
        with asked:
            assert SECRET.encode() in asked.recv(1000), "this is no bind request"
            assert _seen_in_proc(SECRET.encode()) == []
            meter.cancel()
            with pytest.raises(Cancelled):
                running.result(120)


def _read(connection: Connection, meter: Meter) -> None:
    with reading(connection, meter, "o=x") as (channel, counters):
        channel.digest(Search("o=x"), _native.EntryDigests([], counters))


def _seen_in_proc(secret: bytes) -> list[Path]:
    contents = {}
    for process in Path("/proc").glob("[0-9]*"):
        for path in (process / "cmdline", process / "environ"):
            with suppress(OSError):  # ended meanwhile, or not ours to see
                contents[path] = path.read_bytes()
    assert len(contents) > 2
    return [path for path, content in contents.items() if secret in content]
