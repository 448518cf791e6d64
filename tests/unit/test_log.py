"""Nothing secret reaches the log, in whatever form it comes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from loader import log


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """`setup` replaces the root logger's handlers and the hook of threads; pytest has its own there."""
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, threading.excepthook
    yield
    threading.excepthook = hook
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    "line",
    [
        "userPassword: S3CRET",
        "userPassword:: S3CRET==",
        "userPassword: two S3CRET words",
        "userPassword;x-old: S3CRET",
        "userPassword: abc\n S3CRET folded",
        "olcRootPW: {SSHA}S3CRET",
        "rootpw S3CRET",
        'rootpw "my S3CRET"',
        "syncrepl rid=1 bindmethod=simple credentials=S3CRET provider=ldap://x",
        'olcSyncrepl: rid=1 credentials="my S3CRET" provider=ldap://x',
        "bindpw = S3CRET",
        "{'cn': [b'x'], 'userPassword': [b'S3CRET']}",
        "USERPASSWORD: S3CRET",
        "sambaNTPassword: S3CRET",
    ],
)
def test_a_secret_is_blanked(line: str) -> None:
    assert "S3CRET" not in log.redact(line)
    assert "***" in log.redact(line)


@pytest.mark.parametrize(
    "line",
    [
        "attribute 'userPassword' not allowed",
        "uid=17,ou=people,dc=example,dc=com",
        "invalid credentials",
        "bindmethod=simple provider=ldap://x",
        "-y /etc/ldap/rootpw -b dc=example",  # a file: of a command that is to be typed
        "-y ldap.rootpw -b dc=example",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    """Beside one, too."""
    assert log.redact(line) == line
    secret, blanked = "userPassword:: S3CRET\n S3CRET", "userPassword:: ***"
    assert log.redact(f"{line}\n{secret}\n{line}") == f"{line}\n{blanked}\n{line}"
    assert log.redact(f"credentials=S3CRET {line}").endswith(f" {line}")


def test_arguments_and_tracebacks_are_blanked_too(capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(0)
    try:
        raise ValueError("userPassword: S3CRET")
    except ValueError:
        logging.getLogger("test").warning("refused %s", "rootpw S3CRET", exc_info=True)
    said = capsys.readouterr().err
    assert "S3CRET" not in said
    assert "WARNING: refused rootpw ***" in said
    assert "ValueError: userPassword: ***" in said


def test_what_a_terminal_obeys_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Of arguments line breaks too; a traceback keeps its lines."""
    log.setup(0)
    logger = logging.getLogger("test")
    logger.warning("refused %s: %s\n%s, %d", "cn=\x1b[2J\nERROR: forged", "L" * 9999, "\u202e", 7)
    thread = threading.Thread(target=lambda: int("\x1b[2J\u202e"))
    thread.start()
    thread.join()
    said = capsys.readouterr().err
    assert "WARNING: refused cn=\\x1b[2J\\nERROR: forged: LLL" in said
    assert "\n\\u202e, 7\n" in said
    assert "ERROR: a thread ended with an error\nTraceback" in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert max(map(len, said.splitlines())) < 1000


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [(-1, "error"), (0, "error warning"), (1, "error warning info"), (2, "error warning info debug")],
)
def test_how_much_is_said(verbosity: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.setup(verbosity)
    logger = logging.getLogger("test")
    for level in ("error", "warning", "info", "debug"):
        getattr(logger, level)(level)
    out, err = capsys.readouterr()
    assert err.split()[1::2] == shown.split()
    assert out == "", "stdout is for reports"
