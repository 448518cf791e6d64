"""ditseed without the start of an interpreter: a process that has imported everything forks for each run.

A run costs some 10 ms instead of 100 to 300, and the tests have some 2,500 of them. What forks has one thread and has
done nothing but import. Its grandchildren become children of the process that asked, which waits for them and signals
them as any other: it is their subreaper for that moment (prctl(2)). Where a new interpreter would begin differently,
`fits` says so.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import inspect
import io
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from setproctitle import getproctitle, setproctitle

# Read when an interpreter or a library starts, and not again.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "LDAP", "HOME", "COVERAGE", "MALLOC", "RUST")
_ROOM = (
    "x" * 8192
)  # /proc/PID/cmdline of a run has the place of the words and the environment of what forked
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36


def fits(environment: Mapping[str, str]) -> bool:
    """Would a new interpreter in that environment begin as this one has?"""
    return (
        sys.platform == "linux"
        and _at_start(environment) == _at_start(os.environ)
        and not Path("ldaprc").exists()
    )


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


class Process(subprocess.Popen[Any]):
    """As subprocess.Popen, of a command line of ditseed."""

    def _execute_child(self, *given: Any) -> None:
        asked = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments
        handed = [
            number if asked[name] == -1 else asked[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        self.pid = _server().fork(asked["args"], asked["env"], handed)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(asked[name] for name in pipes))


class _Server:
    """The process that forks, from the side that asks."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "ROOM_FOR_A_NAME": _ROOM},
                cwd=Path(__file__).parents[2],
            )

        atexit.register(self._end)

    def _end(self) -> None:
        self._asked.close()
        self._process.wait()

    def fork(
        self, words: Sequence[str], environment: Mapping[str, str], handed: Sequence[int]
    ) -> int:
        """Process ID of a new child of ours that runs these words."""
        mask = os.umask(0)
        os.umask(mask)
        asked = json.dumps([list(words), dict(environment), os.getcwd(), mask]).encode()
        with self._turn, tempfile.TemporaryFile() as file, _subreaper():
            file.write(asked)  # longer than a message may be
            file.flush()
            socket.send_fds(self._asked, [b"?"], [file.fileno(), *handed])
            return int(self._asked.recv(32))


@contextlib.contextmanager
def _subreaper() -> Any:
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_running: _Server | None = None
_starting = threading.Lock()


def _server() -> _Server:
    global _running
    with _starting:
        if _running is None:
            _running = _Server()
        return _running


# --- in the process that forks ----------------------------------------------------------------


def main() -> None:
    """Import, then fork for everyone who asks, until nobody can any more."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    getproctitle()  # finds its room, which the environment of a run does not show
    os.environ.pop("ROOM_FOR_A_NAME")
    _import_all()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        while message := socket.recv_fds(asked, 32, 4)[1]:
            asked.send(str(_forked(asked, message)).encode())
            for descriptor in message:
                os.close(descriptor)


def _import_all() -> None:
    """Every module of ours, for most verbs import what they need late."""
    import loader
    import seeders

    for package in (loader, seeders):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)


def _forked(asked: socket.socket, message: list[int]) -> int:
    """Process ID of a grandchild whose parent has ended, when it has."""
    there, here = os.pipe()
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            asked.close()
            os.close(there)
            _run(here, *message)
        os._exit(0)
    os.close(here)
    os.waitpid(middle, 0)
    with os.fdopen(there) as told:
        return int(told.read())


def _run(here: int, asked: int, *standard: int) -> None:
    """What a new interpreter would do. Its process ID is told once the process bears its own name."""
    try:
        _begin(asked, standard)
        os.write(here, str(os.getpid()).encode())
        os.close(here)
        from loader.cli import main as command

        command()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _begin(asked: int, standard: Sequence[int]) -> None:
    with os.fdopen(asked, "rb") as file:
        file.seek(0)
        words, environment, directory, mask = json.loads(file.read())
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    for descriptor in set(standard) - {0, 1, 2}:
        os.close(descriptor)
    os.chdir(directory)
    os.umask(mask)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    setproctitle(" ".join([sys.executable, *words]))
    sys.argv[:] = words
    sys.path[0] = str(Path(words[0]).parent)
    tempfile.tempdir = None
    sys.stdin, sys.stdout, sys.stderr = (
        _text(0, "r", "strict"),
        _text(1, "w", "strict"),
        _text(2, "w", "backslashreplace"),
    )


def _text(number: int, mode: str, errors: str) -> Any:
    """As Python's create_stdio."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and mode == "w"
    raw: Any = io.FileIO(number, mode, closefd=False)
    buffered = (
        io.BufferedReader(raw) if mode == "r" else raw if unbuffered else io.BufferedWriter(raw)
    )
    return io.TextIOWrapper(
        buffered,
        encoding=sys.__stdout__.encoding,
        errors=errors,
        line_buffering=number == 2 or raw.isatty(),
        write_through=unbuffered,
    )


if __name__ == "__main__":
    main()
