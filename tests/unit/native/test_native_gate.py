"""The gate between Python and the core: other threads run, cancelling and Ctrl-C get through; and its build."""

from __future__ import annotations

import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loader import _native
from tests.support.packaging import setup_cfg

SHORT = 30.0  # seconds in which a call must end that was told to


@pytest.fixture
def silent_pipe():
    """A pipe whose other end is open and says nothing."""
    reader, writer = os.pipe()
    yield reader
    os.close(reader)
    os.close(writer)


def later(act) -> threading.Timer:
    timer = threading.Timer(0.2, act)
    timer.start()
    return timer


def test_cancelling_ends_a_wait_for_input(silent_pipe, tmp_path, counters):
    begun = time.monotonic()
    later(counters.cancel)  # the timer's thread runs, so the lock is free
    with pytest.raises(_native.NativeError) as caught:
        _native.shard(silent_pipe, tmp_path / "out", [], counters)
    assert caught.value.code == "cancelled"
    assert time.monotonic() - begun < SHORT


def test_counters_move_while_a_call_runs(tmp_path, counters):
    reader, writer = os.pipe()
    record = b"dn: cn=a,dc=x\nl: " + b"a" * 500 + b"\n\n"
    call = threading.Thread(target=_native.shard, args=(reader, tmp_path / "out", [], counters))
    call.start()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(record * 1000)
        pipe.flush()
        deadline = time.monotonic() + SHORT
        while counters.entries == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 0 < counters.entries < 1000
        assert counters.bytes > 0
    call.join()
    os.close(reader)
    assert counters.entries == 1000


_WAITS = """
import os, sys
from loader import _native
reader, writer = os.pipe()
try:
    print("waiting", flush=True)
    _native.records(reader, None, 1, _native.Counters())
except KeyboardInterrupt:
    sys.exit(42)
"""


def test_ctrl_c_ends_a_call():
    """In an interpreter of its own, so that the signal hits nobody else."""
    child = subprocess.Popen([sys.executable, "-c", _WAITS], stdout=subprocess.PIPE)
    with child:
        assert child.stdout.readline() == b"waiting\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        assert child.wait(SHORT) == 42


def test_a_signal_handler_that_returns_lets_the_call_go_on(silent_pipe, tmp_path, counters):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(True))
    try:
        later(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        threading.Timer(0.6, counters.cancel).start()
        with pytest.raises(_native.NativeError, match="cancelled"):
            _native.shard(silent_pipe, tmp_path / "out", [], counters)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [True]


def test_errors_cross_process_borders(counters):
    with pytest.raises(_native.NativeError) as caught:
        _native.scan(["/nowhere"], counters)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.code, copy.path) == (str(caught.value), "ldif.io", "/nowhere")
    assert copy.errno == errno.ENOENT
    by_hand = _native.NativeError("text")
    assert (by_hand.code, by_hand.message) == ("", "")
    assert {by_hand.path, by_hand.line, by_hand.dn, by_hand.result, by_hand.errno} == {None}


@pytest.mark.slow
def test_the_stub_tells_what_the_module_has():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "loader._native"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_version_is_that_of_the_package():
    """Cargo.toml repeats it, for cargo wants one."""
    assert _native.version() == setup_cfg()["metadata"]["version"]


# The addresses of a port on which nothing listens; libldap must be there to find that out.
_ASKS = """
import ldap
from loader import _native
from loader.server import wire
from loader.server.options import Connection
try:
    _native.Channel(wire.core_options(Connection(uri="ldap://127.0.0.1:9")), _native.Counters())
except _native.NativeError as error:
    print(error.code)
print(*sorted({line.split()[-1] for line in open("/proc/self/maps") if "/libldap" in line}))
"""


@pytest.mark.slow
def test_the_core_takes_the_libldap_of_python_ldap() -> None:
    told = subprocess.run([sys.executable, "-c", _ASKS], capture_output=True, text=True, check=True)
    code, libraries = told.stdout.splitlines()
    assert code == "ldap.connect"
    assert len(libraries.split()) == 1
    assert Path(libraries).exists()


NATIVE = Path(__file__).parents[3] / "loader/native"
CRATES = sorted(path.parent for path in NATIVE.glob("*/Cargo.toml") if path.parent.name != "bridge")
FENCE = re.compile(r"^\s*//[/!] ```(.*)$", re.MULTILINE)


@pytest.mark.parametrize("crate", CRATES, ids=lambda path: path.name)
def test_only_a_crate_without_examples_is_passed_over(crate: Path) -> None:
    files = (crate / "src").rglob("*.rs")
    examples = any("" in FENCE.findall(file.read_text())[::2] for file in files)
    assert ("doctest = false" in (crate / "Cargo.toml").read_text()) != examples
