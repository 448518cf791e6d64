"""Child processes, and the signals that end a run. A child gets its own process group and is killed when ditseed ends.
A signal unwinds the stack of the main thread, but never in the middle of starting a child.

Never pass passwords in `argv`; use an inherited descriptor."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from msgspec import Struct

from loader import plain
from loader.errors import ToolFailed, ToolMissing

_came: list[int] = []  # signals that arrived while they were deferred
_deferring = 0


def unwind(number: int, frame: FrameType | None) -> None:
    """Signal handler: raises KeyboardInterrupt with the name of the signal, unless signals are deferred."""
    if _deferring:
        _came.append(number)
    else:
        raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def deferred() -> Iterator[list[Callable[[], None]]]:
    """Defers signals until the body has ended. If a signal arrived, calls the functions that the body has appended to
    the list, and then raises KeyboardInterrupt. Does nothing in other threads, where signals raise nothing."""
    global _deferring
    undoing: list[Callable[[], None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield undoing
        return
    _deferring += 1
    try:
        yield undoing
    finally:
        for undo in undoing if _came and _deferring == 1 else ():
            undo()
        _deferring -= 1
        if _came and not _deferring:
            name = signal.Signals(_came[0]).name
            _came.clear()
            raise KeyboardInterrupt(name)


_log = logging.getLogger(__name__)
_LOOK = 0.25  # seconds between two checks whether a child waits for a FIFO
_SHORTEST, _LONGEST = 0.0005, 0.05  # seconds between two checks whether a child has ended
_SETPRIV = "setpriv"
_LAST = 3  # lines of a tool's stderr in a message
_SILENT = "it said nothing"
_FIFO = "it opened a FIFO instead of a regular file and waited for the other end, so ditseed killed it"


def _tool(argv: Sequence[str]) -> str:
    """Returns the tool's name for messages; `setpriv OPTIONS --` is skipped because the operator never typed it."""
    words = argv[argv.index("--") + 1 :] if _SETPRIV in argv and "--" in argv else argv
    return os.path.basename(words[0])


class Child:
    """One running tool, a context manager. Leaving the body kills the tool's process group. The tool also dies with the
    thread that started it, so that thread must wait for it. No `stdin`, `stdout`: /dev/null. Raises ToolMissing."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        pass_fds: Iterable[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        import subprocess  # imported here to keep --help fast

        self.argv = list(argv)
        self._words: deque[str] = deque(maxlen=200)
        self._group_ended = False
        if shutil.which(argv[0]) is None:
            raise ToolMissing(tool=argv[0])
        _log.info("running %s", plain.with_operator_paths(shlex.join(argv)))
        with deferred() as undoing:  # Popen interrupted by a signal would lose the forked child
            self.process = subprocess.Popen(
                # setpriv(1) sets the parent death signal: after a `kill -9` of ditseed, no slapadd may go on writing.
                [_SETPRIV, "--pdeathsig", "KILL", "--", *self.argv],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.PIPE,
                pass_fds=tuple(pass_fds),
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
            undoing.append(self._abandon)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _abandon(self) -> None:
        with self.process:  # closes its pipes, and waits for it
            self.process.kill()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._words.append(line.decode("utf-8", "replace").rstrip())

    @property
    def tool(self) -> str:
        return _tool(self.argv)

    @property
    def words(self) -> list[str]:
        """The last lines that the tool wrote to stderr."""
        return list(self._words)

    @property
    def has_ended(self) -> bool:
        """Whether the tool has ended, according to the kernel. Popen's `poll()`, and `wait()` with a timeout, take a
        lock. If a signal handler raises just after that, the lock is never released, and the next `wait()` hangs."""
        try:
            asked = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, asked) is not None
        except ChildProcessError:  # another thread has reaped the process
            return True

    def wait(self) -> int:
        """Waits until the tool has ended and its stderr has been read. Returns its exit status."""
        pause, watched = _SHORTEST, time.monotonic()
        while not self.has_ended:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
            if time.monotonic() - watched > _LOOK:
                watched = time.monotonic()
                waits: list[str] = []
                with suppress(OSError):
                    waits = [path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/wchan")]
                # A thread opens a FIFO without a peer (fs/pipe.c). No tool that we run needs to.
                if "wait_for_partner" in waits:
                    self._words.append(_FIFO)
                    self._kill_group()
        status = self.process.wait()
        self._kill_group()
        self._listener.join(timeout=5)
        return status

    def check(self) -> None:
        """Waits for the tool. Raises ToolFailed with its last lines of stderr if the exit status is not 0."""
        status = self.wait()
        if status != 0:
            reason = "; ".join(word for word in self.words[-_LAST:] if word) or _SILENT
            raise ToolFailed(tool=self.tool, status=_named(status), reason=reason)

    def kill(self) -> None:
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        """Kills the process group, but only once: later the kernel may have given its ID to another group."""
        if not self._group_ended:
            self._group_ended = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._listener.join(timeout=5)
        heard = None if self._listener.is_alive() else self.process.stderr
        for stream in (self.process.stdin, self.process.stdout, heard):
            if stream is not None:
                stream.close()


def _named(status: int) -> str:
    """Returns the exit status as text, or the name of the signal that killed the process."""
    return str(status) if status >= 0 else signal.Signals(-status).name


class Answer(Struct, frozen=True):
    """Output of a tool that has ended, with whatever status."""

    status: int
    out: bytes
    words: list[str]  # lines of stderr


def ask(argv: Sequence[str], *, stdin: bytes = b"") -> Answer:
    """Runs a short-lived tool and returns its whole output. Raises ToolMissing."""
    with os.fdopen(os.memfd_create("stdin"), "r+b") as question, os.fdopen(os.memfd_create("stdout"), "r+b") as out:
        question.write(stdin)
        question.seek(0)
        with Child(argv, stdin=question, stdout=out) as tool:
            status = tool.wait()
        out.seek(0)  # the tool has moved the position, which is shared
        return Answer(status, out.read(), tool.words)


def run_detached(argv: Sequence[str]) -> Answer:
    """Runs a command of the operator that may start a daemon. The daemon survives the command and ditseed, and may keep
    stdout open. `words` of the result has both stdout and stderr. Raises ToolMissing."""
    if shutil.which(argv[0]) is None:
        raise ToolMissing(tool=argv[0])
    _log.info("running %s", shlex.join(argv))
    import subprocess

    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, check=False
        )
        said.seek(0)
        return Answer(done.returncode, b"", said.read().decode("utf-8", "replace").splitlines())


def output(argv: Sequence[str], *, stdin: bytes = b"") -> bytes:
    """Returns the stdout of a short-lived tool. Raises ToolMissing, and ToolFailed if its exit status is not 0."""
    answer = ask(argv, stdin=stdin)
    if answer.status != 0:
        said = [word.strip() for word in answer.words if word.strip()]
        # Includes the first line, because slapd prints the error before the grammar of the directive.
        said = [said[0], "...", *said[1 - _LAST :]] if len(said) > _LAST else said
        raise ToolFailed(tool=_tool(argv), status=_named(answer.status), reason="; ".join(said) or _SILENT)
    return answer.out
