"""Child processes: their words are kept, they end with us, and nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.waiting import until
from loader import child
from loader.child import Child
from loader.errors import ToolFailed, ToolMissing
from tests.support.processes import has_ended


def number_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_a_missing_tool_is_named() -> None:
    for start in (Child, child.run, child.output):
        with pytest.raises(ToolMissing, match="no-such-tool is not installed"):
            start(["no-such-tool"])


def test_the_last_words_say_why_it_failed() -> None:
    """What is wrong comes before the grammar."""
    script = "for n in 1 2 3 4; do echo word $n >&2; done; exit 7"
    with Child(["sh", "-c", script]) as one, pytest.raises(ToolFailed) as caught:
        one.check()
    assert str(caught.value) == "sh ended with status 7: word 2; word 3; word 4"
    with Child(["false"]) as one, pytest.raises(ToolFailed, match="status 1: it printed nothing"):
        one.check()
    script = "echo line 2: expecting a name >&2; seq 30 >&2; echo bad configuration >&2; exit 1"
    with pytest.raises(ToolFailed) as caught:
        child.output(["sh", "-c", script])
    assert caught.value.facts["reason"] == "line 2: expecting a name; ...; 30; bad configuration"


def test_memory_stays_small_however_much_it_says() -> None:
    with Child(["sh", "-c", "seq 100000 >&2"]) as one:
        one.check()
        assert one.stderr_lines[-1] == "100000"
        assert len(one.stderr_lines) < 1000


def test_its_output_is_ours_to_read() -> None:
    with Child(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        assert one.process.stdin is not None
        assert one.process.stdout is not None
        one.process.stdin.write(b"dn: o=x\n")
        one.process.stdin.close()
        assert one.process.stdout.read() == b"dn: o=x\n"
        assert one.wait() == 0


def test_to_leave_early_ends_the_whole_group(tmp_path: Path) -> None:
    """The group is the child's own: Ctrl-C on our terminal is for us, and what becomes of the child we decide."""
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    with Child(["sh", "-c", script]) as one:
        grandchild = number_in(tmp_path / "pid")
        assert not has_ended(grandchild, seconds=0)
        assert os.getpgid(one.process.pid) == one.process.pid != os.getpgrp()
    assert has_ended(grandchild)
    assert has_ended(one.process.pid, seconds=0)


@pytest.fixture
def unwinding() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, child.unwind)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("unwinding")
def test_a_signal_while_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, although nobody has it yet."""

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            os.kill(os.getpid(), signal.SIGTERM)
            number_in(tmp_path / "pid")  # the handler runs while this waits

    monkeypatch.setattr(subprocess, "Popen", Slow)
    with (
        pytest.raises(KeyboardInterrupt, match="SIGTERM"),
        Child(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"]),
    ):
        pytest.fail("it was interrupted before")
    assert has_ended(number_in(tmp_path / "pid"))


class _Lock:
    """Popen's lock, which has to be given back by itself: behind `acquire` a signal handler may raise."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, *given: Any) -> bool:
        pytest.fail("a signal behind this would leave the lock held, and the next wait() would never end")

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *given: object) -> None:
        self._lock.release()


def test_a_signal_while_it_is_waited_for_leaves_no_lock_held() -> None:
    """Seen once in some hundred runs of `build --engine slapadd` that were stopped: they stood still."""
    with Child(["sleep", "0.1"]) as one:
        one.process._waitpid_lock = _Lock(one.process._waitpid_lock)  # type: ignore[attr-defined]
        assert one.wait() == 0
        assert one.has_ended
    with Child(["sleep", "60"]) as one:
        one.process._waitpid_lock = _Lock(one.process._waitpid_lock)  # type: ignore[attr-defined]
    assert one.process.returncode == -signal.SIGKILL


def test_one_that_leaves_others_behind_does_not_hold_us_up(tmp_path: Path) -> None:
    """They hold its stderr open."""
    began = time.monotonic()
    with Child(["sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid"]) as one:
        assert one.wait() == 0
    assert time.monotonic() - began < 60
    assert has_ended(number_in(tmp_path / "pid"))


def test_an_error_in_the_body_ends_it_too() -> None:
    with pytest.raises(KeyError), Child(["sleep", "60"]) as one:
        raise KeyError
    assert one.process.returncode == -signal.SIGKILL


PARENT = """
import sys, time
from loader.child import Child
with Child(["sleep", "60"]) as one:
    print(one.process.pid, flush=True)
    time.sleep(60)
"""


def test_kill_9_of_the_parent_ends_the_child() -> None:
    """A slapadd that goes on writing after its ditseed was killed would spoil the next run."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        until(lambda: Path(f"/proc/{orphan}/comm").read_text() == "sleep\n")
        parent.kill()
    assert has_ended(orphan)


def test_what_a_short_lived_tool_says() -> None:
    answer = child.run(["sh", "-c", "cat; echo why >&2; exit 3"], stdin=b"in")
    assert (answer.status, answer.out, answer.stderr_lines) == (3, b"in", ["why"])
    assert child.output(["cat"], stdin=b"in") == b"in"
    with pytest.raises(ToolFailed, match="sh ended with status 3: why"):
        child.output(["sh", "-c", "echo why >&2; exit 3"])
    # A slow reader gets all of it: more than a pipe holds, and later than the first look.
    assert int(child.output(["sh", "-c", "sleep 1; wc -c"], stdin=bytes(1 << 20))) == 1 << 20


@pytest.mark.parametrize(
    ("command", "said"),
    [
        # Tools run as the owner of a database; their operators have never called setpriv.
        (["setpriv", "--pdeathsig=KILL", "--", "/bin/sh", "-c", "exit 3"], "^sh ended"),
        # slapd's tools open files in directories of an account that can put one there.
        (["sh", "-c", "mkfifo DUMMY; echo x > DUMMY"], "opened a FIFO instead of a regular file"),
    ],
    ids=["setpriv", "fifo"],
)
def test_what_is_told_of_a_tool(tmp_path: Path, command: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ToolFailed, match=said):
        child.output(command)
    (tmp_path / "DUMMY").unlink(missing_ok=True)
    with Child(command) as one, pytest.raises(ToolFailed, match=said):
        one.check()
