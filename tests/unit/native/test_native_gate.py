"""The gate between Python and the core: other threads run, cancelling and Ctrl-C get through."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

from loader import _native

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


def test_cancelled_counters_stay_so(put, counters):
    counters.cancel()
    for _ in range(2):
        with pytest.raises(_native.NativeError) as caught:
            _native.scan([put("a", "dn: dc=x\ndc: x")], counters)
        assert caught.value.code == "cancelled"


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


def test_ctrl_c_ends_a_call():
    """In an interpreter of its own, so that the signal hits nobody else."""
    script = (
        "import os, sys\n"
        "from loader import _native\n"
        "reader, writer = os.pipe()\n"
        "try:\n"
        "    print('waiting', flush=True)\n"
        "    _native.tree([], _native.Counters()).add_fd(reader)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(42)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
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


def test_errors_made_by_hand_have_the_attributes():
    error = _native.NativeError("text")
    assert (error.code, error.message) == ("", "")
    assert {error.path, error.line, error.dn, error.result, error.errno} == {None}


@pytest.mark.slow
def test_the_stub_tells_what_the_module_has():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "loader._native"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_version():
    assert _native.version().count(".") == 2
