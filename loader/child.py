"""Child processes, and the signals that end a run: a child starts in a process group of its own and ends with us; a
signal unwinds the stack of the main thread and leaves nothing half begun.

Passwords never go into `argv`; give them through an inherited descriptor."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

from loader import plain
from loader.errors import ToolFailed, ToolMissing
from loader.progress import alongside

_came: list[int] = []  # while it was deferred
_deferring = 0


def unwind(number: int, frame: FrameType | None) -> None:
    """A signal handler."""
    if _deferring:
        _came.append(number)
    else:
        raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def deferred() -> Iterator[list[Callable[[], None]]]:
    """What is inside is done whole; a signal that came meanwhile unwinds the stack behind it. What is appended to the
    list is called before that, whole as well. In other threads, where no signal unwinds anything, it does nothing."""
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
_LOOK = 0.25  # seconds
_SHORTEST, _LONGEST = 0.0005, 0.05  # seconds between two looks whether it has ended
_SETPRIV = "setpriv"
_LAST = 3  # lines of a tool that a message has
_SILENT = "it said nothing"
_FIFO = "it was about to wait for a FIFO in the place of a file, and was ended"


def _waits_for_fifo(pid: int) -> bool:
    """Does it open a FIFO that nobody has at its other end? (fs/pipe.c; nothing that we run has to.)"""
    try:
        waits = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/wchan")]
    except OSError:
        return False
    return "wait_for_partner" in waits


def _tool(argv: Sequence[str]) -> str:
    """Its name; of `setpriv OPTIONS -- TOOL` that of the tool: an operator has not called setpriv."""
    words = argv[argv.index("--") + 1 :] if _SETPRIV in argv and "--" in argv else argv
    return os.path.basename(words[0])


def _with_parent(argv: Sequence[str]) -> list[str]:
    """`kill -9` of ditseed must not leave a slapadd writing behind it: setpriv(1) sets the parent death signal.

    It is tied to the thread that starts the child, so that thread also waits for it.
    """
    if shutil.which(argv[0]) is None:
        raise ToolMissing(tool=argv[0])
    _log.info("running %s", plain.with_operator_paths(shlex.join(argv)))
    return [_SETPRIV, "--pdeathsig", "KILL", "--", *argv]


def _started(argv: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Or not at all: Popen forgets what it has forked when a signal comes."""
    with deferred() as undoing:
        process = subprocess.Popen(_with_parent(argv), **how)
        undoing.append(lambda: _abandon(process))
    return process


def _abandon(process: subprocess.Popen[bytes]) -> None:
    with process:  # which closes its pipes, and waits
        process.kill()


class Child:
    """One running tool. Use as a context manager; leaving it early kills the whole group."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = subprocess.DEVNULL,
        pass_fds: Iterable[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.argv = list(argv)
        self._words: deque[str] = deque(maxlen=200)
        self._group_ended = False
        self.process = _started(
            self.argv,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pass_fds=tuple(pass_fds),
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._words.append(line.decode("utf-8", "replace").rstrip())

    @property
    def tool(self) -> str:
        return _tool(self.argv)

    @property
    def words(self) -> list[str]:
        """The last lines it wrote to stderr."""
        return list(self._words)

    @property
    def has_ended(self) -> bool:
        """As the kernel says. Popen's `poll()`, and its `wait()` with a timeout, acquire a lock by a call of its own: a
        signal handler that raises right behind it leaves the lock held, and the next `wait()` never ends."""
        try:
            asked = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, asked) is not None
        except ChildProcessError:  # another thread has waited for it
            return True

    def wait(self) -> int:
        """Exit status, once it has ended and all it said was read."""
        pause, watched = _SHORTEST, time.monotonic()
        while not self.has_ended:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
            if time.monotonic() - watched > _LOOK:
                watched = time.monotonic()
                if _waits_for_fifo(self.process.pid):
                    self._words.append(_FIFO)
                    self._kill_group()
        status = self.process.wait()
        self._kill_group()
        self._listener.join(timeout=5)
        return status

    def check(self) -> None:
        """Wait; raise ToolFailed with its last words unless it ended well."""
        status = self.wait()
        if status != 0:
            reason = "; ".join(word for word in self.words[-_LAST:] if word) or _SILENT
            raise ToolFailed(tool=self.tool, status=_named(status), reason=reason)

    def kill(self) -> None:
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        """Kills the rest of the group: once, as soon as the tool has ended, for later its number may be another's."""
        if not self._group_ended:
            self._group_ended = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._listener.join(timeout=5)
        heard = None if self._listener.is_alive() else self.process.stderr
        for stream in (self.process.stdin, self.process.stdout, heard):
            if stream is not None:
                stream.close()


def _named(status: int) -> str:
    """An exit status, or the signal that ended it."""
    return str(status) if status >= 0 else signal.Signals(-status).name


@dataclass(frozen=True)
class Answer:
    """What a short-lived tool said, however it ended."""

    status: int
    out: bytes
    words: list[str]  # lines of stderr


def ask(argv: Sequence[str], *, stdin: bytes = b"") -> Answer:
    """Run a short-lived tool and hear it out. Raises ToolMissing."""
    pipe = subprocess.PIPE
    with _started(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process, _watched(process) as words:
        out, said = process.communicate(stdin)
    return Answer(process.returncode, out, [*said.decode("utf-8", "replace").splitlines(), *words])


def run_detached(argv: Sequence[str]) -> Answer:
    """Run a command of the operator's that may leave a daemon behind: neither its end nor ours ends that, and nobody
    waits for what the daemon keeps open. Both its outputs are in `words`. Raises ToolMissing."""
    if shutil.which(argv[0]) is None:
        raise ToolMissing(tool=argv[0])
    _log.info("running %s", shlex.join(argv))
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, check=False
        )
        said.seek(0)
        return Answer(done.returncode, b"", said.read().decode("utf-8", "replace").splitlines())


@contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
    """Ends the process if it waits for a FIFO, and then yields a message about that."""
    words: list[str] = []

    def watch(ended: threading.Event) -> None:
        while not ended.wait(_LOOK):
            if _waits_for_fifo(process.pid):
                words.append(_FIFO)
                process.kill()
                return

    try:
        with alongside(watch):
            yield words
    except BaseException:
        process.kill()
        raise


def output(argv: Sequence[str], *, stdin: bytes = b"") -> bytes:
    """What a short-lived tool prints. Raises ToolMissing, ToolFailed."""
    answer = ask(argv, stdin=stdin)
    if answer.status != 0:
        said = [word.strip() for word in answer.words if word.strip()]
        # The first line, too: slapd says what is wrong before it prints the grammar of what would be right.
        said = [said[0], "...", *said[1 - _LAST :]] if len(said) > _LAST else said
        raise ToolFailed(tool=_tool(argv), status=_named(answer.status), reason="; ".join(said) or _SILENT)
    return answer.out
