"""Child processes, and the signals that end a run. A child gets its own process group and is killed when ditseed ends.
A signal unwinds the stack of the main thread, but not while a child is started.

Never pass passwords in `argv`, which every user of the host can read (ps); use stdin or a file."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from msgspec import Struct

from loader import plain
from loader.errors import ToolFailed, ToolMissing

_pending: list[int] = []  # signals that arrived while they were deferred
_defer_depth = 0


def unwind(number: int, frame: FrameType | None) -> None:
    """Signal handler: raises KeyboardInterrupt with the signal's name; while signals are deferred, only records it."""
    if _defer_depth:
        _pending.append(number)
    else:
        raise KeyboardInterrupt(signal.Signals(number).name)


def handle_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, unwind)


@contextmanager
def deferred() -> Iterator[list[Callable[[], None]]]:
    """Defers signals until the body has ended. If a signal arrived, calls the functions that the body appended to the
    list, then raises KeyboardInterrupt. Does nothing outside the main thread: other threads get no signals."""
    global _defer_depth
    cleanups: list[Callable[[], None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield cleanups
        return
    _defer_depth += 1
    try:
        yield cleanups
    finally:
        for clean_up in cleanups if _pending and _defer_depth == 1 else ():
            clean_up()
        _defer_depth -= 1
        if _pending and not _defer_depth:
            name = signal.Signals(_pending[0]).name
            _pending.clear()
            raise KeyboardInterrupt(name)


_log = logging.getLogger(__name__)
_FIFO_INTERVAL = 0.25  # seconds between two checks for a child that waits for a FIFO
_MIN_PAUSE, _MAX_PAUSE = 0.0005, 0.05  # seconds between two checks whether a child has ended
_SETPRIV = "setpriv"
_SHOWN_LINES = 3  # maximum lines of a tool's stderr in a message
_NO_STDERR = "it printed nothing"
_FIFO = "it opened a FIFO instead of a regular file and waited for the other end, so ditseed killed it"


def _tool(argv: Sequence[str]) -> str:
    """Returns the tool's name for messages; `setpriv OPTIONS --` is skipped because the operator never typed it."""
    command = argv[argv.index("--") + 1 :] if _SETPRIV in argv and "--" in argv else argv
    return os.path.basename(command[0])


class Child:
    """A context manager for one running tool. The end of the body kills the tool's process group. The tool also dies
    with the thread that started it, so this thread must wait for it. Default streams: /dev/null. Raises ToolMissing."""

    def __init__(
        self, argv: Sequence[str], *, stdin: int | IO[bytes] | None = None, stdout: int | IO[bytes] | None = None
    ) -> None:
        import subprocess  # imported here to keep --help fast

        self.argv = list(argv)
        self._stderr: deque[str] = deque(maxlen=200)
        self._group_ended = False
        if shutil.which(argv[0]) is None:
            raise ToolMissing(tool=argv[0])
        _log.info("running %s", plain.with_operator_paths(shlex.join(argv)))
        with deferred() as cleanups:  # a signal inside Popen would lose the forked child
            self.process = subprocess.Popen(
                # setpriv(1) sets the parent death signal, so that a slapadd stops writing after `kill -9` of ditseed.
                [_SETPRIV, "--pdeathsig", "KILL", "--", *self.argv],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            cleanups.append(self._abandon)
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()

    def _abandon(self) -> None:
        with self.process:  # closes the pipes, and waits for the tool
            self.process.kill()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._stderr.append(line.decode("utf-8", "replace").rstrip())

    @property
    def stderr_lines(self) -> list[str]:
        """The last lines that the tool wrote to stderr."""
        return list(self._stderr)

    @property
    def has_ended(self) -> bool:
        """Whether the tool has ended. Asks the kernel, because Popen's `poll()` takes a lock: if a signal handler
        raises just then, the lock is never released, and the next `wait()` hangs."""
        try:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, flags) is not None
        except ChildProcessError:  # another thread has reaped the process
            return True

    def wait(self) -> int:
        """Waits until the tool has ended and its stderr has been read. Returns its exit status."""
        pause, watched = _MIN_PAUSE, time.monotonic()
        while not self.has_ended:
            time.sleep(pause)
            pause = min(1.2 * pause, _MAX_PAUSE)  # so that the wait is at most a fifth longer than the tool's run
            if time.monotonic() - watched > _FIFO_INTERVAL:
                watched = time.monotonic()
                channels: list[str] = []
                with suppress(OSError):
                    channels = [path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/wchan")]
                # wait_for_partner (fs/pipe.c): until another process opens the FIFO. No tool of slapd needs a FIFO.
                if "wait_for_partner" in channels:
                    self._stderr.append(_FIFO)
                    self._kill_group()
        status = self.process.wait()
        self._kill_group()
        self._reader.join(timeout=5)
        return status

    def check(self) -> None:
        """Waits for the tool. Raises ToolFailed with its last lines of stderr if the exit status is not 0."""
        status = self.wait()
        if status != 0:
            reason = "; ".join(line for line in self.stderr_lines[-_SHOWN_LINES:] if line) or _NO_STDERR
            raise ToolFailed(tool=_tool(self.argv), status=_status_name(status), reason=reason)

    def kill(self) -> None:
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        """Kills the process group, but only once: later, an unrelated process group may have its ID."""
        if not self._group_ended:
            self._group_ended = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join(timeout=5)
        stderr = None if self._reader.is_alive() else self.process.stderr
        for stream in (self.process.stdin, self.process.stdout, stderr):
            if stream is not None:
                stream.close()


def _status_name(status: int) -> str:
    """Returns the exit status as text, or the name of the signal that killed the process."""
    return str(status) if status >= 0 else signal.Signals(-status).name


class ToolOutput(Struct, frozen=True):
    """The exit status, stdout and stderr of a tool."""

    status: int
    out: bytes
    stderr_lines: list[str]


def run(argv: Sequence[str], *, stdin: bytes = b"") -> ToolOutput:
    """Runs a short-lived tool and returns its whole output. Raises ToolMissing."""
    with os.fdopen(os.memfd_create("stdin"), "r+b") as question, os.fdopen(os.memfd_create("stdout"), "r+b") as out:
        question.write(stdin)
        question.seek(0)
        with Child(argv, stdin=question, stdout=out) as tool:
            status = tool.wait()
        out.seek(0)  # the tool shares the file position, and has moved it
        return ToolOutput(status, out.read(), tool.stderr_lines)


def run_detached(argv: Sequence[str], env: Mapping[str, str] | None = None) -> ToolOutput:
    """Runs a command of the operator. A daemon that the command starts survives the command and ditseed, and may keep
    stdout open. `stderr_lines` of the result has both stdout and stderr. Raises ToolMissing."""
    if shutil.which(argv[0]) is None:
        raise ToolMissing(tool=argv[0])
    _log.info("running %s", shlex.join(argv))
    import subprocess

    with tempfile.TemporaryFile() as both:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=both,
            stderr=both,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            check=False,
        )
        both.seek(0)
        return ToolOutput(done.returncode, b"", both.read().decode("utf-8", "replace").splitlines())


def output(argv: Sequence[str], *, stdin: bytes = b"") -> bytes:
    """Returns the stdout of a short-lived tool. Raises ToolMissing, and ToolFailed if its exit status is not 0."""
    result = run(argv, stdin=stdin)
    if result.status != 0:
        lines = [line.strip() for line in result.stderr_lines if line.strip()]
        # The first line stays, because slapd prints the error before the grammar of the directive.
        lines = [lines[0], "...", *lines[1 - _SHOWN_LINES :]] if len(lines) > _SHOWN_LINES else lines
        raise ToolFailed(tool=_tool(argv), status=_status_name(result.status), reason="; ".join(lines) or _NO_STDERR)
    return result.out
