"""A connection keeps its password to itself: out of argument lists, out of what is printed and written down."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader import _native
from loader.errors import Cancelled, NoSuchPath, NotPermitted
from loader.progress import Meter
from loader.server.options import Connection
from loader.server.search import Search
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
        assert one.secret() == SECRET.encode()


def test_the_whole_file_is_the_password(password_file: Path) -> None:
    """A newline at its end too, as for ldapsearch -y."""
    password_file.write_bytes(b"word\n")
    assert Connection(password_file=str(password_file)).secret() == b"word\n"


def test_a_missing_password_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath, match="nowhere"):
        Connection(password_file=str(tmp_path / "nowhere")).secret()


def test_a_password_file_of_somebody_else_is_named(password_file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    password_file.parent.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(NotPermitted):
            Connection(password_file=str(password_file)).secret()
    finally:
        os.seteuid(0)


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
    with reading(connection, meter) as reader:
        reader.digest(Search("o=x"), _native.tree([], reader.counters))


def _seen_in_proc(secret: bytes) -> list[Path]:
    shown = [one / name for one in Path("/proc").glob("[0-9]*") for name in ("cmdline", "environ")]
    assert len(shown) > 4
    return [path for path in shown if secret in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # ended meanwhile, or not ours to see
