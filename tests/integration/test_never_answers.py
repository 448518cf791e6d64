"""A server that takes a connection and then says nothing: every verb ends soon after Ctrl-C, and by itself in the end.

slapd does none of this, so a few bytes on a socket play it.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fixtures.trees import record
from tests.support.command import start

BASE = "dc=example,dc=com"
# ExtendedResponse to StartTLS as message 1, success (RFC 4511, 4.12); BindResponse to message 1, success.
GRANTED = bytes.fromhex("300c02010178070a010004000400")
BOUND = bytes.fromhex("300c02010161070a010004000400")
# Where it falls silent: scheme, options, what it says before.
PHASES: dict[str, tuple[str, tuple[str, ...], tuple[bytes, ...]]] = {
    "bind": ("ldap", (), ()),
    "StartTLS": ("ldap", ("-ZZ",), ()),
    "StartTLS handshake": ("ldap", ("-ZZ",), (GRANTED,)),
    "ldaps handshake": ("ldaps", (), ()),
    "question": ("ldap", (), (BOUND,)),
}
VERBS: dict[str, tuple[str, ...]] = {
    "export": ("export", "-H", "{uri}", "-b", BASE, "-o", "{home}/out"),
    "add": ("add", "{home}/one.ldif", "-H", "{uri}"),
    "add to the default server": ("add", "{home}/one.ldif"),
    "compare": ("compare", "{uri}", "{home}/one.ldif", "-b", BASE),
    "compare with a second": ("compare", "{uri}", "{uri}", "-b", BASE),
    "seed": (
        *("replica", "seed", "--strategy", "search", "-H", "{uri}", "-b", BASE),
        *("--config", "{home}/slapd.conf"),
    ),
    "seed online": (*("replica", "seed", "--strategy", "online", "-H", "{uri}", "-b", BASE), *("--consumer", "{uri}")),
    "verify": ("replica", "verify", "-H", "{uri}", "-b", BASE, "--consumer", "{uri}"),
    "maxsize": ("tune", "maxsize", "-H", "{uri}"),
    "indexes": ("tune", "indexes", "-H", "{uri}"),
    "sync": ("tune", "sync", "-H", "{uri}"),
}
CONFIG = f"include /etc/ldap/schema/core.schema\nmoduleload back_mdb\ndatabase mdb\nsuffix {BASE}\ndirectory {{home}}\n"
LIMIT = 1  # second, of each thing that a server may make us wait for
SOON = 30.0  # seconds; what nobody stops waits 300


@contextmanager
def mute(*answers: bytes) -> Iterator[tuple[int, threading.Event]]:
    """Takes every connection, says an answer to whatever it hears as long as it has some, then nothing. The event:
    it was asked what it will not answer."""
    asked, over = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            for answer in answers:
                connection.recv(65536)
                connection.sendall(answer)
            connection.recv(65536, socket.MSG_PEEK)
            asked.set()
            over.wait(100)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],)).start()

        running = threading.Thread(target=accept)
        running.start()
        try:
            yield listener.getsockname()[1], asked
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            running.join()


def _begin(verb: str, phase: str, port: int, home: Path, **limits: str) -> subprocess.Popen[str]:
    scheme, options, _ = PHASES[phase]
    (home / "slapd.conf").write_text(CONFIG.format(home=home))
    (home / "one.ldif").write_text(record(f"ou=one,{BASE}", [("objectClass", "organizationalUnit"), ("ou", "one")]))
    uri = f"{scheme}://127.0.0.1:{port}"
    command = [*(word.format(uri=uri, home=home) for word in VERBS[verb]), *options]
    return start(*command, env={"LDAPURI": uri, **limits})


@pytest.mark.rows(7)
@pytest.mark.long("seed-StartTLS")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c(tmp_path: Path, verb: str, phase: str) -> None:
    with mute(*PHASES[phase][2]) as (port, asked):
        process = _begin(verb, phase, port, tmp_path)
        assert asked.wait(120), process.communicate(timeout=1)
        time.sleep(0.1)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert time.monotonic() - begun < SOON, err
    assert "ditseed: stopped by Ctrl-C [cancelled]" in err
    assert "Traceback" not in err


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("verb", "phase"),
    [*(("export", phase) for phase in PHASES), *((verb, "bind") for verb in VERBS if verb != "export")],
)
def test_a_time_limit(tmp_path: Path, verb: str, phase: str) -> None:
    """ldap.conf's, in the place of our own."""
    began = time.monotonic()
    with mute(*PHASES[phase][2]) as (port, _):
        process = _begin(verb, phase, port, tmp_path, LDAPNETWORK_TIMEOUT=f"{LIMIT}", LDAPTIMEOUT=f"{LIMIT}")
        _, err = process.communicate(timeout=300)
    told = re.search(r"within (\d+) s", err)
    assert told, err
    # A TLS handshake that stood still for a second was told as one of 300 s.
    assert LIMIT <= int(told[1]) <= time.monotonic() - began + 0.5
    code = "server.connection_lost" if phase == "question" else "server.down"
    assert f"[{code}]" in err, err
    assert "hint: " in err
    assert "Traceback" not in err
